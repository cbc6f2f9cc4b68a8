//! What the NIC says of received checksums.

use uniperf_drivers::e1000::E1000;
use uniperf_drivers::nic::{Nic, Receive, RxChecksum};

use crate::machine::{Qemu, Qtest, wait_for};
use crate::{frame, make_ipv4, sum};

use RxChecksum::{Bad, Good, IpGood, Unknown};

const TCP: usize = 50;
const UDP: usize = 40;

/// A whole datagram or segment, with all checksums right.
fn packet(checksum: usize) -> Vec<u8> {
    let mut packet = frame(0, 200);
    let len = packet.len();
    make_ipv4(&mut packet, len, checksum);
    let sum = !sum(&packet[34..]);
    packet[checksum..checksum + 2].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// Changes an IPv4 header, and makes its checksum right again.
fn with_ip(mut packet: Vec<u8>, change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    change(&mut packet[14..34]);
    packet[24..26].fill(0);
    let sum = !sum(&packet[14..34]);
    packet[24..26].copy_from_slice(&sum.to_be_bytes());
    packet
}

fn changed(mut packet: Vec<u8>, at: usize) -> Vec<u8> {
    packet[at] ^= 0x40;
    packet
}

/// What came in is handed on unchanged, and no verdict is better than what it
/// is about. QEMU's 8254x give none; its 82574L computes them.
pub fn verdicts(qemu: &mut Qemu, nic: &mut E1000<Qtest>, computes: bool) -> usize {
    let no_checksum = |mut packet: Vec<u8>| {
        packet[UDP..UDP + 2].fill(0);
        packet
    };
    let first_fragment = |packet| with_ip(packet, |ip| ip[6] = 0x20);
    let later_fragment = |packet| with_ip(packet, |ip| ip[7] = 2);
    let cases: [(&str, Vec<u8>, &[RxChecksum]); 11] = [
        ("TCP", packet(TCP), &[Good]),
        ("UDP", packet(UDP), &[Good]),
        ("bad TCP", changed(packet(TCP), 120), &[Bad]),
        ("bad UDP", changed(packet(UDP), 120), &[Bad]),
        ("bad IP header", changed(packet(TCP), 22), &[Bad]),
        (
            "UDP without a checksum",
            no_checksum(packet(UDP)),
            &[IpGood, Unknown],
        ),
        (
            "first fragment, TCP",
            first_fragment(packet(TCP)),
            &[IpGood, Unknown],
        ),
        (
            "first fragment, UDP",
            first_fragment(packet(UDP)),
            &[IpGood, Unknown],
        ),
        (
            "later fragment",
            later_fragment(packet(UDP)),
            &[IpGood, Unknown],
        ),
        (
            "ICMP",
            with_ip(packet(TCP), |ip| ip[9] = 1),
            &[IpGood, Unknown],
        ),
        ("no IP", frame(9, 100), &[Unknown]),
    ];
    let count = cases.len();
    for (what, packet, expected) in cases {
        qemu.put_on_wire(&packet);
        let (rx, _) = nic.halves();
        let (bytes, verdict) = wait_for(|| {
            let mut got = None;
            rx.poll(1, |frame| {
                got = Some((frame.bytes.to_vec(), frame.checksum))
            });
            got
        });
        assert_eq!(bytes, packet, "{what}");
        let expected = if computes { expected } else { &[Unknown] };
        assert!(expected.contains(&verdict), "{what}: {verdict:?}");
    }
    count
}
