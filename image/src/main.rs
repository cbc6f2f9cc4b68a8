//! The bootable appliance: boot entries, and `main`, which wires one NIC to one
//! stack and starts the services.
#![cfg_attr(target_os = "none", no_std)]
#![cfg_attr(target_os = "none", no_main)]

extern crate alloc;

#[cfg(target_os = "none")]
mod boot;

#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!("this is the appliance's image: build it with qemu-scripts/build");
    std::process::exit(1);
}

#[cfg(target_os = "none")]
#[unsafe(no_mangle)]
extern "C" fn main(_argc: i32, _argv: *const *const u8, _env: *const *const u8) -> ! {
    let m = uniperf_kernel::init();
    uniperf_kernel::console::print(format_args!("uniperf: hello {m:?} {} ms\n", uniperf_kernel::clock::now() / 1_000_000));
    for f in uniperf_kernel::pci::enumerate(uniperf_kernel::pci::ConfigPorts) {
        uniperf_kernel::console::print(format_args!("{f:?} {:?} {:?}\n", f.memory_bar(0, uniperf_kernel::pci::ConfigPorts), f.legacy_interrupt(uniperf_kernel::pci::ConfigPorts)));
    }
    let t = uniperf_kernel::clock::now();
    uniperf_kernel::idle::wait(Some(t + 500_000_000));
    uniperf_kernel::console::print(format_args!("slept {} ns idle {}\n", uniperf_kernel::clock::now() - t, uniperf_kernel::idle::cycles()));
    let n: Option<u32> = core::hint::black_box(None);
    n.unwrap();
    uniperf_kernel::power::off()
}
