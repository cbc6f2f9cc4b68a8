//! The two rings against the model: single cases, and properties over any
//! interleaving of what the stack and the NIC do.

use std::collections::VecDeque;
use std::ops::Range;

use proptest::prelude::*;

use crate::e1000::ids::{Generation, VENDOR, find};
use crate::e1000::model::{Hardware, ones_complement_sum};
use crate::e1000::regs::*;
use crate::e1000::{Config, E1000};
use crate::hw::{DmaRegion, DmaSlice, Platform};
use crate::nic::{Nic, Offload, Receive, RxChecksum, RxDropped, RxFrame, Transmit, TxError};

const COPPER: u16 = 0x100e;
/// The 82543 does not strip the CRC.
const OLD_FIBRE: u16 = 0x1001;

fn start(device: u16, rx_ring: usize, tx_ring: usize) -> (Hardware, E1000<Hardware>) {
    let hardware = Hardware::new(device);
    let nic = start_on(&hardware, rx_ring, tx_ring);
    (hardware, nic)
}

fn start_on(hardware: &Hardware, rx_ring: usize, tx_ring: usize) -> E1000<Hardware> {
    let config = Config {
        rx_ring,
        tx_ring,
        mtu: 1500,
    };
    let device = hardware.state().model.device;
    E1000::start(hardware.clone(), &mut hardware.clone(), device, config).unwrap()
}

/// A frame that carries its number.
fn numbered(number: u32, len: usize) -> Vec<u8> {
    let mut frame = vec![0xff; 14];
    frame.extend(number.to_be_bytes());
    frame.resize(len.max(60), number as u8);
    frame
}

fn number_of(frame: &[u8]) -> u32 {
    u32::from_be_bytes(frame[14..18].try_into().unwrap())
}

fn poll(nic: &mut E1000<Hardware>, budget: usize) -> Vec<(Vec<u8>, RxChecksum)> {
    let mut frames = Vec::new();
    let sink = |frame: RxFrame<'_>| frames.push((frame.bytes.to_vec(), frame.checksum));
    let delivered = nic.halves().0.poll(budget, sink);
    assert_eq!(delivered, frames.len());
    assert!(delivered <= budget);
    frames
}

/// Memory with a pattern, to be sent by reference.
fn payload(hardware: &Hardware, len: usize) -> (DmaRegion, Vec<u8>) {
    let region = hardware.clone().dma_alloc(len, 64).unwrap();
    let pattern: Vec<u8> = (0..len).map(|at| (at * 7 + at / 256) as u8).collect();
    // SAFETY: the region has `len` bytes and nothing else uses it yet.
    unsafe {
        region
            .cpu()
            .copy_from_nonoverlapping(std::ptr::NonNull::from(&pattern[0]), len)
    };
    (region, pattern)
}

#[test]
fn checksum_verdicts() {
    let ip = RxStatus::IPCS;
    let both = RxStatus::IPCS | RxStatus::TCPCS;
    let none = RxErrors::empty();
    for (status, errors, expected) in [
        (RxStatus::IXSM, none, RxChecksum::Unknown),
        (RxStatus::IXSM | both, RxErrors::TCPE, RxChecksum::Unknown),
        (RxStatus::empty(), none, RxChecksum::Unknown),
        (ip, none, RxChecksum::IpGood),
        (ip, RxErrors::IPE, RxChecksum::Bad),
        (both, none, RxChecksum::Good),
        (both, RxErrors::TCPE, RxChecksum::Bad),
        (both, RxErrors::IPE, RxChecksum::Bad),
        (RxStatus::TCPCS, none, RxChecksum::Good),
    ] {
        let (hardware, mut nic) = start(COPPER, 8, 8);
        assert!(hardware.receive_flagged(&numbered(1, 60), status, errors));
        assert_eq!(
            poll(&mut nic, 8),
            [(numbered(1, 60), expected)],
            "{status:?} {errors:?}"
        );
    }
}

#[test]
fn broken_frames_are_counted_and_their_buffers_come_back() {
    for error in [
        RxErrors::CE,
        RxErrors::SE,
        RxErrors::SEQ,
        RxErrors::CXE,
        RxErrors::RXE,
    ] {
        let (hardware, mut nic) = start(COPPER, 8, 8);
        assert!(hardware.receive(&numbered(1, 60)));
        assert!(hardware.receive_flagged(&numbered(2, 60), RxStatus::empty(), error));
        assert!(hardware.receive(&numbered(3, 60)));
        let numbers: Vec<u32> = poll(&mut nic, 8)
            .iter()
            .map(|(f, _)| number_of(f))
            .collect();
        assert_eq!(numbers, [1, 3]);
        assert_eq!(
            nic.halves().0.dropped(),
            RxDropped {
                errors: 1,
                length: 0
            }
        );
        assert_eq!(nic.halves().0.free_buffers(), 7);
    }
}

#[test]
fn runts_and_giants_are_counted_once_each() {
    for device in [COPPER, OLD_FIBRE] {
        let (hardware, mut nic) = start(device, 8, 8);
        // As the NIC would with long packets let through: three buffers.
        hardware.poke(RCTL, hardware.peek(RCTL) | Rctl::LPE.bits());
        assert!(hardware.receive(&numbered(1, 5000)));
        assert!(hardware.receive(&numbered(2, 100)));
        assert!(hardware.receive(&[0xff; 13]));
        let frames = poll(&mut nic, 8);
        assert_eq!(
            frames,
            [(numbered(2, 100), RxChecksum::Unknown)],
            "{device:#x}"
        );
        assert_eq!(
            nic.halves().0.dropped(),
            RxDropped {
                errors: 0,
                length: 2
            }
        );
        assert_eq!(nic.halves().0.free_buffers(), 7);
    }
}

#[test]
fn a_length_beyond_the_buffer_is_not_believed() {
    let (hardware, mut nic) = start(COPPER, 8, 8);
    // Buffers that the NIC takes to be larger than they are; the memory of the
    // ring's next buffers follows, so the write itself does no harm here.
    hardware.poke(
        RCTL,
        (Rctl::EN | Rctl::BAM | Rctl::LPE | Rctl::SECRC).bits() | 3 << 16 | 1 << 25,
    );
    assert!(hardware.receive(&numbered(1, 4000)));
    assert!(poll(&mut nic, 8).is_empty());
    assert_eq!(nic.halves().0.dropped().length, 1);
}

#[test]
fn an_overrun_costs_frames_and_nothing_else() {
    let (hardware, mut nic) = start(COPPER, 8, 8);
    let taken = (0..20)
        .filter(|number| hardware.receive(&numbered(*number, 60)))
        .count();
    assert_eq!(taken, 7, "one descriptor stays with the driver");
    assert_eq!(nic.halves().0.free_buffers(), 0);
    let numbers: Vec<u32> = poll(&mut nic, 64)
        .iter()
        .map(|(f, _)| number_of(f))
        .collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(nic.halves().0.free_buffers(), 7);
    let statistics = nic.statistics();
    assert_eq!((statistics.rx_missed, statistics.rx_no_buffer), (13, 13));
    assert!(hardware.receive(&numbered(99, 60)));
    assert!(nic.halves().0.pending());
    assert_eq!(number_of(&poll(&mut nic, 64)[0].0), 99);
    assert!(!nic.halves().0.pending());
}

#[test]
fn descriptors_go_back_every_replenish_frames_and_at_the_end() {
    let (hardware, mut nic) = start(COPPER, 32, 8);
    for (replenish, expected) in [
        (1, vec![1; 10]),
        (4, vec![4, 4, 2]),
        (5, vec![5, 5]),
        (99, vec![10]),
        (0, vec![1; 10]),
    ] {
        nic.halves().0.set_replenish(replenish);
        for number in 0..10 {
            assert!(hardware.receive(&numbered(number, 60)));
        }
        let mut tail = hardware.peek(RDT);
        hardware.state().writes.clear();
        assert_eq!(poll(&mut nic, 10).len(), 10);
        let mut steps = Vec::new();
        for (register, value) in &hardware.state().writes {
            assert_eq!(*register, RDT);
            steps.push((value + 32 - tail) % 32);
            tail = *value;
        }
        assert_eq!(steps, expected, "replenish {replenish}");
    }
}

#[test]
fn an_empty_poll_writes_no_register() {
    let (hardware, mut nic) = start(COPPER, 8, 8);
    hardware.state().writes.clear();
    assert!(poll(&mut nic, 64).is_empty());
    nic.halves().1.flush();
    nic.halves().1.reclaim();
    assert!(hardware.state().writes.is_empty());
}

#[test]
fn a_frame_can_be_answered_while_it_is_read() {
    let (hardware, mut nic) = start(COPPER, 8, 8);
    assert!(hardware.receive(&numbered(5, 80)));
    let (rx, tx) = nic.halves();
    rx.poll(1, |frame| {
        tx.send(frame.bytes.len(), &[], Offload::None, |out| {
            out.copy_from_slice(frame.bytes)
        })
        .unwrap();
    });
    tx.flush();
    hardware.transmit(8);
    assert_eq!(hardware.state().sent, [numbered(5, 80)]);
}

#[test]
fn one_doorbell_for_a_batch() {
    let (hardware, mut nic) = start(COPPER, 8, 32);
    hardware.state().writes.clear();
    let (_, tx) = nic.halves();
    for _ in 0..5 {
        tx.send(60, &[], Offload::None, |_| ()).unwrap();
    }
    assert_eq!(hardware.transmit(9), 0, "nothing before flush");
    tx.flush();
    tx.flush();
    assert_eq!(hardware.state().writes, [(TDT, 5)]);
    assert_eq!(hardware.transmit(9), 5);
}

#[test]
fn short_frames_are_padded_with_zeroes() {
    let (hardware, mut nic) = start(COPPER, 8, 8);
    let (region, pattern) = payload(&hardware, 8);
    for round in 0..8 {
        let (_, tx) = nic.halves();
        // Fill every buffer with something first: padding must not leak it.
        tx.send(60, &[], Offload::None, |frame| frame.fill(0xaa))
            .unwrap();
        tx.send(20, &[], Offload::None, |frame| frame.fill(0xbb))
            .unwrap();
        tx.send(14, &[region.slice(0..8)], Offload::None, |frame| {
            frame.fill(0xcc)
        })
        .unwrap();
        tx.flush();
        hardware.transmit(9);
        assert_eq!(tx.reclaim(), 3);
        let sent = std::mem::take(&mut hardware.state().sent);
        let mut padded = vec![0xbb; 20];
        padded.resize(60, 0);
        let mut gathered = vec![0xcc; 14];
        gathered.extend(&pattern);
        gathered.resize(60, 0);
        assert_eq!(sent, [vec![0xaa; 60], padded, gathered], "round {round}");
    }
}

#[test]
fn a_checksum_is_filled_in_and_its_context_is_sent_once() {
    let (hardware, mut nic) = start(COPPER, 8, 32);
    let (region, pattern) = payload(&hardware, 501);
    let tcp = Offload::Checksum {
        start: 34,
        offset: 50,
    };
    let udp = Offload::Checksum {
        start: 34,
        offset: 40,
    };
    let mut descriptors = Vec::new();
    for offload in [tcp, tcp, udp, udp, tcp, Offload::None, tcp] {
        let (_, tx) = nic.halves();
        tx.send(54, &[region.slice(0..501)], offload, |frame| {
            for (at, byte) in frame.iter_mut().enumerate() {
                *byte = at as u8;
            }
        })
        .unwrap();
        tx.flush();
        descriptors.push(hardware.transmit(9));
        assert_eq!(tx.reclaim(), 1);

        let sent = std::mem::take(&mut hardware.state().sent);
        let mut expected: Vec<u8> = (0..54).chain(pattern.iter().copied()).collect();
        if let Offload::Checksum { start, offset } = offload {
            let sum = !ones_complement_sum(&expected[start.into()..]);
            let at = usize::from(offset);
            expected[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        }
        assert_eq!(sent, [expected]);
    }
    assert_eq!(descriptors, [3, 2, 3, 2, 3, 2, 2]);
}

#[test]
fn what_can_never_be_sent_is_refused_and_costs_nothing() {
    let (hardware, mut nic) = start(COPPER, 8, 16);
    let (region, _) = payload(&hardware, 4096);
    let free = nic.halves().1.free();
    let piece = |range: Range<usize>| region.slice(range);
    let huge = DmaSlice {
        bus: 0,
        len: usize::MAX,
    };
    let many: Vec<DmaSlice> = (0..16).map(|at| piece(at..at + 1)).collect();
    let checksum = |start, offset| Offload::Checksum { start, offset };
    for (header, payload, offload) in [
        (13, vec![], Offload::None),
        (1515, vec![], Offload::None),
        (54, vec![piece(0..1461)], Offload::None),
        (54, vec![huge], Offload::None),
        (54, vec![huge, huge], Offload::None),
        (54, many, Offload::None),
        (
            54,
            vec![],
            Offload::Tso {
                ipv6: false,
                mss: 1460,
            },
        ),
        (400, vec![], checksum(256, 272)),
        (400, vec![], checksum(34, 256)),
        (54, vec![], checksum(34, 53)),
        (54, vec![], checksum(54, 50)),
    ] {
        let (_, tx) = nic.halves();
        let result = tx.send(header, &payload, offload, |_| panic!("filled"));
        assert_eq!(
            result,
            Err(TxError::Unsupported),
            "{header} {payload:?} {offload:?}"
        );
        assert_eq!(tx.free(), free);
    }
    nic.halves().1.flush();
    assert_eq!(hardware.transmit(9), 0);
}

#[test]
fn free_frames_can_all_be_queued_whatever_they_ask_for() {
    for (device, pcix) in [(COPPER, false), (0x100c, false), (0x100c, true)] {
        let hardware = Hardware::new(device);
        if pcix {
            hardware.poke(STATUS, hardware.peek(STATUS) | Status::PCIX_MODE.bits());
        }
        let mut nic = start_on(&hardware, 8, 64);
        let (_, tx) = nic.halves();
        let capacity = tx.capacity();
        assert_eq!(tx.free(), capacity);
        assert_eq!(capacity, if pcix { 20 } else { 31 });
        for queued in 0..capacity {
            assert!(tx.free() >= capacity - queued);
            let offset = if queued % 2 == 0 { 40 } else { 50 };
            // 65 bytes end where an 82544 on PCI-X would hang.
            tx.send(65, &[], Offload::Checksum { start: 34, offset }, |_| ())
                .unwrap();
        }
        let full = tx.send(65, &[], Offload::None, |_| panic!("filled"));
        assert_eq!(full, Err(TxError::RingFull));
        assert_eq!(tx.free(), 0);
        tx.flush();
        hardware.transmit(64);
        assert_eq!(tx.reclaim(), capacity);
        assert_eq!(tx.free(), capacity);
        assert_eq!(hardware.state().sent.len(), capacity);
    }
}

#[test]
fn no_buffer_ends_where_an_82544_on_pci_x_hangs() {
    let hardware = Hardware::new(0x100c);
    hardware.poke(STATUS, hardware.peek(STATUS) | Status::PCIX_MODE.bits());
    let mut nic = start_on(&hardware, 8, 64);
    let (region, pattern) = payload(&hardware, 256);
    for start in 0..17 {
        for len in 1..40 {
            // The model panics over a bad end.
            let (_, tx) = nic.halves();
            let piece = region.slice(start..start + len);
            tx.send(54 + len, &[piece], Offload::None, |frame| frame.fill(1))
                .unwrap();
            tx.flush();
            hardware.transmit(64);
            assert_eq!(tx.reclaim(), 1);
            let sent = hardware.state().sent.pop().unwrap();
            assert_eq!(sent[54 + len..54 + 2 * len], pattern[start..start + len]);
        }
    }
}

/// One step of either side of the transmit ring.
#[derive(Clone, Debug)]
enum TxStep {
    /// Header length, payload pieces, and which checksum is asked for.
    Send(usize, Vec<usize>, u8),
    Flush,
    Reclaim,
    Hardware(usize),
}

fn tx_step() -> impl Strategy<Value = TxStep> {
    let pieces = prop::collection::vec(0usize..300, 0..4);
    prop_oneof![
        4 => (18usize..600, pieces, 0u8..3).prop_map(|(h, p, c)| TxStep::Send(h, p, c)),
        2 => Just(TxStep::Flush),
        2 => Just(TxStep::Reclaim),
        2 => (0usize..12).prop_map(TxStep::Hardware),
    ]
}

/// One step of either side of the receive ring.
#[derive(Clone, Debug)]
enum RxStep {
    /// A frame of this length arrives, good or broken.
    Arrive(usize, bool),
    Poll(usize),
    Replenish(usize),
}

fn rx_step() -> impl Strategy<Value = RxStep> {
    prop_oneof![
        6 => (60usize..1514, prop::bool::weighted(0.9)).prop_map(|(l, g)| RxStep::Arrive(l, g)),
        2 => (0usize..20).prop_map(RxStep::Poll),
        1 => (0usize..40).prop_map(RxStep::Replenish),
    ]
}

proptest! {
    #[test]
    fn transmit_loses_and_duplicates_nothing(
        device in prop::sample::select(vec![COPPER, 0x100c, 0x10d3]),
        pcix: bool,
        ring in (1usize..5).prop_map(|eights| eights * 8),
        steps in prop::collection::vec(tx_step(), 1..200),
    ) {
        let hardware = Hardware::new(device);
        let splits = find(VENDOR, device).unwrap().generation == Generation::I82544 && pcix;
        if pcix {
            hardware.poke(STATUS, hardware.peek(STATUS) | Status::PCIX_MODE.bits());
        }
        let mut nic = start_on(&hardware, 8, ring);
        let (region, pattern) = payload(&hardware, 300);
        let (_, tx) = nic.halves();
        let capacity = tx.capacity();
        prop_assert_eq!(capacity, (ring - 2) / if splits { 3 } else { 2 });

        let mut expected: Vec<Vec<u8>> = Vec::new();
        let mut flushed = 0;
        let mut reclaimed = 0;
        for step in steps {
            match step {
                TxStep::Send(header, pieces, checksum) => {
                    let number = expected.len() as u32;
                    let frame = numbered(number, header);
                    let header = header.min(frame.len());
                    let slices: Vec<_> = pieces.iter().map(|len| region.slice(0..*len)).collect();
                    let len = header + pieces.iter().sum::<usize>();
                    let offload = match checksum {
                        1 if len >= 60 => Offload::Checksum { start: 34, offset: 40 },
                        2 if len >= 60 => Offload::Checksum { start: 34, offset: 50 },
                        _ => Offload::None,
                    };
                    let free = tx.free();
                    let sent = tx.send(header, &slices, offload, |out| {
                        out.copy_from_slice(&frame[..header]);
                    });
                    if pieces.is_empty() && free > 0 {
                        prop_assert_eq!(sent, Ok(()));
                    }
                    if sent.is_ok() {
                        prop_assert!(tx.free() + 1 >= free || !pieces.is_empty());
                        let mut whole = frame[..header].to_vec();
                        pieces.iter().for_each(|len| whole.extend(&pattern[..*len]));
                        whole.resize(whole.len().max(60), 0);
                        if let Offload::Checksum { start, offset } = offload {
                            let sum = !ones_complement_sum(&whole[start.into()..]);
                            let at = usize::from(offset);
                            whole[at..at + 2].copy_from_slice(&sum.to_be_bytes());
                        }
                        expected.push(whole);
                    } else {
                        prop_assert_eq!(tx.free(), free);
                    }
                }
                TxStep::Flush => {
                    tx.flush();
                    flushed = expected.len();
                }
                TxStep::Reclaim => reclaimed += tx.reclaim(),
                TxStep::Hardware(descriptors) => {
                    hardware.transmit(descriptors);
                }
            }
            let sent = hardware.state().sent.len();
            prop_assert!(reclaimed <= sent && sent <= flushed);
            prop_assert!(tx.free() <= capacity - (expected.len() - reclaimed));
        }
        tx.flush();
        hardware.transmit(usize::MAX);
        reclaimed += tx.reclaim();
        prop_assert_eq!(reclaimed, expected.len());
        prop_assert_eq!(tx.free(), capacity);
        prop_assert_eq!(&hardware.state().sent, &expected);
    }

    #[test]
    fn receive_loses_and_duplicates_nothing(
        device in prop::sample::select(vec![COPPER, OLD_FIBRE, 0x10d3]),
        ring in (1usize..5).prop_map(|eights| eights * 8),
        steps in prop::collection::vec(rx_step(), 1..300),
    ) {
        let (hardware, mut nic) = start(device, ring, 8);
        let mut waiting: VecDeque<Option<Vec<u8>>> = VecDeque::new();
        let mut number = 0;
        let mut broken = 0;
        let mut drain = |nic: &mut E1000<Hardware>,
                         waiting: &mut VecDeque<Option<Vec<u8>>>,
                         budget: usize| {
            let got = poll(nic, budget);
            for (frame, _) in &got {
                let good = loop {
                    match waiting.pop_front().expect("a frame from nowhere") {
                        Some(good) => break good,
                        None => broken += 1,
                    }
                };
                assert_eq!(frame, &good);
            }
            if got.len() < budget {
                // It stopped because nothing was left.
                assert!(waiting.iter().all(Option::is_none));
                broken += waiting.len() as u64;
                waiting.clear();
                assert!(!nic.halves().0.pending());
            }
            assert_eq!(nic.halves().0.dropped(), RxDropped { errors: broken, length: 0 });
        };
        for step in steps {
            match step {
                RxStep::Arrive(len, good) => {
                    let frame = numbered(number, len);
                    number += 1;
                    let errors = if good { RxErrors::empty() } else { RxErrors::CE };
                    let room = nic.halves().0.free_buffers() > 0;
                    let taken = hardware.receive_flagged(&frame, RxStatus::IXSM, errors);
                    prop_assert_eq!(taken, room);
                    if taken {
                        waiting.push_back(good.then_some(frame));
                    }
                }
                RxStep::Poll(budget) => drain(&mut nic, &mut waiting, budget),
                RxStep::Replenish(frames) => nic.halves().0.set_replenish(frames),
            }
            let (rx, _) = nic.halves();
            prop_assert_eq!(rx.free_buffers(), ring - 1 - waiting.len());
            prop_assert_eq!(rx.pending(), !waiting.is_empty());
        }
        drain(&mut nic, &mut waiting, usize::MAX);
        prop_assert_eq!(nic.halves().0.free_buffers(), ring - 1);
    }
}
