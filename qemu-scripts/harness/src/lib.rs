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
mod dhcp;
mod firmware;
pub mod flood;
mod folder;
pub mod frames;
mod impair;
pub mod linux_guest;
mod machine;
pub mod measure;
pub mod media;
mod namespace;
pub mod netboot;
mod netperf;
mod network;
mod nic;
mod nic_model;
pub mod peers;
pub mod process;
mod qemu;
mod qmp;
pub mod raw_tcp;
pub mod recipe;
pub mod report;
pub mod scenario;
mod screen;
pub mod trace;

pub use appliance::{Appliance, BOOT_TIMEOUT, Echo, Ready};
pub use counters::Counters;
pub use dhcp::{BootOffer, DhcpOptions, DhcpServer};
pub use firmware::{BootDevice, Firmware, FirmwareBoot};
pub use impair::{ImpairCounts, ImpairedLink, Impairment};
pub use machine::{
    Accelerator, Beside, Image, Machine, MachineType, SerialPort, mac, mac_text, myri10ge_firmware,
    repository, target_folder,
};
pub use namespace::Namespace;
pub use netperf::{Netperf, NetperfResult, Test};
pub use network::{CONTROL_PORT, NetKind, Network, TapNetwork, UserNetwork};
pub use nic::NicModel;
pub use nic_model::NicModelProcess;
pub use qmp::Qmp;
pub use screen::ScreenKind;
