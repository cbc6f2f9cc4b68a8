//! Interrupts, statistics, and recovery.

use super::*;

#[test]
fn a_claim_masks_and_hands_over_every_cause() {
    let hardware = Hardware::new(COPPER);
    let mut nic = start(&hardware);
    let interrupt = nic.interrupt();
    assert_eq!(interrupt.claim(), None, "a shared line, and not ours");
    assert!(hardware.receive(&broadcast(60)));
    assert!(!hardware.line(), "masked");
    nic.unmask();
    assert!(hardware.line(), "what came while masked is raised at once");
    hardware.raise(Icr::RXO | Icr::LSC | Icr::TXDW);
    let all = Causes::RECEIVE | Causes::OVERRUN | Causes::LINK | Causes::TRANSMIT;
    assert_eq!(interrupt.claim(), Some(all));
    assert_eq!(hardware.unmasked(), 0);
    assert_eq!(interrupt.claim(), None, "taken once");
}

#[test]
fn causes_read_while_masked_are_not_lost() {
    // Another device on the line interrupts, and this NIC is being polled.
    let hardware = Hardware::new(COPPER);
    let nic = start(&hardware);
    hardware.set_link(Link::Down);
    assert_eq!(nic.interrupt().claim(), Some(Causes::LINK));
}

#[test]
fn sent_frames_raise_no_interrupt() {
    let hardware = Hardware::new(COPPER);
    let mut nic = start(&hardware);
    nic.unmask();
    send(&mut nic, &broadcast(60));
    hardware.transmit(4);
    assert!(!hardware.line());
    assert_eq!(nic.interrupt().claim(), None);
    assert_ne!(hardware.unmasked(), 0, "still unmasked");
}

#[test]
fn an_interrupt_can_be_raised_to_see_whether_it_arrives() {
    let hardware = Hardware::new(COPPER);
    let mut nic = start(&hardware);
    nic.mask();
    assert!(!hardware.line());
    nic.raise_interrupt(InterruptKind::Line);
    assert!(hardware.line());
    assert!(nic.interrupt().claim().is_some());
    assert!(!hardware.line());
    assert_eq!(nic.interrupt().claim(), None);
}

#[test]
fn throttle_counts_256_ns() {
    let hardware = Hardware::new(COPPER);
    let mut nic = start(&hardware);
    for (per_second, itr) in [(8000, 488), (0, 0), (1, 0xffff), (u32::MAX, 1)] {
        nic.throttle(per_second);
        assert_eq!(hardware.peek(ITR), itr);
    }
    // The model panics if a part without the register is written there.
    let mut old = start(&Hardware::new(0x100c));
    assert!(!old.capabilities().interrupt_throttle);
    old.throttle(8000);
}

#[test]
fn statistics_are_not_reset_by_reading() {
    for sticky_statistics in [false, true] {
        let faults = Faults {
            sticky_statistics,
            ..Faults::default()
        };
        let hardware = with_faults(COPPER, faults);
        hardware.count(MPC, 1000);
        let mut nic = start(&hardware);
        assert_eq!(
            nic.statistics(),
            Statistics::default(),
            "counts from the start"
        );
        hardware.count(MPC, 3);
        hardware.count(RUC, 1);
        hardware.count(ROC, 1);
        hardware.poke(GORCL, 5);
        hardware.poke(GORCH, 2);
        let expected = Statistics {
            rx_missed: 3,
            rx_length_errors: 2,
            rx_bytes: (2 << 32) + 5,
            ..Statistics::default()
        };
        assert_eq!(nic.statistics(), expected, "sticky {sticky_statistics}");
        assert_eq!(nic.statistics(), expected, "sticky {sticky_statistics}");
        hardware.count(MPC, 2);
        hardware.poke(GORCL, 1);
        let more = Statistics {
            rx_missed: 5,
            rx_bytes: (2 << 32) + 6,
            ..expected
        };
        assert_eq!(nic.statistics(), more, "sticky {sticky_statistics}");
    }
}

#[test]
fn statistics_survive_a_reset() {
    for (sticky_statistics, reset_idle) in [(false, false), (true, false), (true, true)] {
        let faults = Faults {
            sticky_statistics,
            reset_idle,
            tx_dead: true,
            ..Faults::default()
        };
        let hardware = with_faults(COPPER, faults);
        let mut nic = start(&hardware);
        hardware.count(MPC, 3);
        nic.statistics();
        hardware.count(MPC, 4);
        hang(&mut nic);
        hardware.count(MPC, 1);
        assert_eq!(
            nic.statistics().rx_missed,
            8,
            "{sticky_statistics} {reset_idle}"
        );
    }
}

/// Sends into a dead transmitter and looks until the NIC is reset.
fn hang(nic: &mut E1000<Hardware>) {
    send(nic, &broadcast(60));
    let reset = (0..10).any(|_| nic.service(Causes::LOOK) == Some(Event::Reset));
    assert!(reset, "a hung transmitter was not found");
}

#[test]
fn a_hung_transmitter_is_reset_and_works_again() {
    for reset_idle in [false, true] {
        let hardware = with_faults(
            COPPER,
            Faults {
                reset_idle,
                ..Faults::default()
            },
        );
        let mut nic = start(&hardware);
        nic.throttle(8000);
        nic.unmask();
        let resting = (nic.halves().1.free(), nic.halves().0.free_buffers());
        let unmasked = hardware.unmasked();
        let resets = hardware.state().resets;
        assert!(hardware.receive(&broadcast(99)));
        send_summed(&mut nic);
        hardware.transmit(9);
        hardware.state().faults.tx_dead = true;
        hang(&mut nic);

        assert_eq!(hardware.state().resets, resets + 1);
        assert_eq!(
            (nic.halves().1.free(), nic.halves().0.free_buffers()),
            resting
        );
        assert_eq!(hardware.unmasked(), unmasked);
        assert_eq!(hardware.peek(ITR), 488);
        assert_eq!(
            nic.link(),
            Link::Up {
                mbps: 1000,
                full_duplex: true
            }
        );
        let ctrl = Ctrl::from_bits_retain(hardware.peek(CTRL));
        assert!(ctrl.contains(Ctrl::RFCE), "the MAC is fitted to the link");

        hardware.state().faults.tx_dead = false;
        hardware.state().sent.clear();
        let sent_descriptors = |nic: &mut E1000<Hardware>| {
            send_summed(nic);
            hardware.transmit(9)
        };
        assert_eq!(
            sent_descriptors(&mut nic),
            2,
            "the NIC has forgotten the context"
        );
        let frame = broadcast(70);
        send(&mut nic, &frame);
        hardware.transmit(9);
        assert_eq!(hardware.state().sent[1], frame);
        assert!(hardware.receive(&frame));
        assert_eq!(poll_all(&mut nic), [frame]);
        nic.halves().1.reclaim();
        for _ in 0..10 {
            assert_eq!(nic.service(Causes::LOOK), None);
        }
    }
}

/// Queues a frame whose checksum the NIC is to fill in.
fn send_summed(nic: &mut E1000<Hardware>) {
    let (_, tx) = nic.halves();
    let offload = Offload::Checksum {
        start: 34,
        offset: 50,
    };
    tx.send(60, &[], offload, |frame| frame.fill(1)).unwrap();
    tx.flush();
}

#[test]
fn a_reset_inside_a_long_frame_starts_afresh() {
    let hardware = with_faults(
        COPPER,
        Faults {
            tx_dead: true,
            ..Faults::default()
        },
    );
    let mut nic = start(&hardware);
    hardware.receive_half(&broadcast(2048));
    let (rx, _) = nic.halves();
    assert_eq!(rx.poll(1, |_| panic!("half a frame")), 0);
    hang(&mut nic);
    let frame = broadcast(80);
    assert!(hardware.receive(&frame));
    assert_eq!(poll_all(&mut nic), [frame]);
}

#[test]
fn a_link_lost_in_a_hang_is_reported_after_the_reset() {
    let hardware = with_faults(
        COPPER,
        Faults {
            tx_dead: true,
            ..Faults::default()
        },
    );
    let mut nic = start(&hardware);
    send(&mut nic, &broadcast(60));
    nic.service(Causes::LOOK);
    nic.service(Causes::LOOK);
    hardware.set_link(Link::Down);
    assert_eq!(nic.service(Causes::LOOK), Some(Event::Reset));
    assert_eq!(nic.service(Causes::LOOK), Some(Event::Link(Link::Down)));
}

#[test]
fn a_transmitter_that_moves_or_may_not_send_is_not_hung() {
    let hardware = Hardware::new(COPPER);
    let mut nic = start(&hardware);
    for _ in 0..10 {
        // One descriptor is always left over.
        send(&mut nic, &broadcast(60));
        nic.halves().1.reclaim();
        assert_eq!(nic.service(Causes::LOOK), None);
        hardware.transmit(1);
    }
    send(&mut nic, &broadcast(60));
    for _ in 0..10 {
        // Sent, and only the stack has not reclaimed.
        hardware.transmit(9);
        assert_eq!(nic.service(Causes::LOOK), None);
    }
    nic.halves().1.reclaim();
    let queued = nic.halves().1.send(60, &[], Offload::None, |_| ());
    assert_eq!(queued, Ok(()));
    for _ in 0..10 {
        // Never flushed: the NIC does not know of it.
        assert_eq!(nic.service(Causes::LOOK), None);
    }
    nic.halves().1.flush();
    hardware.poke(STATUS, hardware.peek(STATUS) | Status::TXOFF.bits());
    for _ in 0..10 {
        // The switch has sent PAUSE.
        assert_eq!(nic.service(Causes::LOOK), None);
    }
}

#[test]
fn stop_leaves_no_dma_and_no_interrupt() {
    let hardware = Hardware::new(COPPER);
    let mut nic = start(&hardware);
    nic.unmask();
    nic.stop();
    assert!(!hardware.receive(&broadcast(60)));
    assert_eq!(hardware.unmasked(), 0);
    assert_eq!(
        hardware.peek(RCTL) | hardware.peek(TCTL) & Tctl::EN.bits(),
        0
    );
    assert_eq!(nic.link(), Link::Down);
}

#[test]
fn long_frames_need_a_long_mtu() {
    for (mtu, fits, too_long) in [
        (1500, 1518, 1519),
        (3000, 3014, 4097),
        (8000, 8014, 8193),
        (9000, 9014, 16385),
        (16110, 16124, 16385),
    ] {
        let hardware = Hardware::new(COPPER);
        let mut nic = start_with(
            &hardware,
            Config {
                rx_ring: 16,
                tx_ring: 16,
                mtu,
            },
        )
        .unwrap();
        let frame = broadcast(fits);
        assert!(hardware.receive(&frame));
        hardware.receive(&broadcast(too_long));
        assert_eq!(poll_all(&mut nic), [frame], "MTU {mtu}");
        let refused = nic.halves().0.dropped().length + u64::from(hardware.peek(ROC));
        assert_eq!(refused, 1, "MTU {mtu}");

        let (_, tx) = nic.halves();
        assert_eq!(tx.send(mtu + 14, &[], Offload::None, |_| ()), Ok(()));
        let error = tx.send(mtu + 15, &[], Offload::None, |_| panic!("filled"));
        assert_eq!(error, Err(crate::nic::TxError::Unsupported));
    }
}
