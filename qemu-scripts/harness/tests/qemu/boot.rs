//! What the console says, and how the machine starts and ends.

use std::time::Duration;

use uniperf_harness::{
    Appliance, BOOT_TIMEOUT, Beside, BootDevice, Firmware, FirmwareBoot, Image, Machine,
    MachineType, Netperf, Network, Test, media,
};

use crate::rig::{Rig, append};

const SECONDS: fn(u64) -> Duration = Duration::from_secs;

#[test]
fn the_console_shows_what_it_runs_on() {
    let rig = Rig::new();
    let text = rig.appliance.console().text();
    let version = format!("version {}", env!("CARGO_PKG_VERSION"));
    for part in [
        version.as_str(),
        "64 MiB of memory",
        "8086:100e",
        "52:54:00:12:34:56",
        "link up, 1000 Mbit/s",
        "address 10.77.0.2/24 as set by ip=",
        "uniperf: boot took ",
        "uniperf: ready 10.77.0.2 ",
    ] {
        assert!(text.contains(part), "the console lacks \"{part}\"");
    }
    println!("ready after {} ms", rig.ready.milliseconds);
    assert!(rig.ready.milliseconds < 5000, "{:?}", rig.ready);
    rig.end();
}

#[test]
fn wrong_boot_arguments_are_named_and_ignored() {
    let rig = Rig::with(append("weight=many bogus=1 gw=300.1.1.1"));
    let text = rig.appliance.console().text();
    for word in ["weight=many", "bogus=1", "gw=300.1.1.1"] {
        assert!(text.contains(word), "the console lacks \"{word}\"");
    }
    rig.run(Test::TcpRr);
    rig.end();
}

#[test]
fn reboot_starts_the_machine_again() {
    let mut rig = Rig::new();
    rig.appliance.type_line("reboot").unwrap();
    // QEMU is told to end where a machine would start again.
    let status = rig.appliance.wait(SECONDS(10)).unwrap();
    assert!(status.success(), "{status}");
}

/// A failure names its place and the way to it, and ends QEMU with a code that is
/// neither a power-off's nor QEMU's own.
#[test]
fn a_panic_is_reported_and_stops_the_machine() {
    let mut rig = Rig::new();
    rig.appliance.type_line("panic").unwrap();
    let status = rig.appliance.wait(SECONDS(10)).unwrap();
    assert_eq!(status.code(), Some(67), "{status}");
    let text = rig.appliance.console().text();
    let report = &text[text.find("panicked at").expect("no message")..];
    assert!(report.contains("asked for on the console"), "{report}");
    let addresses = report
        .lines()
        .skip_while(|line| !line.contains("backtrace:"))
        .filter(|line| line.trim_start().starts_with("0x2"))
        .count();
    assert!(addresses >= 3, "{report}");
}

#[test]
fn the_console_answers_help_and_says_what_it_does_not_know() {
    let mut rig = Rig::new();
    rig.appliance.type_line("help").unwrap();
    rig.appliance.wait_for_line("poweroff", SECONDS(5)).unwrap();
    rig.appliance.type_line("xyzzy").unwrap();
    let from = rig.appliance.console().len();
    rig.appliance.type_line(&"long ".repeat(400)).unwrap();
    rig.appliance.type_line("").unwrap();
    rig.appliance.counters().unwrap();
    assert!(rig.appliance.console().len() > from);
    rig.end();
}

#[test]
fn q35_is_a_machine_too() {
    let rig = Rig::with(Machine {
        machine: MachineType::Q35,
        ..Machine::default()
    });
    rig.run(Test::TcpRr);
    rig.end();
}

/// Small and large machines, plain and capable CPUs, one and several.
#[test]
fn machines_of_all_sizes_come_up() {
    for (memory, smp, cpu, machine) in [
        (64, 1, "qemu64", MachineType::Pc),
        (64, 8, "max", MachineType::Q35),
        (4096, 2, "max", MachineType::Pc),
        (6144, 8, "qemu64", MachineType::Q35),
        (65536, 1, "qemu64", MachineType::Pc),
        (65536, 4, "max", MachineType::Q35),
    ] {
        let rig = Rig::with(Machine {
            memory,
            smp,
            cpu: cpu.into(),
            machine,
            ..Machine::default()
        });
        let text = rig.appliance.console().text();
        assert!(text.contains(&format!(" {memory} MiB of memory")), "{text}");
        println!("{memory} MiB, {smp} {cpu}: {} ms", rig.ready.milliseconds);
        rig.run(Test::TcpRr);
        rig.end();
    }
}

#[test]
fn the_image_is_at_most_a_mebibyte() {
    let image = Image::built().unwrap();
    for file in ["efi", "elf"] {
        let len = std::fs::metadata(image.path().with_extension(file))
            .unwrap()
            .len();
        println!("uniperf.{file}: {len} bytes");
        assert!(len <= 1 << 20);
    }
}

/// A file beside the image reaches it by each protocol: Linux's, and multiboot2's.
#[test]
fn a_file_beside_the_image_is_found() {
    let image = Image::built().unwrap();
    let len = std::fs::metadata(image.path()).unwrap().len();
    let line = format!("a file of {len} bytes was loaded beside the image");
    let rig = Rig::with(Machine {
        beside: Beside::File(image.path().into()),
        ..Machine::default()
    });
    assert!(rig.appliance.console().text().contains(&line));
    rig.end();
    for (firmware, load) in [
        (
            Firmware::Bios,
            "linux /boot/uniperf.efi\ninitrd /boot/uniperf.efi",
        ),
        (
            Firmware::Bios,
            "multiboot2 /boot/uniperf.efi\nmodule2 /boot/uniperf.efi",
        ),
        (
            Firmware::Uefi,
            "linux /boot/uniperf.efi\ninitrd /boot/uniperf.efi",
        ),
        (
            Firmware::Uefi,
            "chainloader /boot/uniperf.efi initrd=/boot/uniperf.efi",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let disk = folder.path().join("disk");
        media::make_grub_disk(&image, &format!("{load}\nboot\n"), &disk).unwrap();
        let start = FirmwareBoot::new(firmware, BootDevice::Disk(disk));
        let machine = Machine {
            memory: 256,
            ..Machine::default()
        };
        let network = Network::tap().unwrap();
        let appliance = Appliance::start_by_firmware(&start, &machine, network).unwrap();
        appliance.wait_for_line(&line, BOOT_TIMEOUT).unwrap();
    }
}

#[test]
fn a_cpu_without_64_bit_mode_is_told() {
    let machine = Machine {
        cpu: "qemu32".into(),
        ..Machine::default()
    };
    let appliance =
        Appliance::start(&Image::built().unwrap(), &machine, Network::tap().unwrap()).unwrap();
    appliance
        .wait_for_line("this CPU has no 64-bit mode", SECONDS(30))
        .unwrap();
}

/// QEMU's other machines take everybody's ports for these; this one has the registers
/// elsewhere, and is in ACPI mode from the start.
#[test]
fn a_q35_with_uefi_goes_off_and_starts_again() {
    let start = || {
        Rig::with(Machine {
            machine: MachineType::Q35,
            firmware: Firmware::Uefi,
            memory: 256,
            ..Machine::default()
        })
    };
    start().end();
    let mut rig = start();
    rig.appliance.type_line("reboot").unwrap();
    let status = rig.appliance.wait(SECONDS(10)).unwrap();
    assert!(status.success(), "{status}");
}

/// The best timer that there is tells how fast the CPU counts.
#[test]
fn the_time_is_told_by_what_counts() {
    for (parts, by) in [
        (vec![], "MHz by HPET"),
        (vec!["hpet=off"], "MHz by the ACPI timer"),
        (vec!["hpet=off", "acpi=off"], "MHz by PIT"),
    ] {
        let rig = Rig::with(Machine {
            parts: parts.into_iter().map(str::to_owned).collect(),
            ..Machine::default()
        });
        let text = rig.appliance.console().text();
        assert!(text.contains(by), "the console lacks \"{by}\"");
        rig.run(Test::TcpRr);
    }
}

#[test]
fn instructions_can_be_counted() {
    let rig = Rig::with(Machine {
        icount: true,
        ..Machine::default()
    });
    rig.run(Test::TcpRr);
    rig.end();
}

#[test]
fn without_a_nic_that_has_a_driver_it_names_those_there_are_and_stays() {
    let machine = Machine {
        stays_when_stopped: true,
        ..crate::rig::nics(&["virtio-net-pci".parse().unwrap()], "")
    };
    let mut appliance =
        Appliance::start(&Image::built().unwrap(), &machine, Network::tap().unwrap()).unwrap();
    for line in [
        "1af4:1000 virtio",
        "stopped: no NIC that can be used",
        "type reboot, or poweroff",
    ] {
        appliance.wait_for_line(line, SECONDS(30)).unwrap();
    }
    appliance.type_line("help").unwrap();
    appliance
        .wait_for_line("only reboot and poweroff", SECONDS(5))
        .unwrap();
    appliance.type_line("reboot").unwrap();
    assert!(appliance.wait(SECONDS(10)).unwrap().success());
}

/// Scripts see by QEMU's exit code that it has stopped.
#[test]
fn without_a_nic_qemu_ends_with_the_code_of_a_stop() {
    let machine = crate::rig::nics(&[], "");
    let mut appliance =
        Appliance::start(&Image::built().unwrap(), &machine, Network::tap().unwrap()).unwrap();
    let status = appliance.wait(SECONDS(30)).unwrap();
    assert_eq!(status.code(), Some(67), "{status}");
}

/// The ELF file, for virtual machine monitors that know nothing else.
#[test]
fn pvh_starts_the_elf_file() {
    let image = Image::at(Image::built().unwrap().path().with_extension("elf")).unwrap();
    let network = Network::tap().unwrap();
    let (mut appliance, ready) = Appliance::boot(&image, &Machine::default(), network).unwrap();
    let text = appliance.console().text();
    assert!(text.contains("booted by PVH"), "{text}");
    Netperf::new(&appliance, ready)
        .run(Test::TcpRr)
        .unwrap()
        .check()
        .unwrap();
    assert!(appliance.power_off().unwrap().success());
}
