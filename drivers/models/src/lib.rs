//! Models of NICs that QEMU does not emulate.
//!
//! A model is a [`Device`]: it is told of register accesses, of frames from the wire
//! and of the time, and it reaches guest memory, the interrupt lines and the wire
//! through the [`Host`] that it is lent for that moment. The same model runs inside a
//! test on one thread ([`InProcess`]) and as a vfio-user server that QEMU plugs in as a
//! PCI device ([`server`]).
//!
//! What is on the other side is not trusted: a guest can program a model with anything,
//! and gets the answer that hardware would give or a [complaint](Complaints), never an
//! access outside its own memory.

mod complaints;
mod device;
mod dma;
mod in_process;
mod interrupts;
mod offload;

pub mod forcedeth;
pub mod link;
pub mod myri10ge;
pub mod pci;
pub mod server;

pub use complaints::Complaints;
pub use device::{Device, Host};
pub use dma::{Dma, DmaError};
pub use in_process::InProcess;
pub use interrupts::{InterruptMode, Interrupts};
