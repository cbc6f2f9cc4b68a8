//! The command line.

mod media;
mod pxe;
mod report;
mod scenario;

use std::net::IpAddr;
use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Parser, Subcommand, ValueEnum};

use uniperf_harness::bench::{self, Only};
use uniperf_harness::{
    Accelerator, Beside, CONTROL_PORT, Image, Machine, MachineType, NetKind, Network, NicModel,
    target_folder,
};

pub use media::IsoOptions;
pub use pxe::PxeOptions;
pub use report::ReportOptions;
pub use scenario::Scenario;

/// Boots the appliance in QEMU.
#[derive(Debug, Parser)]
#[command(name = "uniperf-qemu", version)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Boot and stay, with the serial console on the terminal.
    Boot(BootOptions),
    /// Boot, run netperf, print its tables, power off.
    Run(RunOptions),
    /// Measure the appliance beside a Linux guest.
    Bench(BenchOptions),
    /// Send requests to a reflector, as fast as it answers.
    Ping(PingOptions),
    /// Open very many TCP_RR tests at once, and send requests over all of them.
    Crowd(CrowdOptions),
    /// The same with a Linux guest: boot and stay, or with --run run netperf.
    Linux(LinuxOptions),
    /// Boot from the network, as real machines do, and run netperf.
    Pxe(PxeOptions),
    /// Make the image for CDs and USB sticks.
    Iso(IsoOptions),
    /// Try an appliance on real hardware, and write down what came of it.
    Report(ReportOptions),
    /// Run one of the reports that the appliance was made for.
    #[command(subcommand)]
    Scenario(Scenario),
}

/// What to boot, on what.
#[derive(Args, Debug)]
pub struct BootOptions {
    /// The image to boot.
    #[arg(long, value_name = "FILE", env = "UNIPERF_IMAGE")]
    image: Option<PathBuf>,
    /// A NIC: e1000, e1000-82544gc, e1000-82545em, e1000e, another -device of QEMU's,
    /// or a device model of ours: forcedeth[:GENERATION] or myri10ge[:VARIANT]. Again
    /// for a further NIC: number n, from 0, is on a network of its own, 10.77.n.1/24
    /// being the host's side, so --append 'nic=1 ip=10.77.1.2/24' uses the second.
    #[arg(long, value_name = "NAME")]
    nic: Vec<NicModel>,
    /// tap (needs root) or user; tap where it is possible.
    #[arg(long, value_name = "tap|user")]
    net: Option<NetKind>,
    /// The network namespace of a tap; another one for a second appliance.
    #[arg(long, value_name = "NAME", default_value = "uniperf")]
    namespace: String,
    /// Boot arguments, such as 'ip=dhcp rx=poll'; up to 1900 bytes.
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true)]
    append: Vec<String>,
    /// CPUs.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=255))]
    smp: u32,
    /// Memory in MiB: 64, or 256 for Linux.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..))]
    mem: Option<u32>,
    /// Count instructions: one takes one nanosecond.
    #[arg(long)]
    icount: bool,
    /// The file that is loaded beside the image, instead of the firmware of its NIC
    /// that qemu-scripts/setup has got; none for none.
    #[arg(long, value_name = "FILE")]
    beside: Option<PathBuf>,
    /// QEMU's machine.
    #[arg(long, value_enum, default_value_t)]
    machine: MachineType,
    /// What runs the guest; kvm only where the CPU can virtualize.
    #[arg(long, value_enum, default_value_t)]
    accel: Accelerator,
}

impl BootOptions {
    pub fn image(&self) -> Result<Image> {
        match &self.image {
            Some(path) => Image::at(path),
            None => Image::built(),
        }
    }

    pub fn machine(&self, memory: u32) -> Machine {
        let nics = match self.nic.as_slice() {
            [] => vec![NicModel::E1000],
            nics => nics.to_vec(),
        };
        Machine {
            nics,
            append: self.append.join(" "),
            smp: self.smp,
            memory: self.mem.unwrap_or(memory),
            icount: self.icount,
            machine: self.machine,
            accelerator: self.accel,
            beside: match &self.beside {
                None => Beside::NicFirmware,
                Some(path) if path.as_os_str() == "none" => Beside::Nothing,
                Some(path) => Beside::File(path.clone()),
            },
            ..Machine::default()
        }
    }

    pub fn network(&self) -> Result<Network> {
        Network::of_kind(self.net.unwrap_or_else(NetKind::best), &self.namespace)
    }
}

/// What to boot, and what to measure.
#[derive(Args, Debug)]
pub struct RunOptions {
    #[command(flatten)]
    pub boot: BootOptions,
    /// Seconds that each of the four tests takes.
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    pub length: u64,
    /// Arguments for netperf instead of the four tests.
    #[arg(last = true, value_name = "NETPERF-ARGS", allow_hyphen_values = true)]
    pub netperf: Vec<String>,
}

/// What to measure of whom.
#[derive(Args, Debug)]
pub struct BenchOptions {
    /// The image to boot.
    #[arg(long, value_name = "FILE", env = "UNIPERF_IMAGE")]
    image: Option<PathBuf>,
    /// Three short rounds, under four minutes in all.
    #[arg(long)]
    quick: bool,
    /// Count guest instructions instead of time.
    #[arg(long)]
    icount: bool,
    /// Whom to compare with: linux or none.
    #[arg(long, value_enum, default_value_t)]
    peer: Peer,
    /// The NIC of all guests.
    #[arg(long, value_name = "NAME", default_value = "e1000")]
    nic: NicModel,
    /// Boot arguments of the appliance.
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true)]
    append: Vec<String>,
    /// How often each contestant takes its turn: 5, or 3 when quick or with
    /// --icount, or 1 with both.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: Option<u32>,
    /// Seconds a test: 5, or 2 when quick.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: Option<u64>,
    /// One test only, such as TCP_RR, or PING or FLOWS; again for a further one.
    #[arg(long, value_name = "TEST")]
    only: Vec<Only>,
    /// What runs the guests; kvm only where the CPU can virtualize.
    #[arg(long, value_enum, default_value_t)]
    accel: Accelerator,
    /// Where the JSON goes: target/bench.
    #[arg(long, value_name = "FOLDER")]
    json: Option<PathBuf>,
}

/// Whom the appliance is compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Peer {
    /// The Linux guest.
    #[default]
    Linux,
    /// Nobody but the reflector.
    None,
}

impl BenchOptions {
    pub fn options(&self) -> Result<bench::Options> {
        let rounds = match (self.quick, self.icount) {
            (true, true) => 1,
            (false, false) => 5,
            _ => 3,
        };
        let seconds = if self.quick { 2 } else { 5 };
        Ok(bench::Options {
            image: match &self.image {
                Some(path) => Image::at(path),
                None => Image::built(),
            }?,
            nic: self.nic.clone(),
            accelerator: self.accel,
            append: self.append.join(" "),
            linux: self.peer == Peer::Linux,
            rounds: self.rounds.unwrap_or(rounds),
            seconds: self.seconds.unwrap_or(seconds),
            icount: self.icount,
            few_flows: self.quick && self.only.is_empty(),
            only: self.only.clone(),
        })
    }

    /// The folder for the JSON.
    pub fn folder(&self) -> PathBuf {
        let folder = self.json.clone();
        folder.unwrap_or_else(|| target_folder().join("bench"))
    }
}

/// Whom to send requests to.
#[derive(Args, Debug)]
pub struct PingOptions {
    /// The reflector's address.
    pub host: IpAddr,
    /// Its port: the reflector's, or with --netperf the netserver's control port.
    #[arg(long, value_name = "N")]
    pub port: Option<u16>,
    /// Speak with a netserver, as UDP_RR does.
    #[arg(long)]
    pub netperf: bool,
    /// Bytes of each request.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1472))]
    pub bytes: u16,
    /// How long to go on.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    pub seconds: u64,
}

/// Whose tests to open, and how to spread the requests.
#[derive(Args, Debug)]
pub struct CrowdOptions {
    /// The netserver's address.
    pub host: IpAddr,
    /// Its control port.
    #[arg(long, value_name = "N", default_value_t = CONTROL_PORT)]
    pub port: u16,
    /// Tests to open; again for more after a run.
    #[arg(long, value_name = "N", default_values_t = [1, 100, 1000, 10_000])]
    pub clients: Vec<u32>,
    /// Requests under way at a time.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub in_flight: usize,
    /// Transactions of a client before it is another one's turn.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub visit: u32,
    /// How long each run takes.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..))]
    pub seconds: u64,
}

/// How to boot Linux, and whether to measure it.
#[derive(Args, Debug)]
pub struct LinuxOptions {
    /// Run netperf as `run` does, and power off.
    #[arg(long)]
    pub run: bool,
    #[command(flatten)]
    pub options: RunOptions,
}
