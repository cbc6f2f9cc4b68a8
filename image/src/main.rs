//! The bootable appliance: boot entries, and `main`, which wires one NIC to one
//! stack and starts the services.
#![cfg_attr(target_os = "none", no_std)]
#![cfg_attr(target_os = "none", no_main)]

extern crate alloc;

#[cfg(target_os = "none")]
mod boot;
#[cfg(target_os = "none")]
mod machine;
#[cfg(target_os = "none")]
mod nics;

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
    use uniperf_drivers::nic::{Nic, Receive};
    let boot = uniperf_kernel::init();
    let mut machine = machine::BareMachine::default();
    let mut s = nics::start(&boot.args, &mut machine).unwrap();
    say!("{:?} {:?} {:?}", s.nic.identity(), s.delivery, s.nic.link());
    s.nic.unmask();
    for _ in 0..10 {
        uniperf_kernel::idle::wait(Some(uniperf_kernel::clock::now() + 500_000_000));
        let i = uniperf_kernel::interrupts::take();
        if let Some(c) = i { say!("irq {c:?} {:?}", s.nic.service(c)); }
        let n = s.nic.halves().0.poll(64, |f| say!("frame {} {:x?}", f.bytes.len(), &f.bytes[..14]));
        say!("polled {n}");
        s.nic.unmask();
    }
    uniperf_kernel::power::off()
}
