//! Bad input. After each kind the next netperf runs normally, and the counters of
//! free buffers and sockets return to their resting values.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::Stdio;
use std::time::Duration;

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::Linger;
use uniperf_harness::frames::{BROADCAST, FrameSender, Noise, ethernet, ethernet_to, ipv4};
use uniperf_harness::peers::{ping_flood, scan_ports};
use uniperf_harness::process::Running;
use uniperf_harness::{CONTROL_PORT, Test};

use crate::rig::Rig;

const SECOND: Duration = Duration::from_secs(1);
/// netperf's control message since 2.6: two integers and 162 of payload.
const CONTROL_MESSAGE: usize = 656;
/// Closing a socket resets its connection.
const RESET_ON_CLOSE: nix::libc::linger = nix::libc::linger {
    l_onoff: 1,
    l_linger: 0,
};
/// Request types of netperf's: the omni test, and the classic ones about it.
const OMNI: u32 = 97;

/// A control connection.
fn connect(rig: &Rig) -> TcpStream {
    let address = SocketAddr::new(rig.ready.address, CONTROL_PORT);
    let connect = || TcpStream::connect_timeout(&address, 5 * SECOND);
    let stream = rig.appliance.network().enter(connect).unwrap().unwrap();
    stream.set_read_timeout(Some(SECOND)).unwrap();
    stream.set_write_timeout(Some(SECOND)).unwrap();
    stream
}

/// Writes `bytes`, reads what comes, and closes.
fn exchange(rig: &Rig, bytes: &[u8]) {
    let mut stream = connect(rig);
    // The appliance may close before it has everything.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let _ = stream.read(&mut [0; 4096]);
}

#[test]
fn random_bytes_on_the_control_port() {
    let mut rig = Rig::new();
    let mut noise = Noise::new(1);
    for size in [1, 4, 63, 64, 255, 256, 655, 656, 657, 1312, 5000, 100_000] {
        exchange(&rig, &noise.bytes(size));
    }
    for _ in 0..100 {
        let size = noise.below(2000);
        exchange(&rig, &noise.bytes(size));
    }
    assert!(rig.counter("netperf.clients") >= 112);
    rig.is_well();
    rig.end();
}

/// Connections that end as soon as they are made, by a reset and in order.
#[test]
fn clients_that_leave_at_once() {
    let mut rig = Rig::new();
    for in_order in [false, true] {
        for _ in 0..200 {
            let stream = connect(&rig);
            if !in_order {
                setsockopt(&stream, Linger, &RESET_ON_CLOSE).unwrap();
            }
        }
        rig.run(Test::TcpRr);
    }
    rig.is_well();
    assert_eq!(rig.counter("tcp.refused"), 0);
    rig.end();
}

#[test]
fn half_a_message_on_the_control_port() {
    let mut rig = Rig::new();
    let half = [&OMNI.to_be_bytes()[..], &[0; CONTROL_MESSAGE / 2 - 4]].concat();
    exchange(&rig, &half);
    // Some stay open with their half while others are served.
    let mut waiting: Vec<_> = (0..4).map(|_| connect(&rig)).collect();
    for stream in &mut waiting {
        stream.write_all(&half).unwrap();
    }
    rig.run(Test::TcpRr);
    drop(waiting);
    rig.is_well();
    rig.end();
}

#[test]
fn connections_that_say_nothing_do_not_shut_others_out() {
    let mut rig = Rig::new();
    let silent: Vec<_> = (0..8).map(|_| connect(&rig)).collect();
    rig.run(Test::TcpRr);
    drop(silent);
    rig.is_well();
    rig.end();
}

#[test]
fn huge_and_wild_numbers_in_control_messages() {
    let mut rig = Rig::new();
    let message = |kind: u32, payload: &mut dyn FnMut(usize) -> u32| {
        let mut bytes = kind.to_be_bytes().to_vec();
        bytes.extend((1..CONTROL_MESSAGE / 4).flat_map(|word| payload(word).to_be_bytes()));
        bytes
    };
    for value in [0, 1, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff] {
        exchange(&rig, &message(OMNI, &mut |_| value));
    }
    let mut noise = Noise::new(2);
    for _ in 0..200 {
        // Mostly small numbers, as they get further into the checks.
        let wild = 1 + noise.below(40);
        let bytes = message(OMNI, &mut |word| {
            if word % wild == 0 {
                noise.number() as u32
            } else {
                noise.below(4) as u32
            }
        });
        exchange(&rig, &bytes);
    }
    for kind in 0..400 {
        exchange(&rig, &message(kind, &mut |_| 0x7fff_ffff));
    }
    assert!(rig.counter("netperf.clients") >= 605);
    assert!(rig.counter("netperf.refused") > 100);
    rig.is_well();
    rig.end();
}

/// Starts `test` for a long time, and lets it run for a while.
fn begin(rig: &Rig, test: Test) -> Running {
    let netperf = rig.netperf().length(60 * SECOND);
    let mut command = netperf.test_command(test);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let client = Running::start(&mut command).unwrap();
    std::thread::sleep(2 * SECOND);
    client
}

#[test]
fn a_client_is_killed_in_the_middle_of_each_test() {
    let mut rig = Rig::new();
    for test in Test::ALL {
        let mut client = begin(&rig, test);
        assert_eq!(client.try_wait().unwrap(), None, "{test} runs");
        client.kill().unwrap();
        rig.run(Test::TcpRr);
    }
    // To some the end of the connection is the end of the test.
    let ended = rig.counter("netperf.tests_finished") + rig.counter("netperf.tests_abandoned");
    assert_eq!(ended, rig.counter("netperf.tests_started"));
    assert!(rig.counter("netperf.tests_abandoned") > 0);
    rig.is_well();
    rig.end();
}

#[test]
fn the_tap_is_pulled_down_in_the_middle_of_each_test() {
    let mut rig = Rig::new();
    for test in Test::ALL {
        let mut client = begin(&rig, test);
        assert_eq!(client.try_wait().unwrap(), None, "{test} runs");
        let tap = rig.appliance.network().as_tap().unwrap();
        tap.set_up(false).unwrap();
        // What it would say about its end cannot leave.
        client.kill().unwrap();
        std::thread::sleep(SECOND);
        tap.set_up(true).unwrap();
        rig.run(Test::TcpRr);
    }
    rig.is_well();
    rig.end();
}

#[test]
fn a_scan_of_all_ports() {
    let mut rig = Rig::new();
    let open = scan_ports(rig.appliance.network(), rig.ready.address).unwrap();
    assert_eq!(open, [CONTROL_PORT]);
    rig.is_well();
    rig.end();
}

/// A sender of frames that arrive: QEMU's e1000 is deaf for the first second after
/// its receiver was enabled.
fn sender(rig: &Rig) -> FrameSender {
    let network = rig.appliance.network();
    let pings = ping_flood(network, rig.ready.address, 1, 56).unwrap();
    assert!(pings.received > 0);
    FrameSender::new(network).unwrap()
}

#[test]
fn truncated_frames_and_garbage() {
    let mut rig = Rig::new();
    let sender = sender(&rig);
    let mut noise = Noise::new(3);

    // Ethernet alone, from nothing behind the header on.
    for size in (0..64).chain([1500]) {
        for ethertype in [0x0800, 0x0806, 0x86dd, 0x8100, 0x0000, 0xffff] {
            sender
                .send(&ethernet(ethertype, &noise.bytes(size)))
                .unwrap();
            let frame = ethernet_to(BROADCAST, ethertype, &noise.bytes(size));
            sender.send(&frame).unwrap();
        }
    }
    // IPv4 packets of each protocol, cut off at each place.
    for protocol in [1, 2, 6, 17, 47, 255] {
        let mut packet = ipv4(protocol, &noise.bytes(64));
        for length in (0..packet.len()).rev() {
            packet.truncate(length);
            sender.send(&ethernet(0x0800, &packet)).unwrap();
        }
    }
    // Right IPv4 headers over noise, and noise with single bytes right.
    for _ in 0..5000 {
        let size = noise.below(200);
        let protocol = [1, 6, 17][noise.below(3)];
        let mut packet = ipv4(protocol, &noise.bytes(size));
        if noise.below(2) == 0 {
            let place = noise.below(20);
            packet[place] = noise.number() as u8;
        }
        sender.send(&ethernet(0x0800, &packet)).unwrap();
        let mut arp = vec![0, 1, 8, 0, 6, 4, 0, 1];
        let size = noise.below(30);
        arp.extend(noise.bytes(size));
        sender.send(&ethernet_to(BROADCAST, 0x0806, &arp)).unwrap();
    }
    rig.wait_for_counter("rx.frames", u64::from(sender.sent()));
    rig.wait_for_counter("drop.malformed", 100);
    rig.wait_for_counter("drop.truncated", 1000);
    rig.wait_for_counter("drop.checksum", 1000);
    rig.is_well();
    rig.end();
}

#[test]
fn fragments_that_never_become_a_whole() {
    let mut rig = Rig::new();
    let sender = sender(&rig);
    let mut noise = Noise::new(4);
    for number in 0..2000_u16 {
        let mut packet = ipv4(17, &noise.bytes(64));
        packet[4..6].copy_from_slice(&number.to_be_bytes());
        // More fragments, at any place, some beyond the largest packet.
        let place = 0x2000 | (noise.number() as u16 & 0x1fff);
        packet[6..8].copy_from_slice(&place.to_be_bytes());
        packet[10..12].fill(0);
        let sum = uniperf_harness::frames::checksum(&packet[..20]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        sender.send(&ethernet(0x0800, &packet)).unwrap();
    }
    rig.wait_for_counter("rx.fragments", 1000);
    rig.is_well();
    rig.end();
}

#[test]
fn frames_larger_than_the_wire_takes() {
    let mut rig = Rig::new();
    let tap = rig.appliance.network().as_tap().unwrap();
    tap.namespace()
        .ip(&["link", "set", "tap0", "mtu", "9000"])
        .unwrap();
    let sender = sender(&rig);
    let mut noise = Noise::new(5);
    for size in [1501, 1504, 1505, 1518, 1519, 2000, 2034, 2048, 4096, 9000] {
        for _ in 0..50 {
            sender.send(&ethernet(0x0800, &noise.bytes(size))).unwrap();
            let packet = ipv4(17, &noise.bytes(size - 20));
            sender.send(&ethernet(0x0800, &packet)).unwrap();
        }
    }
    let tap = rig.appliance.network().as_tap().unwrap();
    tap.namespace()
        .ip(&["link", "set", "tap0", "mtu", "1500"])
        .unwrap();
    rig.is_well();
    rig.end();
}

#[test]
fn connections_that_are_begun_and_forgotten() {
    let mut rig = Rig::new();
    let sender = sender(&rig);
    let mut noise = Noise::new(6);
    for number in 0..5000_u16 {
        // A SYN with nobody behind it.
        let mut segment = (1024 + number).to_be_bytes().to_vec();
        segment.extend(CONTROL_PORT.to_be_bytes());
        segment.extend(noise.bytes(4));
        segment.extend([0, 0, 0, 0, 0x50, 0x02, 0xff, 0xff, 0, 0, 0, 0]);
        let mut packet = ipv4(6, &segment);
        // From an address that does not answer.
        packet[12..16].copy_from_slice(&[10, 77, 0, 200]);
        packet[10..12].fill(0);
        let sum = uniperf_harness::frames::checksum(&packet[..20]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        let pseudo = [&packet[12..20], &[0, 6, 0, 20], &packet[20..]].concat();
        let sum = uniperf_harness::frames::checksum(&pseudo);
        packet[36..38].copy_from_slice(&sum.to_be_bytes());
        sender.send(&ethernet(0x0800, &packet)).unwrap();
    }
    rig.wait_for_counter("tcp.syn_doubted", 1000);
    rig.is_well();
    rig.end();
}
