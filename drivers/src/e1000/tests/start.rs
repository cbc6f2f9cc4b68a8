//! Starting: models, EEPROM, PHY, settings, and what goes wrong.

use super::*;

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
    for asked in [67, 16111] {
        let config = Config {
            mtu: asked,
            ..Config::default()
        };
        let error = start_with(&hardware, config).err();
        assert_eq!(error, Some(Error::Mtu { asked, max: 16110 }));
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
