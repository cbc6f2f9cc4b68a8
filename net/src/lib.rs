//! The receive loop, the smoltcp stack and the services that run on it.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod address;
pub mod appliance;
pub mod config;
pub mod counters;
pub mod machine;
pub mod netperf;
pub mod reflect;
pub mod services;
pub mod stack;

mod answers;
mod boot_time;
mod budget;
mod checksum;
mod console;
mod device;
mod flows;
mod frame;
mod gro;
mod hash;
mod listeners;
mod neighbours;
mod offload;
mod pages;
mod path_mtu;
mod rate;
mod reassembly;
mod receive;
mod recovery;
mod sack;
mod syn_guard;
mod time_wait;
mod timers;
mod udp;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
