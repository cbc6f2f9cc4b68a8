//! Super-segments: what the model's NIC cuts, what [`gso`] cuts, and a third
//! cut made here from scratch must be the same, byte by byte.

use proptest::prelude::*;

use super::*;
use crate::e1000::model::ones_complement_sum;
use crate::gso::{self, Cut};
use crate::hw::{DmaRegion, DmaSlice, Platform};
use crate::nic::{Link, TSO_INLINE, TxError};

const ACK: u8 = 1 << 4;
const PSH: u8 = 1 << 3;
const FIN: u8 = 1 << 0;
const CWR: u8 = 1 << 7;

/// A super-segment.
#[derive(Clone, Debug)]
struct Whole {
    ipv6: bool,
    ip_options: usize,
    tcp_options: usize,
    flags: u8,
    sequence: u32,
    identification: u16,
    payload: usize,
    mss: u16,
    seed: u8,
}

const PLAIN: Whole = Whole {
    ipv6: false,
    ip_options: 0,
    tcp_options: 12,
    flags: ACK | PSH,
    sequence: 1000,
    identification: 1,
    payload: 5000,
    mss: 1448,
    seed: 0,
};

impl Whole {
    /// The headers, with rubbish where the contract allows it.
    fn headers(&self) -> Vec<u8> {
        self.headers_with([0xde, 0xad], self.sequence, self.identification, self.flags)
    }

    fn headers_with(&self, rubbish: [u8; 2], sequence: u32, id: u16, flags: u8) -> Vec<u8> {
        let mut bytes = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8];
        if self.ipv6 {
            bytes.extend([0x86, 0xdd, 0x60, 1, 2, 3]);
            bytes.extend(rubbish);
            bytes.extend([6, 64]);
            bytes.extend((0..32).map(|at| self.seed.wrapping_mul(7).wrapping_add(at)));
        } else {
            bytes.extend([0x08, 0x00, 0x45 + (self.ip_options / 4) as u8, 0]);
            bytes.extend(rubbish);
            bytes.extend(id.to_be_bytes());
            bytes.extend([0x40, 0, 64, 6]);
            bytes.extend(rubbish);
            bytes.extend([10, 77, self.seed, 2, 10, 77, 0, 1]);
            bytes.extend(vec![1; self.ip_options]);
        }
        bytes.extend([0x12, 0x34, 0x04, 0xd2]);
        bytes.extend(sequence.to_be_bytes());
        bytes.extend([
            0,
            0,
            0,
            5,
            ((20 + self.tcp_options) / 4 * 16) as u8,
            flags,
            8,
            0,
        ]);
        bytes.extend(rubbish);
        bytes.extend([0, 0]);
        bytes.extend(vec![1; self.tcp_options]);
        bytes
    }

    fn payload(&self) -> Vec<u8> {
        (0..self.payload)
            .map(|at| (at * 13 + at / 256) as u8 ^ self.seed)
            .collect()
    }

    fn offload(&self) -> Offload {
        Offload::Tso {
            ipv6: self.ipv6,
            header_len: self.headers().len() as u16,
            mss: self.mss,
        }
    }

    fn cut(&self, checksum_offload: bool) -> Cut {
        Cut {
            ipv6: self.ipv6,
            header_len: self.headers().len() as u16,
            mss: self.mss,
            checksum_offload,
        }
    }

    /// The segments, from scratch: each is written as if it stood alone.
    fn reference(&self) -> Vec<Vec<u8>> {
        let payload = self.payload();
        let parts: Vec<&[u8]> = payload.chunks(self.mss.into()).collect();
        let mut sent = 0;
        let mut segments = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            let mut flags = self.flags;
            if index + 1 != parts.len() {
                flags &= !(FIN | PSH);
            }
            if index != 0 {
                flags &= !CWR;
            }
            let sequence = (u64::from(self.sequence) + sent) as u32;
            let id = (usize::from(self.identification) + index) as u16;
            let mut segment = self.headers_with([0, 0], sequence, id, flags);
            let header = segment.len();
            segment.extend(*part);
            let ip_header = if self.ipv6 { 40 } else { 20 + self.ip_options };
            let tcp = 14 + ip_header;
            let tcp_len = (header - tcp + part.len()) as u16;
            let mut pseudo;
            if self.ipv6 {
                segment[18..20].copy_from_slice(&tcp_len.to_be_bytes());
                pseudo = segment[22..54].to_vec();
            } else {
                let total = tcp_len + ip_header as u16;
                segment[16..18].copy_from_slice(&total.to_be_bytes());
                let sum = !ones_complement_sum(&segment[14..tcp]);
                segment[24..26].copy_from_slice(&sum.to_be_bytes());
                pseudo = segment[26..34].to_vec();
            }
            pseudo.extend([0, 6]);
            pseudo.extend(tcp_len.to_be_bytes());
            pseudo.extend(&segment[tcp..]);
            let sum = !ones_complement_sum(&pseudo);
            segment[tcp + 16..tcp + 18].copy_from_slice(&sum.to_be_bytes());
            segment.resize(segment.len().max(60), 0);
            segments.push(segment);
            sent += part.len() as u64;
        }
        segments
    }

    /// The segments as the model's NIC cuts them, the payload behind `inline`
    /// bytes going by reference in pieces of the lengths given.
    fn by_nic(&self, bench: &mut Bench, inline: usize, cuts: &[usize]) -> Vec<Vec<u8>> {
        let payload = self.payload();
        let filled = [&self.headers()[..], &payload[..inline]].concat();
        let fragments = bench.lay_out(&payload[inline..], cuts);
        let (_, tx) = bench.nic.halves();
        assert_eq!(tx.accepts(filled.len(), &fragments, self.offload()), Ok(()));
        tx.send(filled.len(), &fragments, self.offload(), |buffer| {
            buffer.copy_from_slice(&filled);
        })
        .unwrap();
        bench.finish(1)
    }

    fn by_software(&self, bench: &mut Bench, checksum_offload: bool) -> Vec<Vec<u8>> {
        let frame = [self.headers(), self.payload()].concat();
        let (_, tx) = bench.nic.halves();
        let count = gso::send(tx, &frame, self.cut(checksum_offload)).unwrap();
        assert_eq!(count, self.payload.div_ceil(self.mss.into()));
        bench.finish(count)
    }
}

/// A NIC, and memory to refer to.
struct Bench {
    hardware: Hardware,
    nic: E1000<Hardware>,
    region: DmaRegion,
}

impl Bench {
    fn new(device: u16, pci_x: bool) -> Self {
        Self::with(
            device,
            pci_x,
            Config {
                rx_ring: 8,
                tx_ring: 2048,
                mtu: 1500,
            },
        )
    }

    fn with(device: u16, pci_x: bool, config: Config) -> Self {
        let hardware = Hardware::new(device);
        if pci_x {
            hardware.poke(STATUS, hardware.peek(STATUS) | Status::PCIX_MODE.bits());
        }
        let nic = start_with(&hardware, config).unwrap();
        let region = hardware.clone().dma_alloc(1 << 16, 64).unwrap();
        Self {
            hardware,
            nic,
            region,
        }
    }

    /// Puts `bytes` into memory, and names it in pieces.
    fn lay_out(&self, bytes: &[u8], cuts: &[usize]) -> Vec<DmaSlice> {
        // SAFETY: the region is longer than any payload, and the NIC is done
        // with what was there.
        unsafe {
            let start = std::ptr::NonNull::from(bytes).cast();
            self.region
                .cpu()
                .copy_from_nonoverlapping(start, bytes.len());
        }
        let mut at = 0;
        let mut pieces = Vec::new();
        for len in cuts.iter().copied().chain([bytes.len()]) {
            let end = bytes.len().min(at + len);
            pieces.push(self.region.slice(at..end));
            at = end;
        }
        pieces.retain(|piece| piece.len > 0);
        pieces
    }

    /// Lets the NIC send what is queued, and returns it.
    fn finish(&mut self, frames: usize) -> Vec<Vec<u8>> {
        let (_, tx) = self.nic.halves();
        tx.flush();
        self.hardware.transmit(usize::MAX);
        assert_eq!(tx.reclaim(), frames);
        assert_eq!(tx.free(), tx.capacity());
        std::mem::take(&mut self.hardware.state().sent)
    }
}

#[test]
fn flags_and_numbers_segment_by_segment() {
    let whole = Whole {
        flags: ACK | PSH | FIN,
        sequence: u32::MAX - 1447,
        identification: 0xffff,
        ..PLAIN
    };
    let mut bench = Bench::new(COPPER, false);
    let segments = whole.by_nic(&mut bench, whole.payload, &[]);
    let field = |range: std::ops::Range<usize>| -> Vec<u32> {
        let number = |segment: &Vec<u8>| {
            let bytes = segment[range.clone()].iter();
            bytes.fold(0, |value, byte| value << 8 | u32::from(*byte))
        };
        segments.iter().map(number).collect()
    };
    assert_eq!(field(38..42), [u32::MAX - 1447, 0, 1448, 2896], "sequence");
    assert_eq!(field(18..20), [0xffff, 0, 1, 2], "identification");
    let ack = u32::from(ACK);
    let last = u32::from(ACK | PSH | FIN);
    assert_eq!(field(47..48), [ack, ack, ack, last], "flags");
    assert_eq!(field(16..18), [1500, 1500, 1500, 52 + 656], "total length");
}

#[test]
fn congestion_window_reduced_is_said_once() {
    let whole = Whole {
        flags: ACK | CWR,
        ..PLAIN
    };
    let mut bench = Bench::new(COPPER, false);
    let flags: Vec<u8> = whole
        .by_software(&mut bench, false)
        .iter()
        .map(|s| s[47])
        .collect();
    assert_eq!(flags, [ACK | CWR, ACK, ACK, ACK]);
}

#[test]
fn what_each_part_can_cut() {
    for (device, v4, v6) in [
        (0x1004, false, false),
        (0x100c, true, false),
        (0x100e, true, false),
        (0x1079, true, false),
        (0x1076, true, false),
        (0x1075, false, false),
        (0x10d3, true, true),
    ] {
        let mut bench = Bench::new(device, false);
        let can = bench.nic.capabilities();
        assert_eq!((can.tso_v4, can.tso_v6), (v4, v6), "{device:#x}");
        assert_eq!(can.tso_max_bytes, if v4 { 65549 } else { 0 });
        for (ipv6, can) in [(false, v4), (true, v6)] {
            let whole = Whole {
                ipv6,
                mss: 1428,
                ..PLAIN
            };
            let (_, tx) = bench.nic.halves();
            let answer = tx.accepts(3000, &[], whole.offload());
            assert_eq!(answer.is_ok(), can, "{device:#x} {answer:?}");
        }
    }
}

#[test]
fn pci_express_does_not_cut_at_100_mbits() {
    let mut bench = Bench::new(0x10d3, false);
    for (mbps, can) in [(100, false), (1000, true)] {
        bench.hardware.set_link(Link::Down);
        bench.nic.service(Causes::LINK);
        bench.hardware.set_link(Link::Up {
            mbps,
            full_duplex: true,
        });
        bench.nic.service(Causes::LINK);
        let capabilities = *bench.nic.capabilities();
        assert_eq!((capabilities.tso_v4, capabilities.tso_v6), (can, can));
        assert_eq!(capabilities.tso_max_bytes > 0, can);
        let answer = bench.nic.halves().1.accepts(3000, &[], PLAIN.offload());
        assert_eq!(answer.is_ok(), can);
    }
}

#[test]
fn what_the_nic_cannot_cut_is_refused_and_costs_nothing() {
    let mut bench = Bench::new(COPPER, false);
    let slice = bench.region.slice(0..3000);
    let tso = |header_len, mss| Offload::Tso {
        ipv6: false,
        header_len,
        mss,
    };
    let (_, tx) = bench.nic.halves();
    let free = tx.free();
    for (filled, payload, offload) in [
        (54, vec![], tso(54, 1460)),
        (3000, vec![], tso(53, 1460)),
        (3000, vec![], tso(244, 1256)),
        (3000, vec![], tso(54, 63)),
        (3000, vec![], tso(54, 0)),
        (3000, vec![], tso(54, 1461)),
        (65550, vec![], tso(54, 1460)),
        (usize::MAX, vec![slice], tso(54, 1460)),
        (54 + TSO_INLINE - 1, vec![slice], tso(54, 1460)),
    ] {
        let sent = tx.send(filled, &payload, offload, |_| panic!("filled"));
        assert_eq!(sent, Err(TxError::Unsupported), "{filled} {offload:?}");
        assert_eq!(tx.accepts(filled, &payload, offload), sent);
        assert_eq!(tx.free(), free);
    }
    assert_eq!(tx.accepts(54 + TSO_INLINE, &[slice], tso(54, 1460)), Ok(()));
    assert_eq!(tx.accepts(65549, &[], tso(54, 64)), Ok(()));
}

#[test]
fn headers_that_do_not_add_up_do_no_harm() {
    let mut bench = Bench::new(0x10d3, false);
    for ipv6 in [false, true] {
        for payload in [500, 5000] {
            let whole = Whole {
                ipv6,
                payload,
                mss: 1428,
                ..PLAIN
            };
            let len = whole.headers().len() + payload;
            let (_, tx) = bench.nic.halves();
            for rubbish in [0x00, 0xff] {
                tx.send(len, &[], whole.offload(), |buffer| buffer.fill(rubbish))
                    .unwrap();
            }
            assert!(!bench.finish(2).is_empty());
        }
    }
}

#[test]
fn a_full_ring_loses_no_super_segment() {
    let whole = Whole {
        payload: 20_000,
        ..PLAIN
    };
    let frame = [whole.headers(), whole.payload()].concat();
    for (device, pci_x) in [(COPPER, false), (0x100c, true)] {
        let mut bench = Bench::with(
            device,
            pci_x,
            Config {
                rx_ring: 8,
                tx_ring: 64,
                mtu: 1500,
            },
        );
        let mut expected = Vec::new();
        for round in 0..40 {
            let (_, tx) = bench.nic.halves();
            let mut queued = 0;
            loop {
                let accepts = tx.accepts(frame.len(), &[], whole.offload());
                let sent = tx.send(frame.len(), &[], whole.offload(), |buffer| {
                    buffer.copy_from_slice(&frame);
                });
                assert_eq!(sent, accepts);
                match sent {
                    Ok(()) => queued += 1,
                    Err(error) => break assert_eq!(error, TxError::RingFull),
                }
            }
            assert!(queued > 0);
            // What room there is, is room for frames.
            for _ in 0..tx.free() {
                tx.send(
                    60,
                    &[],
                    Offload::Checksum {
                        start: 34,
                        offset: 50,
                    },
                    |_| (),
                )
                .unwrap();
            }
            for _ in 0..queued {
                expected.extend(whole.reference());
            }
            tx.flush();
            bench.hardware.transmit(usize::MAX);
            let (_, tx) = bench.nic.halves();
            tx.reclaim();
            assert_eq!(tx.free(), tx.capacity(), "round {round}");
        }
        let mut sent = std::mem::take(&mut bench.hardware.state().sent);
        sent.retain(|frame| frame.len() > 60);
        assert_eq!(sent, expected);
    }
}

#[test]
fn large_buffers_are_waited_for() {
    let mut bench = Bench::new(COPPER, false);
    let whole = Whole {
        payload: 3000,
        ..PLAIN
    };
    let len = whole.headers().len() + whole.payload;
    let queued = loop {
        let (_, tx) = bench.nic.halves();
        let before = tx.free();
        match tx.send(len, &[], whole.offload(), |buffer| {
            buffer.copy_from_slice(&[whole.headers(), whole.payload()].concat());
        }) {
            Ok(()) => assert!(tx.free() < before),
            Err(TxError::RingFull) => break tx.capacity() - before,
            Err(error) => panic!("{error:?}"),
        }
    };
    let (_, tx) = bench.nic.halves();
    assert!(tx.free() > 0, "frames still have room");
    assert_eq!(
        tx.accepts(1514, &[], whole.offload()),
        Ok(()),
        "so have short ones"
    );
    assert!(queued >= 32);
    assert_eq!(bench.finish(32).len(), 32 * 3);
}

#[test]
fn software_cuts_all_or_nothing() {
    let whole = Whole {
        payload: 1448 * 6,
        ..PLAIN
    };
    let frame = [whole.headers(), whole.payload()].concat();
    let mut bench = Bench::with(
        COPPER,
        false,
        Config {
            rx_ring: 8,
            tx_ring: 16,
            mtu: 1500,
        },
    );
    let (_, tx) = bench.nic.halves();
    assert_eq!(tx.capacity(), 7);
    for used in 0..=7 {
        for _ in 0..used {
            tx.send(60, &[], Offload::None, |_| ()).unwrap();
        }
        let free = tx.free();
        let sent = gso::send(tx, &frame, whole.cut(true));
        let expected = if used <= 1 {
            Ok(6)
        } else {
            Err(TxError::RingFull)
        };
        assert_eq!(sent, expected, "{used} in flight");
        if sent.is_err() {
            assert_eq!(tx.free(), free);
        }
        tx.flush();
        bench.hardware.transmit(usize::MAX);
        tx.reclaim();
    }
    let mut refuse = |frame: &[u8], cut| {
        assert_eq!(
            gso::send(tx, frame, cut),
            Err(TxError::Unsupported),
            "{cut:?}"
        );
    };
    let cut = whole.cut(false);
    refuse(&frame, Cut { mss: 1000, ..cut });
    refuse(&frame, Cut { mss: 0, ..cut });
    refuse(&frame, Cut { mss: 1449, ..cut });
    refuse(
        &frame,
        Cut {
            header_len: 64,
            ..cut
        },
    );
    refuse(&frame, Cut { ipv6: true, ..cut });
    refuse(&frame[..66], cut);
    refuse(&frame[..50], cut);
    assert_eq!(tx.free(), 7);
}

fn whole() -> impl Strategy<Value = Whole> {
    let sequence = prop_oneof![any::<u32>(), (u32::MAX - 70_000)..=u32::MAX];
    let identification = prop_oneof![any::<u16>(), 0xffc0..=0xffff_u16];
    let payload = prop_oneof![1..3000usize, 1..65_000usize];
    let numbers = (sequence, identification, any::<u8>());
    let options = (0..=10usize, 0..=10usize);
    (
        any::<bool>(),
        options,
        numbers,
        payload,
        64..1400_u16,
        0..8u8,
        any::<bool>(),
    )
        .prop_map(
            |(
                ipv6,
                (ip, tcp),
                (sequence, identification, seed),
                payload,
                mss,
                flags,
                whole_mss,
            )| {
                let ip_options = if ipv6 { 0 } else { ip * 4 };
                // Sometimes a multiple of the MSS.
                let payload = if whole_mss && payload > mss.into() {
                    payload - payload % usize::from(mss)
                } else {
                    payload
                };
                Whole {
                    ipv6,
                    ip_options,
                    tcp_options: tcp * 4,
                    flags: ACK | flags & 1 | (flags & 2) << 2 | (flags & 4) << 5,
                    sequence,
                    identification,
                    payload,
                    mss,
                    seed,
                }
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]
    #[test]
    fn hardware_software_and_reference_cut_alike(
        mut whole in whole(),
        device in prop::sample::select(vec![(COPPER, false), (0x100c, false), (0x100c, true), (0x1079, true), (0x10d3, false)]),
        inline in 0..4000usize,
        cuts in prop::collection::vec(0..9000usize, 0..6),
    ) {
        let (device, pci_x) = device;
        whole.ipv6 &= device == 0x10d3;
        let mut bench = Bench::new(device, pci_x);
        let expected = whole.reference();
        prop_assert_eq!(&whole.by_software(&mut bench, false), &expected);
        prop_assert_eq!(&whole.by_software(&mut bench, true), &expected);
        if whole.flags & CWR == 0 {
            prop_assert_eq!(&whole.by_nic(&mut bench, whole.payload, &[]), &expected);
            let inline = (TSO_INLINE + inline).min(whole.payload);
            prop_assert_eq!(&whole.by_nic(&mut bench, inline, &cuts), &expected);
        }
    }
}
