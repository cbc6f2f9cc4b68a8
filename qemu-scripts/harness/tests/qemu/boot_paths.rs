//! Every way from power-on to a netperf: the firmware of real machines, boot loaders,
//! the network, CDs, sticks and disks.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use uniperf_harness::media::{self, Loader};
use uniperf_harness::netboot::{NetBoot, Via};
use uniperf_harness::process;
use uniperf_harness::{
    Appliance, BootDevice, Firmware, FirmwareBoot, Image, Machine, Netperf, Network, Test,
};

/// From power-on to ready. OVMF with a boot ROM takes 10 s on an idle machine.
const TIMEOUT: Duration = Duration::from_secs(120);
/// An address that only the loader's configuration can have.
const ADDRESS: &str = "10.77.0.3";

/// UEFI needs more memory than the appliance.
fn machine(append: &str) -> Machine {
    Machine {
        append: append.into(),
        memory: 256,
        ..Machine::default()
    }
}

/// Boots, runs TCP_RR, powers off; the console is shown when anything fails. Returns
/// what the console said.
fn boots(start: &FirmwareBoot, machine: &Machine, network: Network) -> String {
    let begin = Instant::now();
    let mut appliance = Appliance::start_by_firmware(start, machine, network).unwrap();
    let ready = appliance.ready(TIMEOUT).unwrap();
    println!("ready after {:.1} s", begin.elapsed().as_secs_f32());
    let netperf = Netperf::new(&appliance, ready);
    netperf.run(Test::TcpRr).unwrap().check().unwrap();
    let text = appliance.console().text();
    let status = appliance.power_off().unwrap();
    assert!(status.success(), "power-off ends with {status}");
    text
}

/// From the network, with an address by the loader's arguments or, where there are
/// none, by DHCP.
fn from_network(firmware: Firmware, via: Via, given: &str) -> String {
    let way = NetBoot::new(firmware, via).unwrap();
    let mut network = Network::tap().unwrap();
    let _server = way
        .serve(&Image::built().unwrap(), given, &mut network)
        .unwrap();
    let text = boots(&way.start(), &machine(given), network);
    let address = match given {
        "" => "by DHCP from 10.77.0.1".into(),
        _ => format!("address {ADDRESS}/24 as set by ip="),
    };
    assert!(text.contains(&address), "{text}");
    text
}

fn given() -> String {
    format!("ip={ADDRESS}/24 rx=napi")
}

#[test]
fn bios_ipxe() {
    from_network(Firmware::Bios, Via::Ipxe, &given());
}

#[test]
fn bios_ipxe_and_the_address_by_dhcp() {
    from_network(Firmware::Bios, Via::Ipxe, "");
}

#[test]
fn bios_pxelinux() {
    from_network(Firmware::Bios, Via::Pxelinux, &given());
}

#[test]
fn bios_grub_net_linux() {
    from_network(Firmware::Bios, Via::Grub, &given());
}

#[test]
fn bios_grub_net_multiboot2() {
    let text = from_network(Firmware::Bios, Via::GrubMultiboot2, &given());
    assert!(text.contains("booted by multiboot2"), "{text}");
}

#[test]
fn uefi_ipxe() {
    let text = from_network(Firmware::Uefi, Via::Ipxe, &given());
    assert!(text.contains("booted by UEFI"), "{text}");
}

#[test]
fn uefi_grub_net_linux() {
    from_network(Firmware::Uefi, Via::Grub, &given());
}

#[test]
fn uefi_grub_net_multiboot2() {
    let text = from_network(Firmware::Uefi, Via::GrubMultiboot2, &given());
    assert!(text.contains("booted by multiboot2"), "{text}");
}

#[test]
fn uefi_tftp() {
    let text = from_network(Firmware::Uefi, Via::Tftp, "");
    assert!(text.contains("booted by UEFI"), "{text}");
}

#[test]
fn uefi_http() {
    let text = from_network(Firmware::Uefi, Via::Http, "");
    assert!(text.contains("booted by UEFI"), "{text}");
}

/// Without privilege: QEMU's own DHCP and TFTP servers.
#[test]
fn bios_ipxe_on_the_user_network() {
    let mut network = Network::user().unwrap();
    let way = NetBoot::new(Firmware::Bios, Via::Ipxe).unwrap();
    let _server = way
        .serve(&Image::built().unwrap(), "rx=napi", &mut network)
        .unwrap();
    let text = boots(&way.start(), &machine("rx=napi"), network);
    assert!(text.contains("address 10.0.2.15/24 by DHCP"), "{text}");
}

/// A file that is made in a folder of its own.
fn made(make: impl FnOnce(&Image, &Path)) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("medium");
    make(&Image::built().unwrap(), &path);
    (folder, path)
}

fn from_medium(firmware: Firmware, from: BootDevice) -> String {
    let network = Network::tap().unwrap();
    let start = FirmwareBoot::new(firmware, from);
    let text = boots(&start, &machine(&given()), network);
    let address = format!("address {ADDRESS}/24 as set by ip=");
    assert!(text.contains(&address), "{text}");
    text
}

fn iso() -> (TempDir, PathBuf) {
    made(|image, path| media::make_iso(image, &given(), path).unwrap())
}

#[test]
fn bios_cd() {
    let (_folder, iso) = iso();
    from_medium(Firmware::Bios, BootDevice::Cd(iso));
}

#[test]
fn uefi_cd() {
    let (_folder, iso) = iso();
    from_medium(Firmware::Uefi, BootDevice::Cd(iso));
}

#[test]
fn bios_usb_stick() {
    let (_folder, iso) = iso();
    from_medium(Firmware::Bios, BootDevice::Usb(iso));
}

#[test]
fn uefi_usb_stick() {
    let (_folder, iso) = iso();
    from_medium(Firmware::Uefi, BootDevice::Usb(iso));
}

/// The boot arguments of a stick are changed by an editor, as README.md says.
#[test]
fn the_arguments_on_a_stick_can_be_edited() {
    let (_folder, iso) = made(|image, path| media::make_iso(image, "rx=poll", path).unwrap());
    edit(&iso, &format!("set arguments=\"{}\"\n", given()));
    from_medium(Firmware::Bios, BootDevice::Usb(iso));
}

/// Puts `text` into the file `uniperf.cfg` of the stick's second partition.
fn edit(stick: &Path, text: &str) {
    let edited = stick.with_extension("cfg");
    std::fs::write(&edited, text).unwrap();
    let bytes = std::fs::read(stick).unwrap();
    // Its entry in the partition table has the first sector's number.
    let first = u32::from_le_bytes(bytes[0x1be + 16 + 8..][..4].try_into().unwrap());
    let volume = format!("{}@@{}", stick.display(), u64::from(first) * 512);
    let mut copy = Command::new("mcopy");
    copy.args(["-o", "-i", &volume]);
    copy.arg(edited).arg("::/uniperf.cfg");
    process::run(&mut copy, TIMEOUT).unwrap().success().unwrap();
}

fn from_disk(firmware: Firmware, loader: Loader) -> String {
    let (_folder, disk) =
        made(|image, path| media::make_disk(image, &given(), loader, path).unwrap());
    from_medium(firmware, BootDevice::Disk(disk))
}

#[test]
fn bios_grub_disk_linux() {
    from_disk(Firmware::Bios, Loader::GrubLinux);
}

#[test]
fn bios_grub_disk_multiboot2() {
    let text = from_disk(Firmware::Bios, Loader::GrubMultiboot2);
    assert!(text.contains("booted by multiboot2"), "{text}");
}

#[test]
fn uefi_grub_disk_linux() {
    from_disk(Firmware::Uefi, Loader::GrubLinux);
}

#[test]
fn uefi_grub_disk_multiboot2() {
    let text = from_disk(Firmware::Uefi, Loader::GrubMultiboot2);
    assert!(text.contains("booted by multiboot2"), "{text}");
}

#[test]
fn uefi_systemd_boot() {
    let text = from_disk(Firmware::Uefi, Loader::SystemdBoot);
    assert!(text.contains("booted by UEFI"), "{text}");
}

/// QEMU hands the image to OVMF.
#[test]
fn uefi_kernel() {
    let machine = Machine {
        firmware: Firmware::Uefi,
        ..machine(&given())
    };
    let network = Network::tap().unwrap();
    let image = Image::built().unwrap();
    let (mut appliance, ready) = Appliance::boot(&image, &machine, network).unwrap();
    let text = appliance.console().text();
    assert!(text.contains("booted by UEFI"), "{text}");
    let netperf = Netperf::new(&appliance, ready);
    netperf.run(Test::TcpRr).unwrap().check().unwrap();
    assert!(appliance.power_off().unwrap().success());
}

#[test]
fn uefi_volume() {
    let (_folder, disk) = made(|image, path| media::make_volume(image, path).unwrap());
    let start = FirmwareBoot::new(Firmware::Uefi, BootDevice::Disk(disk));
    let text = boots(&start, &machine("ip=dhcp"), Network::tap().unwrap());
    assert!(text.contains("booted by UEFI"), "{text}");
}
