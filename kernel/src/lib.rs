//! What the machine gives to the appliance.
//!
//! This is the only crate that names Hermit. Hermit boots the machine, owns its
//! memory map, heap and stacks, and calls `main`; from there on the modules here
//! take the parts of the machine that the appliance drives itself: PCI, DMA
//! memory, interrupts, the clock and the idle wait.
//!
//! Modules that only compute ([`args`], [`handover`], [`memory`], [`fdt`], [`pci`], most of
//! [`console`]) build and are tested on the host; the others exist for the bare machine alone.
#![cfg_attr(target_os = "none", no_std)]
#![cfg_attr(target_os = "none", feature(abi_x86_interrupt))]

extern crate alloc;

mod aml;
pub mod args;
pub mod console;
mod fadt;
pub mod fdt;
pub mod firmware;
pub mod handover;
pub mod line;
mod madt;
pub mod memory;
pub mod pci;
mod routes;
pub mod tsc;

#[cfg(target_os = "none")]
mod acpi;
#[cfg(target_os = "none")]
mod apic;
#[cfg(target_os = "none")]
pub mod boot;
#[cfg(target_os = "none")]
pub mod clock;
#[cfg(target_os = "none")]
pub mod dma;
#[cfg(target_os = "none")]
pub mod idle;
#[cfg(target_os = "none")]
pub mod interrupts;
#[cfg(target_os = "none")]
mod ioapic;
#[cfg(target_os = "none")]
pub mod mmio;
#[cfg(target_os = "none")]
pub mod paging;
#[cfg(target_os = "none")]
mod panic;
#[cfg(target_os = "none")]
pub mod power;
#[cfg(target_os = "none")]
mod single;
#[cfg(target_os = "none")]
pub mod stages;

#[cfg(target_os = "none")]
pub use boot::init;
