//! The rings, the offloads and the interrupts.

use proptest::prelude::*;
use uniperf_nic_models::InterruptMode;

use super::*;
use crate::gso::{self, Cut};

#[test]
fn the_receive_ring_goes_round_and_waits_when_it_is_full() {
    for generation in Generation::ALL {
        let (hardware, mut nic) = start(generation);
        for round in 0..5 {
            for number in 0..20 {
                hardware.0.receive(&frame(60 + round * 20 + number));
            }
            let frames = poll_all(&mut nic);
            assert!(frames.len() >= 15, "{generation}");
            hardware.0.advance(Duration::from_millis(1));
            let rest = poll_all(&mut nic);
            assert_eq!(frames.len() + rest.len(), 20, "{generation}");
            assert_eq!(rest[rest.len() - 1], frame(60 + round * 20 + 19));
        }
        assert_eq!(nic.halves().0.free_buffers(), 16);
        is_well(&hardware, &mut nic);
    }
}

#[test]
fn a_budget_and_a_replenish_threshold_are_kept() {
    let (hardware, mut nic) = start(Generation::Mcp55);
    nic.halves().0.set_replenish(100);
    for number in 0..10 {
        hardware.0.receive(&frame(60 + number));
    }
    let (rx, _) = nic.halves();
    assert!(rx.pending());
    assert_eq!(rx.poll(4, |_| {}), 4);
    assert_eq!(rx.free_buffers(), 10, "all go back at the end");
    assert_eq!(rx.poll(100, |_| {}), 6);
    assert!(!rx.pending());
    is_well(&hardware, &mut nic);
}

#[test]
fn nothing_is_on_the_wire_before_a_flush() {
    let (hardware, mut nic) = start(Generation::Mcp55);
    send(&mut nic, &frame(100));
    hardware.0.take_sent();
    queue(&mut nic, &frame(101), Offload::None).unwrap();
    queue(&mut nic, &frame(102), Offload::None).unwrap();
    // The NIC looks at the ring whenever it likes.
    hardware.0.write32(0x144, 0xc0_2201);
    assert!(hardware.0.take_sent().is_empty());
    nic.halves().1.flush();
    assert_eq!(hardware.0.take_sent(), [frame(101), frame(102)]);
}

#[test]
fn a_full_ring_hands_the_frame_back() {
    for generation in Generation::ALL {
        let (hardware, mut nic) = start(generation);
        let capacity = nic.halves().1.capacity();
        for number in 0..capacity {
            assert_eq!(nic.halves().1.free(), capacity - number);
            queue(&mut nic, &frame(100), Offload::None).unwrap();
        }
        assert_eq!(
            queue(&mut nic, &frame(100), Offload::None),
            Err(TxError::RingFull)
        );
        nic.halves().1.flush();
        assert_eq!(hardware.0.take_sent().len(), capacity);
        assert_eq!(nic.halves().1.reclaim(), capacity);
        is_well(&hardware, &mut nic);
    }
}

#[test]
fn no_more_frames_are_under_way_than_the_generation_bears() {
    let config = Config {
        tx_ring: 128,
        ..SMALL
    };
    let (hardware, mut nic) = start_with(Generation::Ck804, config);
    hardware.0.command("fault stuck").unwrap();
    for number in 0..40 {
        queue(&mut nic, &frame(100 + number), Offload::None).unwrap();
    }
    nic.halves().1.flush();
    hardware.0.command("fault stuck off").unwrap();
    let mut sent = hardware.0.take_sent();
    assert_eq!(sent.len(), 16);
    // Those that wait are told of by an interrupt.
    nic.unmask();
    assert!(hardware.0.interrupt_pending());
    assert!(nic.interrupt().claim().unwrap().contains(Causes::TRANSMIT));
    while nic.halves().1.reclaim() > 0 {
        sent.extend(hardware.0.take_sent());
    }
    let expected: Vec<_> = (0..40).map(|number| frame(100 + number)).collect();
    assert_eq!(sent, expected);
    assert_eq!(hardware.0.complaints(), "");
}

#[test]
fn frames_of_the_wrong_length_are_refused() {
    let (_, mut nic) = start(Generation::Mcp55);
    for len in [0, 13, 1515, 70_000] {
        assert_eq!(
            nic.halves().1.accepts(len, &[], Offload::None),
            Err(TxError::Unsupported),
            "{len}"
        );
    }
    let beyond = DmaSlice {
        bus: 1 << 39,
        len: 100,
    };
    let (_, tx) = nic.halves();
    assert_eq!(
        tx.accepts(54, &[beyond], Offload::None),
        Err(TxError::Unsupported)
    );
    let wraps = DmaSlice {
        bus: u64::MAX,
        len: 100,
    };
    assert_eq!(
        tx.accepts(54, &[wraps], Offload::None),
        Err(TxError::Unsupported)
    );
}

#[test]
fn jumbo_frames_go_both_ways() {
    for generation in [
        Generation::Nforce3,
        Generation::Ck804,
        Generation::Mcp55,
        Generation::Mcp79,
    ] {
        let config = Config { mtu: 9100, ..SMALL };
        let (hardware, mut nic) = start_with(generation, config);
        let frame = frame(9114);
        send(&mut nic, &frame);
        assert_eq!(hardware.0.take_sent(), std::slice::from_ref(&frame));
        hardware.0.receive(&frame);
        assert_eq!(poll_all(&mut nic), [frame]);
        is_well(&hardware, &mut nic);
    }
}

/// A TCP segment over IPv4 with `payload`, whose checksums are filled in by the sender.
fn segment(payload: &[u8]) -> Vec<u8> {
    let mut frame = MAC.to_vec();
    frame.extend([2, 0, 0, 0, 0, 1, 0x08, 0x00, 0x45, 0]);
    frame.extend((40 + payload.len() as u16).to_be_bytes());
    frame.extend([0x12, 0x34, 0x40, 0, 64, 6, 0, 0, 10, 77, 0, 2, 10, 77, 0, 1]);
    frame.extend([
        0x30, 0x39, 0xd4, 0x31, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x18, 1, 0, 0, 0, 0, 0,
    ]);
    frame.extend(payload);
    frame
}

/// A transmitter that only keeps what it is given: what software cuts.
#[derive(Default)]
struct Keeper(Vec<Vec<u8>>);

impl Transmit for Keeper {
    fn send<R>(
        &mut self,
        header_len: usize,
        _: &[DmaSlice],
        _: Offload,
        fill: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R, TxError> {
        let mut frame = vec![0; header_len];
        let result = fill(&mut frame);
        frame.resize(header_len.max(60), 0);
        self.0.push(frame);
        Ok(result)
    }

    fn flush(&mut self) {}

    fn reclaim(&mut self) -> usize {
        0
    }

    fn free(&self) -> usize {
        1000
    }

    fn capacity(&self) -> usize {
        1000
    }
}

fn by_software(frame: &[u8], mss: u16) -> Vec<Vec<u8>> {
    let cut = Cut {
        ipv6: false,
        mss,
        checksum_offload: false,
    };
    let mut keeper = Keeper::default();
    gso::send(&mut keeper, frame, cut).unwrap();
    keeper.0
}

#[test]
fn the_nic_cuts_as_software_does() {
    for generation in [
        Generation::Nforce3,
        Generation::Ck804,
        Generation::Mcp55,
        Generation::Mcp79,
    ] {
        let (hardware, mut nic) = start(generation);
        assert_eq!(nic.capabilities().tso_max_bytes, 65_549);
        for (len, mss) in [
            (1, 1460),
            (1460, 1460),
            (1461, 1460),
            (64_000, 1460),
            (5000, 536),
        ] {
            let payload: Vec<u8> = (0..len).map(|at| (at * 31) as u8).collect();
            let frame = segment(&payload);
            let offload = Offload::Tso { ipv6: false, mss };
            queue(&mut nic, &frame, offload).unwrap();
            nic.halves().1.flush();
            assert_eq!(
                hardware.0.take_sent(),
                by_software(&frame, mss),
                "{generation} {len}"
            );
            assert_eq!(nic.halves().1.reclaim(), 1);
        }
        assert_eq!(hardware.0.complaints(), "");
    }
}

#[test]
fn payload_goes_by_reference() {
    let (hardware, mut nic) = start(Generation::Mcp55);
    let payload: Vec<u8> = (0..40_000).map(|at| (at * 31) as u8).collect();
    let whole = segment(&payload);
    let mut platform = hardware.clone();
    let memory = platform.dma_alloc(40_000, 64).unwrap();
    // SAFETY: the region has as many bytes, and nothing else uses it.
    unsafe {
        memory
            .cpu()
            .as_ptr()
            .copy_from_nonoverlapping(payload.as_ptr(), payload.len());
    }
    let pieces = [
        memory.slice(4..100),
        memory.slice(100..100),
        memory.slice(100..40_000),
    ];
    let offload = Offload::Tso {
        ipv6: false,
        mss: 1460,
    };
    let (_, tx) = nic.halves();
    tx.send(58, &pieces, offload, |buffer| {
        buffer.copy_from_slice(&whole[..58])
    })
    .unwrap();
    tx.flush();
    assert_eq!(hardware.0.take_sent(), by_software(&whole, 1460));
}

#[test]
fn what_the_nic_cannot_cut_or_sum_is_refused() {
    let (_, mut nic) = start(Generation::Mcp55);
    let (_, tx) = nic.halves();
    let tso = |ipv6, mss| Offload::Tso { ipv6, mss };
    assert_eq!(
        tx.accepts(60_000, &[], tso(true, 1460)),
        Err(TxError::Unsupported)
    );
    assert_eq!(
        tx.accepts(60_000, &[], tso(false, 1461)),
        Err(TxError::Unsupported)
    );
    assert_eq!(
        tx.accepts(60_000, &[], tso(false, 63)),
        Err(TxError::Unsupported)
    );
    assert_eq!(
        tx.accepts(65_550, &[], tso(false, 1460)),
        Err(TxError::Unsupported)
    );
    let checksum = |start, offset| Offload::Checksum { start, offset };
    assert_eq!(tx.accepts(100, &[], checksum(34, 50)), Ok(()));
    assert_eq!(tx.accepts(100, &[], checksum(34, 40)), Ok(()));
    for (start, offset) in [(54, 70), (34, 44), (38, 54), (34, 33), (0xffff, 3)] {
        let refused = tx.accepts(100, &[], checksum(start, offset));
        assert_eq!(refused, Err(TxError::Unsupported), "{start} {offset}");
    }
    let (_, mut old) = start(Generation::Mcp51);
    let (_, tx) = old.halves();
    assert_eq!(
        tx.accepts(100, &[], checksum(34, 50)),
        Err(TxError::Unsupported)
    );
    assert_eq!(
        tx.accepts(1000, &[], tso(false, 500)),
        Err(TxError::Unsupported)
    );
}

#[test]
fn received_checksums_are_judged() {
    let (hardware, mut nic) = start(Generation::Mcp55);
    let mut verdict = |frame: &[u8]| {
        hardware.0.receive(frame);
        let mut verdict = None;
        nic.halves()
            .0
            .poll(1, |frame| verdict = Some(frame.checksum));
        verdict.unwrap()
    };
    let good = by_software(&segment(&[1; 100]), 1460).remove(0);
    assert_eq!(verdict(&good), RxChecksum::Good);
    let mut wrong = good.clone();
    wrong[60] ^= 1;
    assert_eq!(verdict(&wrong), RxChecksum::IpGood);
    wrong[20] ^= 1;
    assert_eq!(verdict(&wrong), RxChecksum::Unknown);
    assert_eq!(verdict(&frame(100)), RxChecksum::Unknown);
}

#[test]
fn a_nic_that_checks_nothing_is_not_believed() {
    // In the first format these bits are kinds of errors, and here without the one that
    // says that there is an error.
    const RX_RING_PHYS_ADDR: usize = 0x104;
    for (generation, descriptor, valid) in [
        (Generation::Nforce2, 8, 1 << 16),
        (Generation::Mcp51, 16, 1 << 29),
        (Generation::Mcp61, 16, 1 << 29),
    ] {
        for checksums in [0x1000_0000, 0x1400_0000, 0x1800_0000, 0x1c00_0000] {
            let (hardware, mut nic) = start(generation);
            let flags = u64::from(hardware.0.read32(RX_RING_PHYS_ADDR)) + descriptor - 4;
            let word = valid | checksums | 60;
            let stored = hardware.0.host(|host| host.dma.store32(flags, word));
            assert_eq!(stored, Ok(()));
            let mut verdict = None;
            nic.halves()
                .0
                .poll(1, |frame| verdict = Some(frame.checksum));
            assert_eq!(verdict, Some(RxChecksum::Unknown), "{generation}");
        }
    }
}

#[test]
fn a_frame_that_came_while_masked_raises_an_interrupt_when_unmasked() {
    for generation in Generation::ALL {
        let (hardware, mut nic) = start(generation);
        let handle = nic.interrupt();
        for mode in [InterruptMode::Intx, InterruptMode::Msi] {
            hardware.0.set_interrupt_mode(mode);
            for _ in 0..3 {
                hardware.0.receive(&frame(100));
                assert!(!hardware.0.interrupt_pending(), "{generation} {mode:?}");
                assert_eq!(handle.claim(), None);
                nic.unmask();
                if mode == InterruptMode::Msi && !nic.has_msi() {
                    break;
                }
                assert!(hardware.0.interrupt_pending(), "{generation} {mode:?}");
                assert!(handle.claim().unwrap().contains(Causes::RECEIVE));
                assert_eq!(handle.claim(), None, "it is masked");
                poll_all(&mut nic);
            }
            nic.mask();
            poll_all(&mut nic);
        }
    }
}

#[test]
fn an_interrupt_can_be_raised_for_no_cause() {
    for generation in Generation::ALL {
        let (hardware, mut nic) = start(generation);
        nic.raise_interrupt(InterruptKind::Line);
        hardware.0.advance(Duration::from_micros(50));
        assert!(hardware.0.interrupt_pending(), "{generation}");
        assert!(nic.interrupt().claim().is_some(), "{generation}");
        nic.unmask();
        hardware.0.advance(Duration::from_millis(100));
        assert!(
            !hardware.0.interrupt_pending(),
            "{generation}: once is enough"
        );
    }
}

/// How many interrupts there are in a second with a frame every 20 µs, and in one
/// without any.
fn rates(per_second: u32) -> (u32, u32) {
    let config = Config {
        rx_ring: 128,
        ..SMALL
    };
    let (hardware, mut nic) = start_with(Generation::Mcp55, config);
    let handle = nic.interrupt();
    nic.throttle(per_second);
    nic.unmask();
    let mut counts = [0, 0];
    for (count, frames) in counts.iter_mut().zip([true, false]) {
        for _ in 0..50_000 {
            hardware.0.advance(Duration::from_micros(20));
            if frames {
                hardware.0.receive(&frame(60));
            }
            if hardware.0.interrupt_pending() && handle.claim().is_some() {
                *count += 1;
                poll_all(&mut nic);
                nic.unmask();
            }
        }
    }
    (counts[0], counts[1])
}

#[test]
fn interrupts_are_limited_while_frames_come_and_absent_when_none_do() {
    let (busy, idle) = rates(0);
    assert!(busy >= 49_000 && idle <= 1, "{busy} {idle}");
    for limit in [1000, 8000] {
        let (busy, idle) = rates(limit);
        assert!(
            (limit * 8 / 10..=limit * 11 / 10).contains(&busy),
            "{limit}: {busy}"
        );
        assert!(idle <= 2, "{limit}: {idle}");
    }
}

/// What a loop above the driver may do.
#[derive(Clone, Debug)]
enum Act {
    Send(usize),
    Flush,
    Reclaim,
    Receive(usize),
    Poll(usize),
    Stall(bool),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        (14..1514usize).prop_map(Act::Send),
        Just(Act::Flush),
        Just(Act::Reclaim),
        (60..1514usize).prop_map(Act::Receive),
        (0..20usize).prop_map(Act::Poll),
        any::<bool>().prop_map(Act::Stall),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn whatever_the_order_all_frames_arrive_once_and_in_order(
        generation in prop::sample::select(&Generation::ALL[..]),
        acts in prop::collection::vec(act(), 0..300),
    ) {
        let config = Config { rx_ring: 16, tx_ring: 32, mtu: 1500 };
        let (hardware, mut nic) = start_with(generation, config);
        let (mut queued, mut sent) = (Vec::new(), Vec::new());
        let (mut arrived, mut polled) = (Vec::new(), Vec::new());
        for act in acts {
            match act {
                Act::Send(len) => match queue(&mut nic, &frame(len), Offload::None) {
                    Ok(()) => queued.push(frame(len)),
                    Err(error) => prop_assert_eq!(error, TxError::RingFull),
                },
                Act::Flush => nic.halves().1.flush(),
                Act::Reclaim => drop(nic.halves().1.reclaim()),
                Act::Receive(len) => {
                    hardware.0.receive(&frame(len));
                    arrived.push(frame(len));
                }
                Act::Poll(budget) => {
                    nic.halves().0.poll(budget, |frame| polled.push(frame.bytes.to_vec()));
                }
                Act::Stall(stall) => {
                    let how = if stall { "on" } else { "off" };
                    hardware.0.command(&format!("fault stuck {how}")).unwrap();
                }
            }
            sent.extend(hardware.0.take_sent());
        }
        hardware.0.command("fault stuck off").unwrap();
        nic.halves().1.flush();
        loop {
            hardware.0.advance(Duration::from_millis(1));
            let frames = poll_all(&mut nic);
            let reclaimed = nic.halves().1.reclaim();
            sent.extend(hardware.0.take_sent());
            if frames.is_empty() && reclaimed == 0 {
                break;
            }
            polled.extend(frames);
        }
        let padded = queued.into_iter().map(|mut frame: Vec<u8>| {
            frame.resize(frame.len().max(60), 0);
            frame
        });
        prop_assert_eq!(sent, padded.collect::<Vec<_>>());
        prop_assert_eq!(polled, arrived);
        prop_assert_eq!(nic.halves().1.free(), nic.halves().1.capacity());
        prop_assert_eq!(hardware.0.complaints(), "");
    }
}
