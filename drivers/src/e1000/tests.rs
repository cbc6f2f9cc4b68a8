//! Starting, link, interrupts, statistics and recovery, against the model.

use super::model::{Faults, Hardware, MAC};
use super::regs::*;
use super::*;
use crate::nic::{Offload, Receive, RxFrame, Transmit};

const COPPER: u16 = 0x100e;
const FIBRE: u16 = 0x1011;

fn start_with(hardware: &Hardware, config: Config) -> Result<E1000<Hardware>, Error> {
    let device = hardware.state().model.device;
    E1000::start(hardware.clone(), &mut hardware.clone(), device, config)
}

fn start(hardware: &Hardware) -> E1000<Hardware> {
    start_with(
        hardware,
        Config {
            rx_ring: 16,
            tx_ring: 16,
            mtu: 1500,
        },
    )
    .unwrap()
}

fn with_faults(device: u16, faults: Faults) -> Hardware {
    let hardware = Hardware::new(device);
    hardware.state().faults = faults;
    hardware
}

fn failure(hardware: &Hardware) -> Error {
    start_with(hardware, Config::default())
        .err()
        .expect("it started")
}

/// A broadcast frame of `len` bytes.
fn broadcast(len: usize) -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend((6..len).map(|at| at as u8));
    frame
}

fn poll_all(nic: &mut E1000<Hardware>) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    nic.halves()
        .0
        .poll(64, |frame: RxFrame<'_>| frames.push(frame.bytes.to_vec()));
    frames
}

fn send(nic: &mut E1000<Hardware>, frame: &[u8]) {
    let (_, tx) = nic.halves();
    tx.send(frame.len(), &[], Offload::None, |buffer| {
        buffer.copy_from_slice(frame)
    })
    .unwrap();
    tx.flush();
}

#[test]
fn every_model_starts_and_passes_frames_both_ways() {
    for model in ids::MODELS {
        let hardware = Hardware::new(model.device);
        let mut nic = start(&hardware);
        assert_eq!(nic.identity().mac, MacAddress(MAC), "{}", model.name);
        assert_eq!(
            nic.link(),
            Link::Up {
                mbps: 1000,
                full_duplex: true
            },
            "{}",
            model.name
        );
        assert_eq!(hardware.unmasked(), 0);

        let frame = broadcast(77);
        assert!(hardware.receive(&frame));
        assert_eq!(
            poll_all(&mut nic),
            std::slice::from_ref(&frame),
            "{}",
            model.name
        );
        send(&mut nic, &frame);
        assert_eq!(hardware.transmit(9), 1);
        assert_eq!(hardware.state().sent, [frame], "{}", model.name);
        assert_eq!(nic.halves().1.reclaim(), 1);
        assert!(nic.statistics().rx_frames == 1 && nic.statistics().tx_frames == 1);
    }
}

#[test]
fn takes_its_own_address_and_no_other() {
    let hardware = Hardware::new(COPPER);
    let mut nic = start(&hardware);
    let mut own = MAC.to_vec();
    own.resize(60, 7);
    let mut other = own.clone();
    other[5] ^= 1;
    assert!(hardware.receive(&own));
    assert!(!hardware.receive(&other));
    assert_eq!(poll_all(&mut nic), [own]);
}

#[test]
fn firmware_no_longer_answers_arp() {
    let hardware = Hardware::new(COPPER);
    start(&hardware);
    assert_eq!(hardware.peek(MANC) & MANC_ARP_EN, 0);
}

#[test]
fn the_second_port_has_the_next_address() {
    let hardware = Hardware::new(0x1010);
    hardware.poke(STATUS, hardware.peek(STATUS) | Status::FUNC_1.bits());
    let nic = start(&hardware);
    let mut expected = MAC;
    expected[5] ^= 1;
    assert_eq!(nic.identity().mac.0, expected);
}

#[test]
fn the_first_receive_control_write_is_the_only_one_that_turns_it_on() {
    // QEMU holds frames back for a second after each.
    let hardware = Hardware::new(COPPER);
    start(&hardware);
    let state = hardware.state();
    let on = state
        .writes
        .iter()
        .filter(|(register, value)| *register == RCTL && value & 2 != 0);
    assert_eq!(on.count(), 1);
}

#[test]
fn errors_say_what_is_wrong() {
    let no_nic = Hardware::new(COPPER);
    let started = E1000::start(
        no_nic.clone(),
        &mut no_nic.clone(),
        0x1000,
        Config::default(),
    );
    assert_eq!(started.err(), Some(Error::UnknownDevice(0x1000)));

    let absent = with_faults(
        COPPER,
        Faults {
            absent: true,
            ..Faults::default()
        },
    );
    assert_eq!(failure(&absent), Error::NotThere);

    let stuck = with_faults(
        COPPER,
        Faults {
            reset_stuck: true,
            ..Faults::default()
        },
    );
    assert_eq!(failure(&stuck), Error::ResetStuck);
    assert!(stuck.state().now_us < 1_000_000, "gave up in time");

    let silent = with_faults(
        COPPER,
        Faults {
            phy_silent: true,
            ..Faults::default()
        },
    );
    assert_eq!(failure(&silent), Error::PhySilent);
    let silent = with_faults(
        0x1004,
        Faults {
            phy_silent: true,
            ..Faults::default()
        },
    );
    assert_eq!(failure(&silent), Error::PhySilent);

    let poor = Hardware::new(COPPER);
    poor.state().memory_left = 100_000;
    assert_eq!(
        failure(&poor),
        Error::OutOfMemory(OutOfDmaMemory {
            requested: 256 * 2048
        })
    );
}

#[test]
fn refuses_rings_and_mtus_that_the_nic_cannot_have() {
    let hardware = Hardware::new(COPPER);
    for asked in [0, 4, 20, 4097] {
        let config = Config {
            rx_ring: asked,
            ..Config::default()
        };
        let error = start_with(&hardware, config).err();
        assert_eq!(error, Some(Error::RingSize(asked)));
    }
    for asked in [67, 16093] {
        let config = Config {
            mtu: asked,
            ..Config::default()
        };
        let error = start_with(&hardware, config).err();
        assert_eq!(error, Some(Error::Mtu { asked, max: 16092 }));
    }
}

#[test]
fn rings_are_no_larger_than_the_nic_has() {
    let nic = start_with(&Hardware::new(0x1001), Config::default()).unwrap();
    assert_eq!(nic.capabilities().rx_ring, 256);
    assert_eq!(nic.capabilities().tx_ring, 256);
}

#[test]
fn an_unusable_eeprom_is_replaced_by_the_address_registers() {
    for device in [COPPER, 0x100c, 0x1076] {
        let silent = with_faults(
            device,
            Faults {
                eeprom_silent: true,
                ..Faults::default()
            },
        );
        assert_eq!(start(&silent).identity().mac.0, MAC);
        assert!(silent.state().now_us < 1_000_000, "gave up in time");

        let bad = Hardware::new(device);
        bad.state().eeprom[2] ^= 0x0100;
        assert_eq!(
            start(&bad).identity().mac.0,
            MAC,
            "not the EEPROM's, which is broken"
        );
    }
}

#[test]
fn the_eeprom_is_believed_before_the_registers() {
    let hardware = Hardware::new(COPPER);
    {
        let mut state = hardware.state();
        state.eeprom[2] = 0x9902;
        state.seal_eeprom();
    }
    assert_eq!(
        start(&hardware).identity().mac.0,
        [0x00, 0x1b, 0x21, 0x0a, 0x02, 0x99]
    );
}

#[test]
fn a_group_address_is_no_station_address() {
    let hardware = Hardware::new(COPPER);
    {
        let mut state = hardware.state();
        state.eeprom[0] |= 1;
        state.seal_eeprom();
    }
    assert!(matches!(failure(&hardware), Error::BadAddress(_)));
}

#[test]
fn a_working_phy_is_left_alone_and_a_broken_one_is_not() {
    let healthy = Hardware::new(COPPER);
    start(&healthy);
    let wrote_phy = |hardware: &Hardware| {
        let state = hardware.state();
        let is_write = |(register, value): &&(usize, u32)| {
            *register == MDIC && value & Mdic::OP_WRITE.bits() != 0
        };
        state.writes.iter().filter(is_write).count()
    };
    assert_eq!(wrote_phy(&healthy), 0);

    let powered_down = Hardware::new(COPPER);
    powered_down.state().phy[0] = 1 << 11;
    start(&powered_down);
    assert!(wrote_phy(&powered_down) > 0);
    assert_eq!(
        powered_down.state().phy[0],
        1 << 12,
        "negotiating, powered up"
    );

    let slow = Hardware::new(COPPER);
    slow.state().phy[9] = 0;
    start(&slow);
    assert_eq!(slow.state().phy[9], 0x0200, "gigabit is advertised");
}

#[test]
fn link_changes_are_reported_once() {
    let hardware = Hardware::new(COPPER);
    let mut nic = start(&hardware);
    let interrupt = nic.interrupt();
    nic.unmask();
    for link in [
        Link::Down,
        Link::Up {
            mbps: 100,
            full_duplex: false,
        },
        Link::Up {
            mbps: 10,
            full_duplex: true,
        },
        Link::Up {
            mbps: 1000,
            full_duplex: true,
        },
    ] {
        hardware.set_link(link);
        assert!(hardware.line());
        let causes = interrupt.claim().unwrap();
        assert_eq!(causes, Causes::LINK);
        assert!(!hardware.line());
        assert_eq!(nic.service(causes), Some(Event::Link(link)));
        assert_eq!(nic.link(), link);
        assert_eq!(nic.service(Causes::LINK), None);
        nic.unmask();
    }
}

#[test]
fn a_late_link_comes_up() {
    let hardware = Hardware::new(COPPER);
    hardware.set_link(Link::Down);
    let mut nic = start(&hardware);
    assert_eq!(nic.link(), Link::Down);
    assert_eq!(nic.service(Causes::all()), None);
    let up = Link::Up {
        mbps: 1000,
        full_duplex: true,
    };
    hardware.set_link(up);
    assert_eq!(nic.service(Causes::all()), Some(Event::Link(up)));
}

#[test]
fn the_mac_is_fitted_to_the_link() {
    let hardware = Hardware::new(COPPER);
    let mut nic = start(&hardware);
    let distance = || hardware.peek(TCTL) >> TCTL_COLD_SHIFT & 0x3ff;
    let pause = || hardware.peek(CTRL) & (Ctrl::RFCE | Ctrl::TFCE).bits();
    assert_eq!(distance(), 0x40);
    assert_eq!(
        pause(),
        (Ctrl::RFCE | Ctrl::TFCE).bits(),
        "both ends advertise it"
    );

    hardware.set_link(Link::Up {
        mbps: 1000,
        full_duplex: false,
    });
    nic.service(Causes::LINK);
    assert_eq!(distance(), 0x200);
    assert_eq!(pause(), 0, "no PAUSE at half duplex");

    hardware.state().phy[5] = 0x01e1;
    hardware.set_link(Link::Up {
        mbps: 100,
        full_duplex: true,
    });
    nic.service(Causes::LINK);
    assert_eq!(distance(), 0x40);
    assert_eq!(pause(), 0, "the partner has none");
}

#[test]
fn pause_is_resolved_as_802_3_says() {
    use super::phy::Pause;
    let end = |symmetric, asymmetric| Pause {
        symmetric,
        asymmetric,
    };
    let both = Ctrl::RFCE | Ctrl::TFCE;
    for (ours, theirs, expected) in [
        (end(false, false), end(true, true), Ctrl::empty()),
        (end(false, true), end(false, true), Ctrl::empty()),
        (end(false, true), end(true, false), Ctrl::empty()),
        (end(false, true), end(true, true), Ctrl::TFCE),
        (end(true, false), end(false, true), Ctrl::empty()),
        (end(true, false), end(true, false), both),
        (end(true, true), end(false, false), Ctrl::empty()),
        (end(true, true), end(false, true), Ctrl::RFCE),
        (end(true, true), end(true, true), both),
    ] {
        assert_eq!(
            Pause::resolve(ours, theirs),
            expected,
            "{ours:?} {theirs:?}"
        );
    }
}

#[test]
fn an_82543_is_told_the_speed_of_its_phy() {
    let hardware = Hardware::new(0x1004);
    let mut nic = start(&hardware);
    hardware.set_link(Link::Up {
        mbps: 100,
        full_duplex: true,
    });
    nic.service(Causes::LINK);
    let ctrl = Ctrl::from_bits_retain(hardware.peek(CTRL));
    assert!(ctrl.contains(Ctrl::FRCSPD | Ctrl::FRCDPX | Ctrl::SPEED_100 | Ctrl::FD));
    assert!(!ctrl.contains(Ctrl::SPEED_1000));
}

#[test]
fn fibre_links_with_a_partner_that_does_not_negotiate() {
    for device in [FIBRE, 0x1009, 0x1028] {
        let hardware = Hardware::new(device);
        hardware.state().partner_negotiates = false;
        let mut nic = start(&hardware);
        assert_eq!(nic.link(), Link::Down);
        let looks = (0..10)
            .take_while(|_| nic.service(Causes::all()).is_none())
            .count();
        assert!(
            (1..10).contains(&looks),
            "waited, and not for ever: {looks}"
        );
        assert_eq!(
            nic.link(),
            Link::Up {
                mbps: 1000,
                full_duplex: true
            }
        );
        assert_eq!(hardware.peek(TXCW) & Txcw::ANE.bits(), 0);

        {
            let mut state = hardware.state();
            state.partner_negotiates = true;
            state.negotiate_fibre();
        }
        nic.service(Causes::all());
        assert_ne!(
            hardware.peek(TXCW) & Txcw::ANE.bits(),
            0,
            "back to negotiation"
        );
        nic.service(Causes::all());
        assert_eq!(
            nic.link(),
            Link::Up {
                mbps: 1000,
                full_duplex: true
            }
        );
    }
}

#[test]
fn a_dark_fibre_is_never_forced_up() {
    for device in [FIBRE, 0x1009] {
        let hardware = Hardware::new(device);
        {
            let mut state = hardware.state();
            state.light = false;
            state.negotiate_fibre();
        }
        let mut nic = start(&hardware);
        for _ in 0..10 {
            assert_eq!(nic.service(Causes::all()), None);
        }
        assert_ne!(hardware.peek(TXCW) & Txcw::ANE.bits(), 0);
    }
}

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
    for sticky_statistics in [false, true] {
        let faults = Faults {
            sticky_statistics,
            tx_dead: true,
            ..Faults::default()
        };
        let hardware = with_faults(COPPER, faults);
        let mut nic = start(&hardware);
        hardware.count(MPC, 3);
        nic.statistics();
        hardware.count(MPC, 4);
        hang(&mut nic);
        assert_eq!(nic.statistics().rx_missed, 7);
        hardware.count(MPC, 1);
        assert_eq!(nic.statistics().rx_missed, 8);
    }
}

/// Sends into a dead transmitter and looks until the NIC is reset.
fn hang(nic: &mut E1000<Hardware>) {
    send(nic, &broadcast(60));
    let reset = (0..10).any(|_| nic.service(Causes::all()) == Some(Event::Reset));
    assert!(reset, "a hung transmitter was not found");
}

#[test]
fn a_hung_transmitter_is_reset_and_works_again() {
    let hardware = with_faults(
        COPPER,
        Faults {
            tx_dead: true,
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
    assert!(
        hardware.peek(CTRL) & Ctrl::RFCE.bits() != 0,
        "the MAC is fitted to the link"
    );

    hardware.state().faults.tx_dead = false;
    let frame = broadcast(70);
    send(&mut nic, &frame);
    hardware.transmit(4);
    assert_eq!(hardware.state().sent, std::slice::from_ref(&frame));
    assert!(hardware.receive(&frame));
    assert_eq!(poll_all(&mut nic), [frame]);
    for _ in 0..10 {
        assert_eq!(nic.service(Causes::all()), None);
    }
}

#[test]
fn a_transmitter_that_moves_or_may_not_send_is_not_hung() {
    let hardware = Hardware::new(COPPER);
    let mut nic = start(&hardware);
    for _ in 0..10 {
        // One descriptor is always left over.
        send(&mut nic, &broadcast(60));
        nic.halves().1.reclaim();
        assert_eq!(nic.service(Causes::all()), None);
        hardware.transmit(1);
    }
    send(&mut nic, &broadcast(60));
    for _ in 0..10 {
        // Sent, and only the stack has not reclaimed.
        hardware.transmit(9);
        assert_eq!(nic.service(Causes::all()), None);
    }
    nic.halves().1.reclaim();
    let queued = nic.halves().1.send(60, &[], Offload::None, |_| ());
    assert_eq!(queued, Ok(()));
    for _ in 0..10 {
        // Never flushed: the NIC does not know of it.
        assert_eq!(nic.service(Causes::all()), None);
    }
    nic.halves().1.flush();
    hardware.poke(STATUS, hardware.peek(STATUS) | Status::TXOFF.bits());
    for _ in 0..10 {
        // The switch has sent PAUSE.
        assert_eq!(nic.service(Causes::all()), None);
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
        (16092, 16106, 16385),
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
