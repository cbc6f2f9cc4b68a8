//! What goes wrong, and what becomes of it: it is counted, and the NIC works on.

use uniperf_nic_models::InterruptMode;

use super::*;

#[test]
fn frames_with_errors_are_dropped_and_counted() {
    for generation in Generation::ALL {
        for (fault, length) in [
            ("crc", false),
            ("overflow", false),
            ("symbol", false),
            ("invalid", false),
            ("length", true),
        ] {
            let (hardware, mut nic) = start(generation);
            hardware.0.command(&format!("fault rx {fault} 3")).unwrap();
            for _ in 0..3 {
                hardware.0.receive(&frame(100));
            }
            hardware.0.receive(&frame(101));
            assert_eq!(poll_all(&mut nic), [frame(101)], "{generation} {fault}");
            let dropped = nic.halves().0.dropped();
            let counts = (dropped.errors, dropped.length);
            assert_eq!(
                counts,
                if length { (0, 3) } else { (3, 0) },
                "{generation} {fault}"
            );
            is_well(&hardware, &mut nic);
        }
    }
}

#[test]
fn a_framing_error_does_no_harm() {
    for generation in Generation::ALL {
        let (hardware, mut nic) = start(generation);
        hardware.0.command("fault rx framing").unwrap();
        hardware.0.receive(&frame(100));
        assert_eq!(poll_all(&mut nic), [frame(100)], "{generation}");
    }
}

#[test]
fn errors_are_in_the_statistics() {
    let (hardware, mut nic) = start(Generation::Mcp55);
    hardware.0.command("fault rx crc 2").unwrap();
    hardware.0.receive(&frame(100));
    hardware.0.receive(&frame(100));
    hardware.0.command("fault overrun 3").unwrap();
    for _ in 0..4 {
        hardware.0.receive(&frame(100));
    }
    hardware.0.command("fault tx underflow").unwrap();
    send(&mut nic, &frame(100));
    send(&mut nic, &frame(200));
    let statistics = nic.statistics();
    assert_eq!(statistics.rx_crc_errors, 2);
    assert_eq!(statistics.rx_missed, 3);
    assert_eq!(statistics.rx_no_buffer, 3);
    assert_eq!((statistics.rx_frames, statistics.rx_bytes), (1, 104));
    assert_eq!((statistics.tx_frames, statistics.tx_bytes), (1, 204));
    assert_eq!(statistics.tx_errors, 1);
    assert_eq!(nic.statistics(), statistics, "reading changes nothing");
}

#[test]
fn members_without_counters_count_by_their_rings() {
    let (hardware, mut nic) = start(Generation::Nforce2);
    hardware.0.receive(&frame(100));
    hardware.0.command("fault rx crc").unwrap();
    hardware.0.receive(&frame(100));
    poll_all(&mut nic);
    send(&mut nic, &frame(20));
    nic.halves().1.reclaim();
    let statistics = nic.statistics();
    assert_eq!((statistics.rx_frames, statistics.rx_bytes), (1, 104));
    assert_eq!((statistics.tx_frames, statistics.tx_bytes), (1, 64));
    assert_eq!(statistics.rx_other_errors, 1);
}

#[test]
fn failed_frames_are_reclaimed() {
    for generation in Generation::ALL {
        for fault in ["underflow", "carrier", "collision", "retry"] {
            let (hardware, mut nic) = start(generation);
            hardware.0.command(&format!("fault tx {fault} 2")).unwrap();
            for _ in 0..3 {
                send(&mut nic, &frame(100));
            }
            assert_eq!(hardware.0.take_sent().len(), 1);
            assert_eq!(nic.halves().1.reclaim(), 3, "{generation} {fault}");
            is_well(&hardware, &mut nic);
        }
    }
}

/// Looks after the NIC until it is reset, for as many looks as that may take.
fn until_reset(hardware: &Hardware, nic: &mut Forcedeth<Hardware>) {
    let reset = (0..6).any(|_| {
        hardware.0.advance(LOOK);
        nic.service(Causes::LOOK) == Some(Event::Reset)
    });
    assert!(reset, "it was not reset");
}

#[test]
fn a_transmitter_that_hangs_is_reset() {
    for generation in Generation::ALL {
        let (hardware, mut nic) = start(generation);
        nic.unmask();
        hardware.0.command("fault stuck").unwrap();
        send(&mut nic, &frame(100));
        until_reset(&hardware, &mut nic);
        // It comes back as it was: the link, the address, the interrupts.
        hardware.0.receive(&frame(100));
        assert!(hardware.0.interrupt_pending(), "{generation}");
        nic.interrupt().claim();
        is_well(&hardware, &mut nic);
    }
}

#[test]
fn a_busy_transmitter_is_not_reset() {
    let (hardware, mut nic) = start(Generation::Mcp55);
    for _ in 0..10 {
        send(&mut nic, &frame(100));
        hardware.0.advance(LOOK);
        assert_eq!(nic.service(Causes::LOOK), None);
    }
    // Nor is one that a peer has asked to pause.
    let mut pause = vec![
        1, 0x80, 0xc2, 0, 0, 1, 2, 0, 0, 0, 0, 1, 0x88, 0x08, 0, 1, 0xff, 0xff,
    ];
    pause.resize(60, 0);
    hardware.0.receive(&pause);
    send(&mut nic, &frame(100));
    for _ in 0..10 {
        hardware.0.advance(Duration::from_millis(30));
        hardware.0.receive(&pause);
        assert_eq!(nic.service(Causes::LOOK), None);
    }
}

#[test]
fn rings_that_went_wrong_are_started_anew() {
    let (hardware, mut nic) = start(Generation::Mcp55);
    nic.unmask();
    hardware.0.command("fault recover").unwrap();
    assert!(hardware.0.interrupt_pending());
    let causes = nic.interrupt().claim().unwrap();
    assert!(causes.contains(Causes::FAULT));
    assert_eq!(nic.service(causes), Some(Event::Reset));
    is_well(&hardware, &mut nic);
}

#[test]
fn a_ring_error_is_found_by_a_look_whoever_forgot_it() {
    // Nobody has taken it: interrupts are masked, as by a loop that always polls.
    let (hardware, mut nic) = start(Generation::Mcp55);
    hardware.0.command("fault recover").unwrap();
    assert_eq!(nic.service(Causes::LOOK), Some(Event::Reset));
    assert_eq!(nic.service(Causes::LOOK), None, "it is over");
    is_well(&hardware, &mut nic);

    // The handler has taken it, and its causes were lost in those of a look.
    nic.unmask();
    hardware.0.command("fault recover").unwrap();
    assert!(nic.interrupt().claim().is_some());
    assert_eq!(nic.service(Causes::LOOK), Some(Event::Reset));
    assert_eq!(nic.service(Causes::LOOK), None, "it is over");
    is_well(&hardware, &mut nic);
}

#[test]
fn a_storm_on_a_shared_line_does_not_reset_the_nic() {
    let (_hardware, mut nic) = start(Generation::Mcp55);
    assert_eq!(nic.service(Causes::FAULT), None);
}

#[test]
fn frames_without_bus_mastering_are_lost_and_the_next_are_not() {
    let (hardware, mut nic) = start(Generation::Mcp79);
    hardware.0.command("fault master 10").unwrap();
    hardware.0.receive(&frame(100));
    send(&mut nic, &frame(100));
    assert!(hardware.0.take_sent().is_empty());
    hardware.0.advance(Duration::from_millis(20));
    is_well(&hardware, &mut nic);
}

#[test]
fn a_phy_that_falls_silent_leaves_the_link_as_it_was() {
    let (hardware, mut nic) = start(Generation::Mcp55);
    for (on, off) in [
        ("fault mii", "fault mii off"),
        ("fault phy", "fault phy off"),
    ] {
        hardware.0.command(on).unwrap();
        assert_eq!(nic.service(Causes::LOOK), None);
        assert!(matches!(nic.link(), Link::Up { .. }));
        hardware.0.command(off).unwrap();
        is_well(&hardware, &mut nic);
    }
}

#[test]
fn a_flapping_link_in_mid_transfer_loses_no_descriptors() {
    let (hardware, mut nic) = start(Generation::Ck804);
    for round in 0..20 {
        hardware.0.command("flap 5").unwrap();
        for number in 0..6 {
            send(&mut nic, &frame(100 + number));
            hardware.0.receive(&frame(100 + number));
        }
        nic.service(Causes::LINK);
        hardware.0.advance(NEGOTIATION);
        nic.service(Causes::LINK);
        assert!(matches!(nic.link(), Link::Up { .. }), "{round}");
        poll_all(&mut nic);
        nic.halves().1.reclaim();
    }
    is_well(&hardware, &mut nic);
}

#[test]
fn a_lost_interrupt_is_noticed_and_the_next_one_comes() {
    for generation in Generation::ALL {
        for mode in [InterruptMode::Intx, InterruptMode::Msi] {
            let (hardware, mut nic) = start(generation);
            if mode == InterruptMode::Msi && !nic.has_msi() {
                continue;
            }
            hardware.0.set_interrupt_mode(mode);
            nic.unmask();
            hardware.0.command("fault lost").unwrap();
            hardware.0.receive(&frame(100));
            hardware.0.advance(LOOK);
            assert!(!hardware.0.interrupt_pending(), "{generation} {mode:?}");
            assert_eq!(nic.service(Causes::LOOK), None);
            hardware.0.advance(LOOK);
            assert_eq!(nic.service(Causes::LOOK), Some(Event::LostInterrupt));
            assert!(hardware.0.interrupt_pending(), "{generation} {mode:?}");
            assert!(nic.interrupt().claim().is_some());
            poll_all(&mut nic);
            nic.unmask();
            for _ in 0..3 {
                hardware.0.advance(LOOK);
                assert_eq!(nic.service(Causes::LOOK), None);
            }
        }
    }
}

#[test]
fn without_interrupts_wrong_rings_are_seen_at_the_next_look() {
    let (hardware, mut nic) = start(Generation::Mcp55);
    hardware.0.command("fault recover").unwrap();
    assert_eq!(nic.service(Causes::LOOK), Some(Event::Reset));
    assert_eq!(nic.service(Causes::LOOK), None);
    is_well(&hardware, &mut nic);
}

#[test]
fn a_nic_that_does_not_stop_is_said_and_nothing_hangs() {
    let (hardware, mut nic) = start(Generation::Mcp55);
    hardware.0.command("fault busy").unwrap();
    hardware.0.command("link down").unwrap();
    nic.service(Causes::LINK);
    nic.stop();
    assert_eq!(nic.link(), Link::Down);
}
