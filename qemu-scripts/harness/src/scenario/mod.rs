//! The reports that the appliance was made for, each as a run with the report's own
//! figures, and a Linux guest beside the appliance; see docs/scenarios.md.

mod activity;
mod findings;
mod guests;
pub mod napi;
mod run;
pub mod sendpage;
mod streams;

use std::fmt::Display;
use std::hash::Hash;
use std::time::Duration;

use anyhow::Result;
use serde_json::Value;

pub use findings::{Failure, Findings, Rounds, SCHEMA};
pub use guests::{Common, Kind};
pub use run::{Outcome, run};

use crate::machine::{Image, Machine};
use crate::measure::Guest;

/// One of the reports: setups that are booted in turn, round after round, and points
/// that are measured in each.
pub trait Scenario: Clone + Send + 'static {
    /// What is booted.
    type Setup: Copy + Display + Ord + Hash + Send;
    /// What is measured of it.
    type Point: Copy + Display + Ord + Hash + Send;
    /// What one measurement finds.
    type Sample: Clone + Send;

    /// What a person calls it, which its files' names begin with.
    const NAME: &'static str;

    /// What it has in common with the others.
    fn common(&self) -> &Common;
    /// All setups, in the order they take their turns in.
    fn setups(&self) -> Vec<Self::Setup>;
    /// What is measured of `setup`, in that order.
    fn points(&self, setup: Self::Setup) -> Vec<Self::Point>;
    /// Whom `setup` boots.
    fn kind(&self, setup: Self::Setup) -> Kind;
    /// How it is booted.
    fn guest(&self, setup: Self::Setup) -> Result<(Image, Machine)>;
    /// What one measurement may be expected to take.
    fn length(&self) -> Duration;
    /// Measures once.
    fn measure(
        &self,
        guest: &mut Guest,
        setup: Self::Setup,
        point: Self::Point,
    ) -> Result<Self::Sample>;
    /// A sample in a word.
    fn said(&self, sample: &Self::Sample) -> String;
    /// What was found, for people.
    fn tables(&self, findings: &Findings<Self>) -> String;
    /// What was asked for and what was found, for programs: the fields `settings` and
    /// `results` of the report.
    fn json(&self, findings: &Findings<Self>) -> (Value, Vec<Value>);
    /// What was found as a picture in SVG, if there is one.
    ///
    /// # Errors
    ///
    /// It cannot be drawn.
    fn plot(&self, findings: &Findings<Self>) -> Result<Option<String>>;
}
