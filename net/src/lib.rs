//! The receive loop, the smoltcp stack and the services that run on it.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod address;
pub mod config;
pub mod counters;
pub mod machine;
pub mod netperf;
pub mod services;
pub mod stack;

mod answers;
mod checksum;
mod device;
mod flows;
mod frame;
mod hash;
mod rate;
mod reassembly;
mod time_wait;
mod timers;
mod udp;
