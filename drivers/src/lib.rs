//! NIC drivers behind one trait.
//!
//! [`nic`] is the trait that the stack is written against; [`hw`] is what a
//! driver asks of the machine below it. Each NIC has one folder. A driver is
//! generic over how it reaches registers and DMA memory, so the same source
//! runs on the machine and on the host against a model. [`gso`] cuts
//! super-segments for NICs that cannot; [`firmware`] finds what a NIC is to be given.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod any;
mod buffers;
pub mod e1000;
pub mod firmware;
pub mod forcedeth;
pub mod gso;
pub mod hw;
pub mod myri10ge;
pub mod nic;
mod watch;

/// The name of the driver for a PCI function, if there is one.
pub fn driver_for(vendor: u16, device: u16) -> Option<&'static str> {
    if e1000::ids::find(vendor, device).is_some() {
        Some(e1000::NAME)
    } else if forcedeth::ids::find(vendor, device).is_some() {
        Some(forcedeth::NAME)
    } else if myri10ge::ids::find(vendor, device).is_some() {
        Some(myri10ge::NAME)
    } else {
        None
    }
}
