//! The receive loop, the smoltcp stack and the services that run on it.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;
pub mod machine;
pub mod netperf;
