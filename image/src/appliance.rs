//! One NIC, one stack, and the services: wired together and run.

use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec::Vec;

use uniperf_drivers::nic::Nic;
use uniperf_kernel::args::{Ip, RxMode};
use uniperf_kernel::boot::Machine;
use uniperf_kernel::{power, stages};
use uniperf_net::appliance::{self, Exit};
use uniperf_net::machine::Machine as _;
use uniperf_net::netperf::wire::Text;
use uniperf_net::netperf::{Host, Interface, PciIds, Server};
use uniperf_net::reflect;
use uniperf_net::services::Service;

use crate::machine::BareMachine;
use crate::nics::{self, Started};
use crate::{say, settings};

/// Runs the appliance until it is switched off.
pub fn run(boot: &Machine) -> ! {
    banner(boot);
    let mut machine = BareMachine::default();
    let Some(started) = nics::start(boot, &mut machine) else {
        refuse(&mut machine);
    };
    stages::end("NIC");
    serve(boot, machine, started)
}

/// Serves on one NIC, until the appliance is switched off.
fn serve(boot: &Machine, mut machine: BareMachine, started: Started) -> ! {
    introduce(&started);
    machine.watch(started.function);
    let config = settings::config(&boot.args, boot.memory, started.delivery.is_some());
    if boot.args.rx == Some(RxMode::Reflect) {
        match boot.args.ip {
            Ip::Static { address, .. } => {
                end(reflect::run(started.nic, machine, &config, address));
            }
            Ip::Dhcp => say!("rx=reflect needs a static ip=ADDRESS/PREFIX: taking rx=napi"),
        }
    }
    let server = Server::new(host(boot, &started), &config);
    let services: Vec<Box<dyn Service>> = alloc::vec![Box::new(server)];
    end(appliance::run(started.nic, machine, &config, services))
}

fn end(exit: Exit) -> ! {
    match exit {
        Exit::PowerOff => power::off(),
        Exit::Reboot => power::reboot(),
    }
}

/// Says that there is nothing to work with, and waits for somebody who has read it.
fn refuse(machine: &mut BareMachine) -> ! {
    say!("stopped: no NIC that can be used");
    say!("this image drives Intel's 8254x and 82574L, nForce chipsets' NICs and Myri-10G;");
    say!("the lines above name what was found");
    say!("type reboot, or poweroff and put one in");
    power::end_virtual_machine();
    loop {
        match machine.read_line().map(str::trim) {
            Some("reboot") => power::reboot(),
            Some("poweroff") => power::off(),
            Some(_) => say!("without a NIC there are only reboot and poweroff"),
            None => machine.wait(None),
        }
    }
}

fn banner(boot: &Machine) {
    uniperf_kernel::console::print(format_args!("\n"));
    say!("version {}", env!("CARGO_PKG_VERSION"));
    say!(
        "booted by {}, {} MiB of memory, CPU at {} MHz by {}",
        boot.protocol,
        boot.memory.div_ceil(1 << 20),
        boot.tsc.hz / 1_000_000,
        boot.tsc.source
    );
    if let Some(file) = boot.firmware {
        say!("a file of {} bytes was loaded beside the image", file.len());
    }
    if boot.command_line_cut > 0 {
        say!(
            "the command line is too long: its last {} bytes are ignored",
            boot.command_line_cut
        );
    }
    for rejected in &boot.rejected {
        say!("{rejected}");
    }
}

fn introduce(started: &Started) {
    let identity = started.nic.identity();
    let (vendor, device) = identity.pci_id;
    say!(
        "using NIC {} {vendor:04x}:{device:04x} {} ({}), MAC {}",
        started.function,
        identity.model,
        identity.driver,
        identity.mac
    );
    match started.delivery {
        Some(delivery) => say!("interrupts by {delivery}"),
        None => say!("the NIC's interrupts do not arrive: polling it"),
    }
}

/// What netperf is told about this end.
fn host(boot: &Machine, started: &Started) -> Host {
    let identity = started.nic.identity();
    let (vendor, device) = identity.pci_id;
    let slot = started.function.to_string();

    let cpu = alloc::format!("x86_64 at {} MHz", boot.tsc.hz / 1_000_000);
    Host {
        cpus: 1,
        system_model: Text::new("uniperf"),
        cpu_model: Text::new(&cpu),
        interface: Interface {
            driver: Text::new(identity.driver),
            version: Text::new(env!("CARGO_PKG_VERSION")),
            bus: Text::new(&slot),
            slot: Text::new(&slot),
            pci: Some(PciIds {
                vendor,
                device,
                ..PciIds::default()
            }),
            ..Interface::default()
        },
    }
}
