//! Boots the appliance in QEMU, runs real peers against it, and reads what they
//! say.
//!
//! ```no_run
//! use uniperf_harness::{Appliance, Image, Machine, Netperf, Network, Test};
//!
//! # fn main() -> anyhow::Result<()> {
//! let (mut appliance, ready) =
//!     Appliance::boot(&Image::built()?, &Machine::default(), Network::tap()?)?;
//! let result = Netperf::new(&appliance, ready).run(Test::TcpRr)?;
//! println!("{} transactions a second", result.throughput);
//! appliance.power_off()?;
//! # Ok(())
//! # }
//! ```
//!
//! Children and namespaces go when their handles are dropped; see `cleanup` for
//! signals. A child belongs to the thread that started it: it is killed when that
//! thread ends.

mod appliance;
pub mod bench;
mod cleanup;
pub mod client;
mod counters;
pub mod flood;
mod folder;
pub mod frames;
mod impair;
pub mod linux_guest;
mod machine;
pub mod measure;
mod namespace;
mod netperf;
mod network;
pub mod peers;
pub mod process;
mod qmp;
pub mod raw_tcp;
pub mod scenario;
mod screen;
pub mod trace;

pub use appliance::{Appliance, BOOT_TIMEOUT, Echo, Ready};
pub use counters::Counters;
pub use impair::{ImpairCounts, ImpairedLink, Impairment};
pub use machine::{
    Accelerator, Image, Machine, MachineType, NicModel, SerialPort, mac, mac_text, repository,
};
pub use namespace::Namespace;
pub use netperf::{Netperf, NetperfResult, Test};
pub use network::{
    CONTROL_PORT, DhcpOptions, DhcpServer, NetKind, Network, TapNetwork, UserNetwork,
};
pub use qmp::Qmp;
pub use screen::ScreenKind;
