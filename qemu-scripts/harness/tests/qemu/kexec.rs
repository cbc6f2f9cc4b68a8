//! The appliance started by a running Linux, as on a host that is only reached over the
//! network. QEMU's `-cpu max` has Linux use five levels of page tables, as on recent
//! servers.

use std::path::Path;
use std::time::Duration;

use uniperf_harness::{Appliance, Firmware, Image, Machine, Netperf, Network, Test, linux_guest};

/// Linux ends its devices in this time, and the appliance starts.
const HAND_OVER_TIMEOUT: Duration = Duration::from_secs(60);

/// A Linux guest with `memory` MiB that has kexec and the image.
fn linux(firmware: Firmware, memory: u32, folder: &Path) -> Appliance {
    let machine = Machine {
        firmware,
        memory,
        ..Machine::default()
    };
    let (kernel, machine) = linux_guest::prepare(machine).unwrap();
    let image = Image::built().unwrap();
    let machine = linux_guest::with_kexec(machine, image.path(), &folder.join("initrd")).unwrap();
    Appliance::boot(&kernel, &machine, Network::tap().unwrap())
        .unwrap()
        .0
}

/// Has Linux start the appliance by `kexec` with `option`, and returns the line of its
/// console at which that began.
fn kexec(guest: &mut Appliance, option: &str) -> usize {
    let from = guest.console().len();
    let load = format!(
        "kexec {option} -l /image/uniperf.efi --command-line=\"ip=10.77.0.2/24\" && kexec -e"
    );
    guest.type_line(&load).unwrap();
    from
}

fn the_appliance_takes_over(firmware: Firmware, option: &str) {
    let folder = tempfile::tempdir().unwrap();
    let mut guest = linux(firmware, 512, folder.path());
    let from = kexec(&mut guest, option);
    let ready = guest.ready_after(from, HAND_OVER_TIMEOUT).unwrap();
    let by =
        guest.wait_for_line_after(from, "booted by the Linux boot protocol", HAND_OVER_TIMEOUT);
    println!("{}", by.unwrap().1);
    let result = Netperf::new(&guest, ready).run(Test::TcpRr).unwrap();
    result.check().unwrap();
    assert!(guest.power_off().unwrap().success());
}

#[test]
fn by_the_system_call_for_files() {
    for firmware in Firmware::ALL {
        the_appliance_takes_over(firmware, "-s");
    }
}

#[test]
fn by_the_older_system_call() {
    for firmware in Firmware::ALL {
        the_appliance_takes_over(firmware, "-c");
    }
}

#[test]
fn the_older_system_call_puts_the_image_high_and_it_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let mut guest = linux(Firmware::Bios, 6144, folder.path());
    let from = kexec(&mut guest, "-c");
    let line = guest.wait_for_line_after(from, "uniperf: stopped", HAND_OVER_TIMEOUT);
    assert!(line.unwrap().1.contains("kexec's -s"));
}
