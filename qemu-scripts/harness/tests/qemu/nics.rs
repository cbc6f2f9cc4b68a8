//! NIC models, several NICs, the cable, and both kinds of network.

use std::process::Stdio;
use std::time::Duration;

use uniperf_harness::process::Running;
use uniperf_harness::{
    Appliance, BOOT_TIMEOUT, BootDevice, Firmware, FirmwareBoot, Image, Machine, MachineType,
    NetKind, Netperf, Network, NicModel, Test, media,
};

use crate::rig::{Rig, append, nics};

/// Boots on `model` and runs all that netperf can.
fn works_on(model: NicModel, pci_id: &str) {
    let mut rig = Rig::with(nics(std::slice::from_ref(&model), ""));
    assert!(rig.appliance.console().text().contains(pci_id));
    for test in Test::ALL {
        rig.run(test);
    }
    rig.is_at_rest();
    rig.end();
}

#[test]
fn it_works_on_the_82540em() {
    works_on(NicModel::E1000, "8086:100e");
}

#[test]
fn it_works_on_the_82544gc() {
    works_on(NicModel::E1000_82544gc, "8086:100c");
}

#[test]
fn it_works_on_the_82545em() {
    works_on(NicModel::E1000_82545em, "8086:100f");
}

/// This one interrupts by messages.
#[test]
fn it_works_on_the_82574l() {
    works_on(NicModel::E1000e, "8086:10d3");
}

#[test]
fn message_signalled_interrupts_are_used_where_the_nic_has_them() {
    let mut rig = Rig::with(nics(&[NicModel::E1000e], ""));
    assert!(rig.appliance.console().text().contains("interrupts by MSI"));
    rig.run(Test::TcpRr);
    assert!(rig.appliance.counters().unwrap().get("interrupts") > Some(1000));
    rig.end();
}

/// An MTU that the NIC cannot have is cut to one that it can.
#[test]
fn an_mtu_above_the_nics_is_cut_and_said() {
    let rig = Rig::with(nics(&[NicModel::E1000e], "mtu=16110"));
    let text = rig.appliance.console().text();
    assert!(text.contains("mtu=16110 is more than this NIC can take"));
    rig.run(Test::TcpRr);
    rig.end();
}

#[test]
fn user_networking_needs_no_tap() {
    for model in NicModel::E1000_FAMILY {
        let machine = nics(&[model], "");
        let mut rig = Rig::on(machine, Network::user().unwrap());
        assert_eq!(rig.appliance.network().kind(), NetKind::User);
        assert!(rig.appliance.console().text().contains("10.0.2.15"));
        for test in Test::ALL {
            rig.run(test);
        }
        rig.is_at_rest();
        rig.end();
    }
}

/// With two e1000 NICs, `choice` picks the one whose number is `index`.
fn picks(choice: &str, models: [NicModel; 2], index: usize) {
    let arguments = format!("{choice} ip=10.77.{index}.2/24");
    let rig = Rig::with(nics(&models, &arguments));
    let mac = format!("using NIC 00:0{}", 2 + index);
    let text = rig.appliance.console().text();
    assert!(text.contains(&mac), "{choice} does not pick NIC {index}");
    rig.run(Test::TcpRr);
    rig.end();
}

#[test]
fn of_two_nics_nic_picks_one() {
    let both = [NicModel::E1000, NicModel::E1000_82545em];
    picks("", both.clone(), 0);
    picks("nic=0", both.clone(), 0);
    picks("nic=1", both.clone(), 1);
    picks("nic=00:03.0", both.clone(), 1);
    picks("nic=52:54:00:12:34:57", both.clone(), 1);
    picks("nic=e1000", both, 0);
}

#[test]
fn the_default_is_the_first_nic_that_has_a_driver() {
    let virtio: NicModel = "virtio-net-pci".parse().unwrap();
    picks("", [virtio.clone(), NicModel::E1000], 1);
    picks("", [NicModel::E1000, virtio], 0);
}

#[test]
fn a_nic_that_is_not_there_is_named_and_the_first_one_used() {
    let both = [NicModel::E1000, NicModel::E1000];
    picks("nic=7", both.clone(), 0);
    picks("nic=00:1f.6", both.clone(), 0);
    picks("nic=52:54:00:99:99:99", both, 0);
}

#[test]
fn the_cable_may_be_put_in_after_the_start() {
    let image = Image::built().unwrap();
    let network = Network::tap().unwrap();
    let mut appliance = Appliance::start(&image, &Machine::default(), network).unwrap();
    appliance.set_link(0, false).unwrap();
    std::thread::sleep(Duration::from_secs(2));
    appliance.set_link(0, true).unwrap();
    let ready = appliance.ready(Duration::from_secs(30)).unwrap();
    let netperf = uniperf_harness::Netperf::new(&appliance, ready);
    netperf.run(Test::TcpRr).unwrap().check().unwrap();
    assert!(appliance.power_off().unwrap().success());
}

#[test]
fn the_cable_may_be_pulled_out_during_a_test() {
    let mut rig = Rig::new();
    for test in Test::ALL {
        println!("{test}");
        let from = rig.appliance.console().len();
        let netperf = rig.netperf().length(Duration::from_secs(5));
        let mut command = netperf.test_command(test);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut client = Running::start(&mut command).unwrap();
        std::thread::sleep(Duration::from_secs(1));
        rig.appliance.set_link(0, false).unwrap();
        let seconds = Duration::from_secs(10);
        rig.appliance
            .wait_for_line_after(from, "link down", seconds)
            .unwrap();
        std::thread::sleep(Duration::from_millis(500));
        rig.appliance.set_link(0, true).unwrap();
        rig.appliance
            .wait_for_line_after(from, "link up", seconds)
            .unwrap();
        let status = client.wait(Duration::from_secs(60)).unwrap();
        let status = status.expect("netperf ends");
        // netperf sends a lost datagram of UDP_RR no second time.
        assert!(status.success() || test == Test::UdpRr, "{test}: {status}");
    }
    rig.is_well();
    rig.end();
}

/// GRUB writes a wrong line, or none, into the NIC's configuration space, as firmware may.
/// The NIC itself tells where its interrupt comes.
#[test]
fn a_wrong_interrupt_line_is_found_out() {
    for (line, machine, expected) in [
        ("ff", MachineType::Pc, "interrupts by INTx, line 1"),
        ("03", MachineType::Q35, "interrupts by INTx, line 2"),
    ] {
        let configuration = format!(
            "setpci -d 8086:100e 3c.b={line}\nlinux /boot/uniperf.efi ip=10.77.0.2/24\nboot\n"
        );
        let folder = tempfile::tempdir().unwrap();
        let disk = folder.path().join("disk");
        media::make_grub_disk(&Image::built().unwrap(), &configuration, &disk).unwrap();
        let start = FirmwareBoot::new(Firmware::Bios, BootDevice::Disk(disk));
        let machine = Machine {
            machine,
            ..append("rx=napi")
        };
        let network = Network::tap().unwrap();
        let mut appliance = Appliance::start_by_firmware(&start, &machine, network).unwrap();
        let ready = appliance.ready(BOOT_TIMEOUT).unwrap();
        let text = appliance.console().text();
        assert!(text.contains(expected), "{text}");
        let netperf = Netperf::new(&appliance, ready);
        netperf.run(Test::TcpRr).unwrap().check().unwrap();
        appliance.power_off().unwrap();
    }
}
