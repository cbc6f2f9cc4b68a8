//! The scenarios' options.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};

use uniperf_harness::scenario::Common;
use uniperf_harness::scenario::napi::{Direction, NapiWeight, Replenish};
use uniperf_harness::scenario::sendpage::SendpageCpu;
use uniperf_harness::{Accelerator, Image, NicModel, target_folder};

use super::Peer;

/// The reports.
#[derive(Debug, Subcommand)]
pub enum Scenario {
    /// What does it cost to send a file's pages, and to send and receive streams, with
    /// TSO and without?
    SendpageCpu(SendpageOptions),
    /// Does a smaller NAPI weight raise the throughput of many streams, and what does it
    /// matter when receive descriptors go back to the NIC?
    NapiWeight(NapiOptions),
}

impl Scenario {
    /// The folder for its files.
    pub fn folder(&self) -> PathBuf {
        let given = match self {
            Self::SendpageCpu(options) => &options.common.output,
            Self::NapiWeight(options) => &options.common.output,
        };
        given
            .clone()
            .unwrap_or_else(|| target_folder().join("scenario"))
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
    /// The NIC of all guests; again for a further table of another NIC.
    #[arg(long, value_name = "NAME", default_value = "e1000")]
    nic: Vec<NicModel>,
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
    /// What each NIC's scenario is told.
    fn common(&self, long: Defaults, quick: Defaults) -> Result<Vec<Common>> {
        let defaults = if self.quick { quick } else { long };
        let image = match &self.image {
            Some(path) => Image::at(path),
            None => Image::built(),
        }?;
        let common = |nic: &NicModel| Common {
            image: image.clone(),
            nic: nic.clone(),
            accelerator: self.accel,
            append: self.append.join(" "),
            linux: self.peer == Peer::Linux,
            rounds: self.rounds.unwrap_or(defaults.rounds),
            seconds: self.seconds.unwrap_or(defaults.seconds),
        };
        Ok(self.nic.iter().map(common).collect())
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
    /// The scenario, for each NIC.
    pub fn scenarios(&self) -> Result<Vec<SendpageCpu>> {
        let long = Defaults {
            rounds: 5,
            seconds: 5,
        };
        let quick = Defaults {
            rounds: 3,
            seconds: 2,
        };
        let scenario = |common| SendpageCpu {
            common,
            tso: both_or(self.tso),
        };
        let all = self.common.common(long, quick)?;
        Ok(all.into_iter().map(scenario).collect())
    }
}

/// What to measure of `napi-weight`. What is listed by commas is measured one by one.
#[derive(Args, Debug)]
pub struct NapiOptions {
    #[command(flatten)]
    common: CommonOptions,
    /// Streams each way, up to 20: 1,2,5,10, or 1,10 when quick.
    #[arg(long, value_name = "N,N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=20))]
    streams: Vec<u32>,
    /// NAPI weights of the appliance: 8,16,32,64, or 8,64 when quick.
    #[arg(long, value_name = "N,N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=4096))]
    weight: Vec<u32>,
    /// Which ways the streams flow, as the guest sees it: tx,rx,both.
    #[arg(long, value_enum, value_name = "tx,rx,both", value_delimiter = ',')]
    direction: Vec<Direction>,
    /// When receive descriptors go back to the NIC, in the poll or after it: in,after.
    #[arg(long, value_enum, value_name = "in,after", value_delimiter = ',')]
    replenish: Vec<Replenish>,
    /// With TSO only, or without only.
    #[arg(long, value_enum, value_name = "on|off")]
    tso: Option<Tso>,
}

impl NapiOptions {
    /// The scenario, for each NIC.
    pub fn scenarios(&self) -> Result<Vec<NapiWeight>> {
        let long = Defaults {
            rounds: 3,
            seconds: 3,
        };
        let quick = Defaults {
            rounds: 1,
            seconds: 1,
        };
        let is_quick = self.common.quick;
        let numbers = |quick: &[u32], long: &[u32]| if is_quick { quick } else { long }.to_vec();
        let scenario = |common| NapiWeight {
            common,
            streams: chosen(&self.streams, numbers(&[1, 10], &[1, 2, 5, 10])),
            directions: chosen(
                &self.direction,
                vec![Direction::Tx, Direction::Rx, Direction::Both],
            ),
            weights: chosen(&self.weight, numbers(&[8, 64], &[8, 16, 32, 64])),
            replenish: chosen(&self.replenish, vec![Replenish::In, Replenish::After]),
            tso: both_or(self.tso),
        };
        let all = self.common.common(long, quick)?;
        Ok(all.into_iter().map(scenario).collect())
    }
}

/// What the user lists, each once and in order, or else `otherwise`.
fn chosen<T: Copy + Ord>(given: &[T], otherwise: Vec<T>) -> Vec<T> {
    if given.is_empty() {
        return otherwise;
    }
    let mut all = given.to_vec();
    all.sort();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_in_order_and_without_repetition() {
        assert_eq!(chosen(&[64, 8, 64], vec![16]), [8, 64]);
        assert_eq!(chosen(&[], vec![16]), [16]);
    }
}
