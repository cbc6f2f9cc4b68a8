//! The options of `report`.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use clap::Args;

use uniperf_harness::CONTROL_PORT;
use uniperf_harness::report::Options;

/// What to report of.
#[derive(Args, Debug)]
pub struct ReportOptions {
    /// The address in the appliance's `ready` line.
    address: Ipv4Addr,
    /// The serial port that the appliance's console is connected with.
    #[arg(long, value_name = "DEVICE")]
    serial: Option<PathBuf>,
    /// The file to write: uniperf-report-YYYY-MM-DD-HHMM.txt.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Seconds that each of netperf's tests takes.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
}

impl ReportOptions {
    pub fn options(&self) -> Options {
        Options {
            server: (self.address, CONTROL_PORT).into(),
            serial: self.serial.clone(),
            out: self.out.clone(),
            seconds: self.seconds,
        }
    }
}
