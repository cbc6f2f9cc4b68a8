//! The rings, the offloads and the interrupts.

use proptest::prelude::*;

use super::*;
use crate::gso::{self, Cut};

#[test]
fn the_receive_rings_go_round_and_overflow_is_counted() {
    for config in [SMALL, JUMBO] {
        let (hardware, mut nic) = start_with(Variant::Aligned, config);
        for round in 0..100 {
            // Buffers go back by eights, so that up to seven can be on their way.
            for number in 0..4 {
                hardware.0.receive(&frame(60 + round * 10 + number));
                hardware.0.receive(&frame(61 + number));
            }
            let frames = poll_all(&mut nic);
            assert_eq!(frames.len(), 8, "{round}");
            assert_eq!(frames[6], frame(60 + round * 10 + 3));
        }
        for _ in 0..24 {
            hardware.0.receive(&frame(300));
        }
        let frames = poll_all(&mut nic).len();
        assert!((9..=16).contains(&frames));
        nic.unmask();
        hardware.0.advance(Duration::from_millis(1));
        assert_eq!(nic.statistics().rx_no_buffer, 24 - frames as u64);
        assert_eq!(nic.halves().0.free_buffers(), 16);
        is_well(&hardware, &mut nic);
    }
}

#[test]
fn frames_of_the_largest_mtu_come_and_go_in_one_piece() {
    for variant in [Variant::Aligned, Variant::Unaligned] {
        let (hardware, mut nic) = start_with(variant, JUMBO);
        hardware.0.host(|host| host.complaints.clear());
        for len in [4078, 4079, 9013, 9014] {
            let frame = frame(len);
            send(&mut nic, &frame);
            assert_eq!(hardware.0.take_sent(), std::slice::from_ref(&frame));
            hardware.0.receive(&frame);
            assert_eq!(poll_all(&mut nic), [frame]);
        }
        assert_eq!(
            queue(&mut nic, &frame(9015), Offload::None),
            Err(TxError::Unsupported)
        );
        is_well(&hardware, &mut nic);
    }
}

#[test]
fn nothing_is_on_the_wire_before_a_flush_and_short_frames_are_padded() {
    let (hardware, mut nic) = start();
    queue(&mut nic, &frame(20), Offload::None).unwrap();
    queue(&mut nic, &frame(102), Offload::None).unwrap();
    assert!(hardware.0.take_sent().is_empty());
    nic.halves().1.flush();
    let mut padded = frame(20);
    padded.resize(60, 0);
    assert_eq!(hardware.0.take_sent(), [padded, frame(102)]);
    is_well(&hardware, &mut nic);
}

#[test]
fn a_full_ring_hands_the_frame_back_and_sent_ones_are_asked_for() {
    let (hardware, mut nic) = start();
    for round in 0..200 {
        let free = nic.halves().1.free();
        for _ in 0..free {
            queue(&mut nic, &frame(100 + round), Offload::None).unwrap();
        }
        assert_eq!(
            queue(&mut nic, &frame(100), Offload::None),
            Err(TxError::RingFull)
        );
        nic.halves().1.flush();
        assert_eq!(hardware.0.take_sent().len(), free);
        // Interrupts are masked all the time: the first look asks, the next one is told.
        nic.halves().1.reclaim();
        hardware.0.advance(Duration::from_millis(1));
        nic.halves().1.reclaim();
        assert!(nic.halves().1.free() > 0, "{round}");
    }
    is_well(&hardware, &mut nic);
}

#[test]
fn interrupts_come_once_and_again_after_an_unmask_by_line_and_by_message() {
    for (mode, kind) in [
        (InterruptMode::Intx, InterruptKind::Line),
        (InterruptMode::Msi, InterruptKind::Message),
    ] {
        let (hardware, mut nic) = start();
        hardware.0.set_interrupt_mode(mode);
        nic.interrupt().claim();
        nic.raise_interrupt(kind);
        hardware.0.advance(Duration::from_millis(1));
        assert!(
            handle(&hardware, &nic).is_some(),
            "{kind:?}: the test's own"
        );
        nic.unmask();
        hardware.0.advance(Duration::from_millis(1));
        assert_eq!(handle(&hardware, &nic), None);
        for number in 0..5 {
            hardware.0.receive(&frame(100 + number));
            hardware.0.advance(Duration::from_millis(1));
            let causes = handle(&hardware, &nic).unwrap();
            assert!(causes.contains(Causes::RECEIVE));
            hardware.0.receive(&frame(200));
            hardware.0.advance(Duration::from_millis(1));
            assert_eq!(handle(&hardware, &nic), None, "masked");
            assert_eq!(poll_all(&mut nic).len(), 2);
            // What comes between the poll and the unmask raises one at once.
            hardware.0.receive(&frame(300));
            nic.unmask();
            hardware.0.advance(Duration::from_millis(1));
            assert!(handle(&hardware, &nic).is_some());
            assert_eq!(poll_all(&mut nic).len(), 1);
            nic.unmask();
            hardware.0.advance(Duration::from_millis(1));
            handle(&hardware, &nic);
            nic.unmask();
        }
        is_well(&hardware, &mut nic);
    }
}

#[test]
fn the_throttle_is_the_cards_delay() {
    let (hardware, mut nic) = start();
    nic.unmask();
    hardware.0.advance(Duration::from_millis(1));
    handle(&hardware, &nic);
    nic.throttle(1000);
    nic.unmask();
    hardware.0.receive(&frame(100));
    hardware.0.advance(Duration::from_micros(900));
    assert_eq!(handle(&hardware, &nic), None);
    hardware.0.advance(Duration::from_micros(200));
    assert!(handle(&hardware, &nic).is_some());
}

#[test]
fn received_checksums_are_judged() {
    let (hardware, mut nic) = start();
    let mut verdicts = |frame: &[u8]| {
        hardware.0.receive(frame);
        let mut verdict = None;
        nic.halves()
            .0
            .poll(1, |frame| verdict = Some(frame.checksum));
        verdict.unwrap()
    };
    let mut segment = tcp_v4(&[1; 200]);
    checksummed(&mut segment, false);
    assert_eq!(verdicts(&segment), RxChecksum::Good);
    segment[100] ^= 1;
    assert_eq!(verdicts(&segment), RxChecksum::Bad);
    assert_eq!(verdicts(&frame(100)), RxChecksum::Unknown);
}

/// An IPv4 TCP segment to the NIC, its sums and lengths being whatever.
fn tcp_v4(payload: &[u8]) -> Vec<u8> {
    let mut frame = MAC.to_vec();
    frame.extend([2, 0, 0, 0, 0, 1, 0x08, 0x00, 0x45, 0]);
    frame.extend((40 + payload.len() as u16).to_be_bytes());
    frame.extend([0x12, 0x34, 0x40, 0, 64, 6, 0, 0, 10, 77, 0, 1, 10, 77, 0, 2]);
    frame.extend(tcp_header());
    frame.extend_from_slice(payload);
    frame
}

fn tcp_v6(payload: &[u8]) -> Vec<u8> {
    let mut frame = MAC.to_vec();
    frame.extend([2, 0, 0, 0, 0, 1, 0x86, 0xdd, 0x60, 0, 0, 0]);
    frame.extend((20 + payload.len() as u16).to_be_bytes());
    frame.extend([6, 64]);
    frame.extend([0xfd; 32]);
    frame.extend(tcp_header());
    frame.extend_from_slice(payload);
    frame
}

fn tcp_header() -> [u8; 20] {
    [
        0, 80, 0x30, 0x39, 1, 2, 3, 0xff, 5, 6, 7, 8, 0x50, 0x18, 0x10, 0, 0, 0, 0, 0,
    ]
}

/// Fills its checksums in, by cutting it into one segment in software.
fn checksummed(frame: &mut Vec<u8>, ipv6: bool) {
    let (hardware, mut nic) = start_with(Variant::Aligned, JUMBO);
    let cut = Cut {
        ipv6,
        mss: 8900,
        checksum_offload: false,
    };
    gso::send(&mut nic.halves().1, frame, cut).unwrap();
    nic.halves().1.flush();
    *frame = hardware.0.take_sent().remove(0);
}

/// What the card and what software makes of a super-segment.
fn both_ways(frame: &[u8], ipv6: bool, mss: u16, split: Option<usize>, config: Config) {
    let config = Config {
        tx_ring: 512,
        ..config
    };
    for variant in [Variant::Aligned, Variant::Unaligned] {
        let (hardware, mut nic) = start_with(variant, config);
        hardware.0.host(|host| host.complaints.clear());
        let offload = Offload::Tso { ipv6, mss };
        match split {
            None => queue(&mut nic, frame, offload).unwrap(),
            Some(at) => {
                let mut platform = hardware.clone();
                let memory = platform.dma_alloc(70_000, 64).unwrap();
                let start = at * 3 % 5000;
                let rest = &frame[at..];
                for (index, byte) in rest.iter().enumerate() {
                    // SAFETY: the test's own memory, which the model only reads.
                    unsafe { memory.cpu().add(start + index).write(*byte) };
                }
                let middle = start + rest.len() / 3;
                let pieces = [
                    memory.slice(start..middle),
                    memory.slice(middle..start + rest.len()),
                ];
                let tx = nic.halves().1;
                tx.send(at, &pieces, offload, |buffer| {
                    buffer.copy_from_slice(&frame[..at]);
                })
                .unwrap();
            }
        }
        nic.halves().1.flush();
        let by_card = hardware.0.take_sent();
        assert_eq!(hardware.0.complaints(), "");
        let cut = Cut {
            ipv6,
            mss,
            checksum_offload: false,
        };
        gso::send(&mut nic.halves().1, frame, cut).unwrap();
        nic.halves().1.flush();
        assert_eq!(by_card, hardware.0.take_sent());
        is_well(&hardware, &mut nic);
    }
}

#[test]
fn super_segments_are_cut_as_software_would() {
    for (len, mss) in [
        (1461, 1460),
        (2920, 1460),
        (65_495, 1460),
        (30_000, 536),
        (500, 64),
    ] {
        let payload: Vec<u8> = (0..len).map(|at| ((at * 13) >> 2) as u8).collect();
        both_ways(&tcp_v4(&payload), false, mss, None, SMALL);
    }
    let payload: Vec<u8> = (0..60_000).map(|at| ((at * 11) >> 2) as u8).collect();
    both_ways(&tcp_v6(&payload), true, 1440, None, SMALL);
    both_ways(&tcp_v6(&payload), true, 8940, Some(90), JUMBO);
    both_ways(&tcp_v4(&payload), false, 8960, Some(60), JUMBO);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_super_segment_is_cut_as_software_would(
        ipv6: bool, len in 1usize..65_000, mss in 64u16..1440, inline in 4usize..400, gathers: bool
    ) {
        let payload: Vec<u8> = (0..len).map(|at| ((at * 17) >> 3) as u8).collect();
        let (frame, headers) = if ipv6 {
            (tcp_v6(&payload), 74)
        } else {
            (tcp_v4(&payload), 54)
        };
        // Software has as many slots as segments.
        let mss = mss.max((len / 400) as u16 + 1);
        let split = (gathers && len > inline + 2).then_some(headers + inline);
        both_ways(&frame, ipv6, mss, split, SMALL);
    }

    #[test]
    fn checksums_are_filled_in_wherever_pieces_end(len in 20usize..1400, at in 54usize..200, odd in 0usize..7) {
        let payload: Vec<u8> = (0..len).map(|at| (at * 19) as u8).collect();
        let mut wanted = tcp_v4(&payload);
        checksummed(&mut wanted, false);
        let mut frame = wanted.clone();
        // The stack leaves the pseudo-header's sum in the field.
        let length = (20 + len) as u32;
        let mut sum = 6 + length + 0x0a4d + 1 + 0x0a4d + 2;
        sum = (sum & 0xffff) + (sum >> 16);
        frame[50..52].copy_from_slice(&(sum as u16).to_be_bytes());
        let (hardware, mut nic) = start();
        let at = at.min(frame.len() - 1);
        let mut platform = hardware.clone();
        let memory = platform.dma_alloc(4096, 64).unwrap();
        for (index, byte) in frame[at..].iter().enumerate() {
            // SAFETY: the test's own memory, which the model only reads.
            unsafe { memory.cpu().add(odd + index).write(*byte) };
        }
        let rest = [memory.slice(odd..odd + frame.len() - at)];
        let offload = Offload::Checksum { start: 34, offset: 50 };
        let tx = nic.halves().1;
        tx.send(at, &rest, offload, |buffer| buffer.copy_from_slice(&frame[..at])).unwrap();
        tx.flush();
        prop_assert_eq!(hardware.0.take_sent(), [wanted]);
        prop_assert_eq!(hardware.0.complaints(), "");
    }
}

#[test]
fn what_the_card_cannot_do_is_said() {
    let (_, mut nic) = start();
    let (_, tx) = nic.halves();
    let accepts = |len, offload| tx.accepts(len, &[], offload);
    for (start, offset) in [(256, 260), (34, 128), (34, 33), (0, 10)] {
        let offload = Offload::Checksum { start, offset };
        assert_eq!(accepts(400, offload), Err(TxError::Unsupported));
    }
    let tso = |mss| Offload::Tso { ipv6: false, mss };
    assert_eq!(accepts(3000, tso(63)), Err(TxError::Unsupported));
    assert_eq!(accepts(3000, tso(1461)), Err(TxError::Unsupported));
    assert_eq!(accepts(70_000, tso(1460)), Err(TxError::Unsupported));
    assert_eq!(accepts(65_549, tso(1460)), Ok(()));
    let short = [DmaSlice {
        bus: 0x1000_0000,
        len: 5,
    }];
    let gathered = tx.accepts(30, &short, Offload::None);
    assert_eq!(gathered, Err(TxError::Unsupported), "it cannot be padded");
}
