//! The scenarios' options.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};

use uniperf_harness::scenario::Common;
use uniperf_harness::scenario::sendpage::SendpageCpu;
use uniperf_harness::{Accelerator, Image, NicModel};

use super::{Peer, target_folder};

/// The reports.
#[derive(Debug, Subcommand)]
pub enum Scenario {
    /// What does it cost to send a file's pages, and to send and receive streams, with
    /// TSO and without?
    SendpageCpu(SendpageOptions),
}

impl Scenario {
    /// The folder for its files.
    pub fn folder(&self) -> PathBuf {
        let given = match self {
            Self::SendpageCpu(options) => &options.common.output,
        };
        given.clone().unwrap_or_else(|| target_folder("scenario"))
    }
}

/// What all scenarios take.
#[derive(Args, Debug)]
pub struct CommonOptions {
    /// The image to boot.
    #[arg(long, value_name = "FILE", env = "UNIPERF_IMAGE")]
    image: Option<PathBuf>,
    /// Less of all, under four minutes in all.
    #[arg(long)]
    quick: bool,
    /// Whom to compare with: linux or none.
    #[arg(long, value_enum, default_value_t)]
    peer: Peer,
    /// The NIC of all guests.
    #[arg(long, value_name = "NAME", default_value = "e1000")]
    nic: NicModel,
    /// Boot arguments of the appliance, after those of the scenario.
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true)]
    append: Vec<String>,
    /// How often each guest takes its turn.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: Option<u32>,
    /// Seconds a measurement.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: Option<u64>,
    /// What runs the guests; kvm only where the CPU can virtualize.
    #[arg(long, value_enum, default_value_t)]
    accel: Accelerator,
    /// Where the files go: target/scenario.
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
}

/// Rounds, and seconds a measurement, where the user does not say.
struct Defaults {
    rounds: u32,
    seconds: u64,
}

impl CommonOptions {
    fn common(&self, long: Defaults, quick: Defaults) -> Result<Common> {
        let defaults = if self.quick { quick } else { long };
        Ok(Common {
            image: match &self.image {
                Some(path) => Image::at(path),
                None => Image::built(),
            }?,
            nic: self.nic.clone(),
            accelerator: self.accel,
            append: self.append.join(" "),
            linux: self.peer == Peer::Linux,
            rounds: self.rounds.unwrap_or(defaults.rounds),
            seconds: self.seconds.unwrap_or(defaults.seconds),
        })
    }
}

/// With TSO or without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Tso {
    /// With it.
    On,
    /// Without.
    Off,
}

/// `--tso` as the scenarios take it: both, where nothing is said.
fn both_or(given: Option<Tso>) -> Vec<bool> {
    match given {
        None => vec![true, false],
        Some(tso) => vec![tso == Tso::On],
    }
}

/// What to measure of `sendpage-cpu`.
#[derive(Args, Debug)]
pub struct SendpageOptions {
    #[command(flatten)]
    common: CommonOptions,
    /// With TSO only, or without only.
    #[arg(long, value_enum, value_name = "on|off")]
    tso: Option<Tso>,
}

impl SendpageOptions {
    /// The scenario.
    pub fn scenario(&self) -> Result<SendpageCpu> {
        let long = Defaults {
            rounds: 5,
            seconds: 5,
        };
        let quick = Defaults {
            rounds: 3,
            seconds: 2,
        };
        Ok(SendpageCpu {
            common: self.common.common(long, quick)?,
            tso: both_or(self.tso),
        })
    }
}
