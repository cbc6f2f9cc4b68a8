//! Firmware, and the interface's coming up.

use super::*;

#[test]
fn the_card_gets_the_firmware_that_fits_the_host() {
    let (hardware, mut nic) = start_with(Variant::Aligned, SMALL);
    assert_eq!(
        nic.firmware().to_string(),
        "firmware 1.4.57 for aligned completions"
    );
    assert_eq!(nic.identity().driver, NAME);
    assert_eq!(nic.identity().mac.0, MAC);
    assert_eq!(nic.capabilities().rx_ring, 16);
    assert!(nic.capabilities().tso_v6);
    is_well(&hardware, &mut nic);

    let (hardware, mut nic) = start_with(Variant::Unaligned, SMALL);
    assert_eq!(nic.firmware().to_string(), "firmware 1.4.57 for any host");
    assert_eq!(hardware.0.device(|card| card.totals().hand_offs), 2);
    // The test that showed it is one that fails.
    assert!(hardware.0.complaints().contains("Unaligned"));
    hardware.0.host(|host| host.complaints.clear());
    is_well(&hardware, &mut nic);
}

#[test]
fn one_bare_file_will_do() {
    for (aligned, wanted) in [(true, "for aligned"), (false, "for any host")] {
        let hardware = plugged(Variant::Aligned);
        let file = synthetic(aligned, "1.4.50").leak();
        let mut nic = try_start(&hardware, Some(file), SMALL).unwrap();
        assert!(nic.firmware().to_string().contains(wanted));
        is_well(&hardware, &mut nic);
    }
}

#[test]
fn firmware_that_fails_the_hosts_test_is_not_gone_on_with() {
    for (variant, faults, then) in [
        (Variant::Unaligned, 0, "firmware 1.4.57 for any host"),
        (
            Variant::Aligned,
            1,
            "firmware 1.4.57 for aligned completions",
        ),
    ] {
        let hardware = plugged(variant);
        hardware.0.command(&format!("fault dma {faults}")).unwrap();
        let file = synthetic(true, "1.4.57").leak();
        let error = try_start(&hardware, Some(file), SMALL).err().unwrap();
        assert!(matches!(error, Error::NotForThisHost(_)));
        assert!(error.to_string().contains("myri10ge_ethp_z8e.dat"));
        // With both files it starts, on the same card.
        let mut nic = try_start(&hardware, Some(both()), SMALL).unwrap();
        assert_eq!(nic.firmware().to_string(), then);
        hardware.0.host(|host| host.complaints.clear());
        is_well(&hardware, &mut nic);
    }
}

#[test]
fn a_narrow_link_needs_no_test_and_short_reads_are_kept_to() {
    let hardware = plugged(Variant::Unaligned);
    let link = PcieLink {
        max_read_request: 512,
        lanes: 4,
    };
    let mut platform = hardware.clone();
    let nic = Myri10ge::start(
        hardware.clone(),
        &mut platform,
        9,
        Some(link),
        Some(both()),
        JUMBO,
    );
    let nic = nic.unwrap();
    assert!(nic.firmware().to_string().contains("aligned"));
    assert_eq!(nic.firmware.boundary, 2048);
}

#[test]
fn without_firmware_the_cards_own_is_adopted() {
    let hardware = plugged(Variant::Running);
    let mut nic = try_start(&hardware, None, SMALL).unwrap();
    let text = nic.firmware().to_string();
    assert_eq!(text, "firmware 1.4.55 for any host, the card's own");
    is_well(&hardware, &mut nic);
    assert_eq!(hardware.0.device(|card| card.totals().hand_offs), 0);
}

#[test]
fn what_is_missing_is_said_and_how_to_get_it() {
    let text = |firmware| {
        let error = try_start(&plugged(Variant::Aligned), firmware, SMALL).err();
        error.unwrap().to_string()
    };
    let nothing = text(None);
    for part in [
        "none was loaded beside the image",
        "what the card runs is of the type 0x50434945",
        "firmware-myricom",
        "myri10ge_ethp_z8e.dat",
    ] {
        assert!(nothing.contains(part), "{part}: {nothing}");
    }
    let mut other = synthetic(true, "1.4.57");
    other[0x104..0x108].copy_from_slice(b"MX  ");
    assert!(text(Some(other.leak())).contains("is of the type 0x4d582020"));
    let cut = &*synthetic(true, "1.4.57").leak();
    assert!(text(Some(&cut[..0x120])).contains("cut short"));
    assert!(text(Some(b"an initrd of somebody's")).contains("is no firmware"));
}

#[test]
fn damaged_firmware_does_not_start_and_that_is_said() {
    let mut damaged = synthetic(true, "1.4.57");
    damaged[0x900] ^= 1;
    let hardware = plugged(Variant::Aligned);
    let error = try_start(&hardware, Some(damaged.leak()), SMALL).err();
    assert_eq!(error, Some(Error::Load(LoadError::NotConfirmed)));
    assert!(error.unwrap().to_string().contains("the file is damaged"));
    // A card that has gone astray is helped by nothing but its power.
    assert!(try_start(&hardware, Some(both()), SMALL).is_err());
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let hardware = plugged(Variant::Aligned);
    let error = |config| try_start(&hardware, Some(both()), config).err().unwrap();
    let ring = Config {
        rx_ring: 12,
        ..SMALL
    };
    assert_eq!(error(ring), Error::RingSize(12));
    let large = Config { mtu: 9001, ..SMALL };
    assert!(matches!(
        error(large),
        Error::Mtu {
            asked: 9001,
            max: 9000
        }
    ));
    let mut platform = hardware.clone();
    let unknown = Myri10ge::start(hardware.clone(), &mut platform, 7, None, None, SMALL);
    assert_eq!(unknown.err(), Some(Error::UnknownDevice(7)));
    hardware.0.host(|_| ());
    hardware.0.device(|card| {
        use uniperf_nic_models::Device;
        card.config_mut().set_command(0);
    });
    assert_eq!(error(SMALL), Error::NotThere);
}

#[test]
fn it_can_be_stopped_and_started_again() {
    let (hardware, mut nic) = start();
    nic.stop();
    hardware.0.receive(&frame(100));
    assert!(!nic.halves().0.pending());
    assert_eq!(nic.link(), Link::Down);
    drop(nic);
    let mut nic = try_start(&hardware, Some(both()), JUMBO).unwrap();
    is_well(&hardware, &mut nic);
}

#[test]
fn what_the_card_says_of_itself_can_be_read() {
    let (_, mut nic) = start();
    let mut registers = Vec::new();
    nic.registers(&mut |register, value| registers.push((register, value)));
    let eth = u32::from_be_bytes(*b"ETH ");
    assert!(registers.iter().any(|(_, value)| *value == eth));
    let link = Register::Nic((16 << 20) + 28);
    assert!(registers.contains(&(link, 1)));
}
