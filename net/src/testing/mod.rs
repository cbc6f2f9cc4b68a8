//! Both ends of a wire in one process: the appliance on a NIC made of memory,
//! a plain smoltcp host as its peer, and a clock that jumps from one event to
//! the next.

pub mod bench;
pub mod crowd;
pub mod dhcp;
pub mod frames;
pub mod machine;
pub mod nic;
pub mod peer;
pub mod services;

pub use bench::{Bench, Faults};
pub use frames::*;
pub use peer::Peer;
pub use services::{Echo, Log};
