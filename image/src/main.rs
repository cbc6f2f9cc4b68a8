//! The bootable appliance: boot entries, and `main`, which wires one NIC to one
//! stack and starts the services.
#![cfg_attr(target_os = "none", no_std)]
#![cfg_attr(target_os = "none", no_main)]

extern crate alloc;

#[cfg(target_os = "none")]
mod appliance;
#[cfg(any(test, target_os = "none"))]
mod boot;
#[cfg(target_os = "none")]
mod machine;
#[cfg(any(test, target_os = "none"))]
mod nic_names;
#[cfg(target_os = "none")]
mod nics;
#[cfg(target_os = "none")]
mod settings;

/// Prints a line of the appliance's own on the console.
#[cfg(target_os = "none")]
macro_rules! say {
    ($($argument:tt)*) => {
        uniperf_kernel::console::print(format_args!("uniperf: {}\n", format_args!($($argument)*)))
    };
}
#[cfg(target_os = "none")]
use say;

#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!("this is the appliance's image: build it with qemu-scripts/build");
    std::process::exit(1);
}

#[cfg(target_os = "none")]
#[unsafe(no_mangle)]
extern "C" fn main(_argc: i32, _argv: *const *const u8, _env: *const *const u8) -> ! {
    let boot = uniperf_kernel::init();
    appliance::run(&boot)
}
