//! QEMU's own segmentation against the software's, byte by byte.

use std::ptr::NonNull;

use uniperf_drivers::e1000::E1000;
use uniperf_drivers::gso::{self, Cut};
use uniperf_drivers::hw::{DmaRegion, DmaSlice, Platform};
use uniperf_drivers::nic::{Nic, Offload, Transmit, TxError};

use crate::machine::{Qemu, Qtest, version};
use crate::{frame, sum};

/// A super-segment's shape.
#[derive(Clone, Copy, Debug)]
struct Shape {
    payload: usize,
    mss: u16,
    /// Bytes of TCP options.
    options: usize,
    flags: u8,
    sequence: u32,
    identification: u16,
    /// Payload bytes that go by reference.
    referenced: usize,
}

const ACK: u8 = 0x10;
const PSH: u8 = 0x08;
const FIN: u8 = 0x01;

const PLAIN: Shape = Shape {
    payload: 10_000,
    mss: 1460,
    options: 0,
    flags: ACK | PSH,
    sequence: 1_000_000,
    identification: 7,
    referenced: 0,
};

#[rustfmt::skip]
const SHAPES: [Shape; 11] = [
    PLAIN,
    Shape { options: 12, mss: 1448, ..PLAIN },
    Shape { flags: ACK | PSH | FIN, ..PLAIN },
    Shape { payload: 1460 * 3, ..PLAIN },
    // One byte more than a multiple, and the longest.
    Shape { payload: 1460 * 3 + 1, ..PLAIN },
    Shape { payload: 65_495, ..PLAIN },
    // Both numbers go round.
    Shape { sequence: u32::MAX - 3000, identification: 0xfffe, ..PLAIN },
    Shape { sequence: u32::MAX - 2 * 1460 + 1, identification: 0xffff, ..PLAIN },
    // One segment, and small ones.
    Shape { payload: 300, ..PLAIN },
    Shape { payload: 999, mss: 64, options: 40, ..PLAIN },
    Shape { referenced: 9_000, options: 12, mss: 1448, ..PLAIN },
];

impl Shape {
    fn headers(&self) -> Vec<u8> {
        let mut frame = frame(0, 54 + self.options);
        frame[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 0]);
        frame[18..20].copy_from_slice(&self.identification.to_be_bytes());
        frame[20..24].copy_from_slice(&[0x40, 0, 64, 6]);
        frame[26..34].copy_from_slice(&[10, 77, 0, 2, 10, 77, 0, 1]);
        frame[34..38].copy_from_slice(&[0x30, 0x39, 0x04, 0xd2]);
        frame[38..42].copy_from_slice(&self.sequence.to_be_bytes());
        frame[42..46].copy_from_slice(&77_u32.to_be_bytes());
        frame[46] = ((20 + self.options) as u8 / 4) << 4;
        frame[47] = self.flags;
        frame[48..50].copy_from_slice(&[0x20, 0]);
        frame[54..].fill(1);
        frame
    }

    fn payload(&self) -> Vec<u8> {
        (0..self.payload)
            .map(|at| (at * 31 + at / 251) as u8)
            .collect()
    }

    /// TCP header and payload of the one segment it would be if nothing cut it.
    fn uncut(&self) -> Vec<u8> {
        let mut whole = [&self.headers()[26..], &self.payload()].concat();
        let len = (whole.len() - 8) as u16;
        let mut pseudo = whole[..8].to_vec();
        pseudo.extend([0, 6]);
        pseudo.extend(len.to_be_bytes());
        whole[24..26].copy_from_slice(&sum(&pseudo).to_be_bytes());
        let checksum = !sum(&whole[8..]);
        whole[24..26].copy_from_slice(&checksum.to_be_bytes());
        whole[8..].to_vec()
    }

    /// The segments as software cuts them.
    fn segments(&self) -> Vec<Vec<u8>> {
        let headers = self.headers();
        let cut = Cut {
            ipv6: false,
            mss: self.mss,
            checksum_offload: false,
        };
        let mut wire = Wire(Vec::new());
        let count = gso::send(&mut wire, &[headers, self.payload()].concat(), cut).unwrap();
        assert_eq!(wire.0.len(), count);
        wire.0
    }
}

/// Every shape through the NIC. Returns how many super-segments those were.
pub fn cuts(qemu: &mut Qemu, nic: &mut E1000<Qtest>, device: &str) -> usize {
    let region = qemu.dma_alloc(65536, 64).unwrap();
    assert!(nic.capabilities().tso_v4);
    assert_eq!(nic.capabilities().tso_max_bytes, 65549);
    for shape in SHAPES {
        send(nic, &shape, &region);
        let wire = until_marker(qemu, nic);
        let expected = shape.segments();
        let cuts = expected.len() > 1;
        // QEMU's e1000e hands super-segments on to a peer that takes them, as
        // taps do. For others it cuts them itself: before 8.0 into IP
        // fragments, since then without FIN and PSH.
        match (device, version()) {
            ("e1000e", ..800) if cuts => {
                assert_eq!(reassembled(&wire), shape.uncut(), "{device} {shape:?}");
            }
            ("e1000e", _) if cuts => {
                let flags = shape.flags & !(FIN | PSH);
                let expected = Shape { flags, ..shape }.segments();
                assert_eq!(wire, expected, "{device} {shape:?}");
            }
            _ => assert_eq!(wire, expected, "{device} {shape:?}"),
        }
    }
    SHAPES.len()
}

fn send(nic: &mut E1000<Qtest>, shape: &Shape, region: &DmaRegion) {
    let headers = shape.headers();
    let payload = shape.payload();
    let (inline, referenced) = payload.split_at(shape.payload - shape.referenced);
    // SAFETY: the region is longer, and the NIC is done with what was there.
    unsafe {
        let bytes = NonNull::from(referenced).cast();
        region
            .cpu()
            .copy_from_nonoverlapping(bytes, referenced.len());
    }
    let middle = referenced.len() / 3;
    let fragments = [
        region.slice(0..middle),
        region.slice(middle..referenced.len()),
    ];
    let fragments = if referenced.is_empty() {
        &[]
    } else {
        &fragments[..]
    };
    let offload = Offload::Tso {
        ipv6: false,
        mss: shape.mss,
    };
    let filled = [&headers[..], inline].concat();
    let (_, tx) = nic.halves();
    tx.send(filled.len(), fragments, offload, |buffer| {
        buffer.copy_from_slice(&filled);
    })
    .unwrap();
}

/// What is on the wire before a frame sent now, as IP packets behind their
/// Ethernet header: without padding, which QEMU's models leave out or not.
fn until_marker(qemu: &mut Qemu, nic: &mut E1000<Qtest>) -> Vec<Vec<u8>> {
    let marker = frame(0xeeee, 60);
    let (_, tx) = nic.halves();
    tx.send(60, &[], Offload::None, |buffer| {
        buffer.copy_from_slice(&marker);
    })
    .unwrap();
    tx.flush();
    let mut wire = Vec::new();
    loop {
        let mut frame = qemu.take_from_wire();
        if frame == marker {
            assert_eq!(tx.reclaim(), 2);
            break;
        }
        frame.truncate(14 + usize::from(u16::from_be_bytes([frame[16], frame[17]])));
        let tcp_header = usize::from(frame[46] >> 4) * 4;
        // QEMU's e1000 sends one more segment, an empty one, where the payload
        // is a multiple of the MSS.
        if frame.len() > 34 + tcp_header || wire.is_empty() {
            wire.push(frame);
        }
    }
    wire
}

/// Puts IP fragments together; the IP header's checksum is not looked at.
fn reassembled(wire: &[Vec<u8>]) -> Vec<u8> {
    let mut whole = wire[0][..34].to_vec();
    for fragment in wire {
        let offset = u16::from_be_bytes([fragment[20], fragment[21]]) & 0x1fff;
        assert_eq!(whole.len(), 34 + usize::from(offset) * 8);
        whole.extend(&fragment[34..]);
    }
    whole[34..].to_vec()
}

/// A transmitter that keeps what it is given.
struct Wire(Vec<Vec<u8>>);

impl Transmit for Wire {
    fn send<R>(
        &mut self,
        header_len: usize,
        _: &[DmaSlice],
        _: Offload,
        fill: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R, TxError> {
        let mut frame = vec![0xa5; header_len];
        let result = fill(&mut frame);
        self.0.push(frame);
        Ok(result)
    }

    fn flush(&mut self) {}

    fn reclaim(&mut self) -> usize {
        0
    }

    fn free(&self) -> usize {
        usize::MAX
    }

    fn capacity(&self) -> usize {
        usize::MAX
    }
}
