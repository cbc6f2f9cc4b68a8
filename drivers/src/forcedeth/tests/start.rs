//! From power-on to a running NIC, its link, and back.

use super::*;
use crate::forcedeth::ids;

#[test]
fn every_generation_starts_and_carries_frames() {
    for generation in Generation::ALL {
        let (hardware, mut nic) = start(generation);
        assert_eq!(nic.identity().mac.0, MAC, "{generation}");
        assert_eq!(nic.identity().driver, NAME);
        is_well(&hardware, &mut nic);
    }
}

#[test]
fn the_link_is_what_both_ends_can() {
    for (generation, partner, link) in [
        (Generation::Nforce2, "up", (100, true)),
        (Generation::Mcp55, "up", (1000, true)),
        (Generation::Mcp55, "100 half", (100, false)),
        (Generation::Mcp79, "10 full", (10, true)),
        (Generation::Mcp79, "10 half", (10, false)),
    ] {
        let (hardware, mut nic) = start(generation);
        hardware.0.command(&format!("link {partner}")).unwrap();
        hardware.0.advance(NEGOTIATION);
        nic.service(Causes::LINK);
        let (mbps, full_duplex) = link;
        assert_eq!(nic.link(), Link::Up { mbps, full_duplex });
        is_well(&hardware, &mut nic);
    }
}

#[test]
fn a_change_of_the_link_raises_an_interrupt_and_is_reported_once() {
    let (hardware, mut nic) = start(Generation::Mcp61);
    nic.unmask();
    hardware.0.interrupt_pending();
    nic.interrupt().claim();
    nic.unmask();
    hardware.0.command("link down").unwrap();
    assert!(hardware.0.interrupt_pending());
    let causes = nic.interrupt().claim().unwrap();
    assert!(causes.contains(Causes::LINK));
    assert_eq!(nic.service(causes), Some(Event::Link(Link::Down)));
    assert_eq!(nic.service(causes), None);
    hardware.0.command("link up").unwrap();
    hardware.0.advance(NEGOTIATION);
    assert!(matches!(
        nic.service(Causes::LOOK),
        Some(Event::Link(Link::Up { .. }))
    ));
    is_well(&hardware, &mut nic);
}

#[test]
fn a_link_that_was_lost_between_two_looks_is_looked_at() {
    let (hardware, mut nic) = start(Generation::Mcp79);
    assert_eq!(nic.service(Causes::LOOK), None);
    hardware.0.command("link 100 half").unwrap();
    hardware.0.advance(NEGOTIATION);
    let link = Link::Up {
        mbps: 100,
        full_duplex: false,
    };
    assert_eq!(nic.service(Causes::LOOK), Some(Event::Link(link)));
    assert_eq!(nic.service(Causes::LOOK), None);
    is_well(&hardware, &mut nic);

    // So is one where somebody else has read the PHY since.
    hardware.0.command("link down").unwrap();
    hardware.0.command("link up").unwrap();
    hardware.0.advance(NEGOTIATION);
    assert_eq!(nic.phy.has_stayed_up(&nic.regs), Ok(false));
    assert_eq!(nic.phy.has_stayed_up(&nic.regs), Ok(true));
    assert!(matches!(
        nic.service(Causes::LOOK),
        Some(Event::Link(Link::Up { mbps: 1000, .. }))
    ));
    is_well(&hardware, &mut nic);
}

#[test]
fn a_cable_may_be_put_in_later() {
    let hardware = plugged(Generation::Ck804);
    hardware.0.command("link down").unwrap();
    let mut nic = try_start(&hardware, SMALL).unwrap();
    hardware.0.advance(NEGOTIATION);
    assert_eq!(nic.service(Causes::LOOK), None);
    assert_eq!(nic.link(), Link::Down);
    hardware.0.command("link up").unwrap();
    hardware.0.advance(NEGOTIATION);
    nic.service(Causes::LOOK);
    is_well(&hardware, &mut nic);
}

#[test]
fn the_station_address_is_left_as_it_was_found() {
    for generation in Generation::ALL {
        let hardware = plugged(generation);
        let held = || [0xa8, 0xac, 0x10c].map(|offset| hardware.0.read32(offset));
        let before = held();
        let mut nic = try_start(&hardware, SMALL).unwrap();
        nic.stop();
        assert_eq!(held(), before, "{generation}");
        let nic = try_start(&hardware, SMALL).unwrap();
        assert_eq!(nic.identity().mac.0, MAC, "{generation}");
        // One that was not stopped, as by a reset of the machine alone.
        let mut nic = try_start(&hardware, SMALL).unwrap();
        assert_eq!(nic.identity().mac.0, MAC, "{generation}");
        nic.stop();
        assert_eq!(held(), before, "{generation}");
    }
}

#[test]
fn a_running_nic_is_taken_over() {
    for generation in Generation::ALL {
        let (hardware, mut old) = start(generation);
        old.unmask();
        hardware.0.interrupt_pending();
        let mut nic = try_start(&hardware, SMALL).unwrap();
        hardware.0.advance(NEGOTIATION);
        nic.service(Causes::LOOK);
        hardware.0.receive(&frame(100));
        assert!(
            !hardware.0.interrupt_pending(),
            "{generation}: it was masked"
        );
        poll_all(&mut nic);
        is_well(&hardware, &mut nic);
    }
}

#[test]
fn what_cannot_be_is_refused_in_words() {
    let hardware = plugged(Generation::Nforce2);
    let with = |config| try_start(&hardware, config).err().unwrap();
    assert_eq!(
        with(Config {
            rx_ring: 0,
            ..SMALL
        }),
        Error::RingSize(0)
    );
    assert_eq!(
        with(Config {
            tx_ring: 12,
            ..SMALL
        }),
        Error::RingSize(12)
    );
    let mtu = |asked| Error::Mtu { asked, max: 1500 };
    assert_eq!(with(Config { mtu: 1501, ..SMALL }), mtu(1501));
    assert_eq!(with(Config { mtu: 67, ..SMALL }), mtu(67));
    let huge = Config {
        rx_ring: 1 << 20,
        tx_ring: 8,
        mtu: 1500,
    };
    assert_eq!(
        try_start(&hardware, huge).unwrap().capabilities().rx_ring,
        1024
    );
    for error in [
        with(Config { mtu: 1501, ..SMALL }),
        Error::PhySilent,
        Error::DoesNotStop,
    ] {
        assert!(error.to_string().len() > 20);
    }
}

#[test]
fn a_nic_that_does_not_answer_is_an_error_and_no_hang() {
    for (fault, error) in [
        ("fault phy", Error::PhySilent),
        ("fault mii", Error::PhySilent),
        ("fault busy", Error::DoesNotStop),
    ] {
        let hardware = plugged(Generation::Mcp55);
        hardware.0.command(fault).unwrap();
        assert_eq!(try_start(&hardware, SMALL).err(), Some(error), "{fault}");
        hardware.0.command(&format!("{fault} off")).unwrap();
        let nic = try_start(&hardware, SMALL).unwrap();
        assert_eq!(nic.identity().mac.0, MAC, "{fault}");
    }
    let hardware = Hardware(InProcess::new(Model::new(Generation::Mcp55, [0xff; 6])));
    assert!(matches!(
        try_start(&hardware, SMALL).err(),
        Some(Error::BadAddress(_))
    ));
}

/// Registers of a NIC that has fallen off the bus.
#[derive(Clone)]
struct Gone;

impl Registers for Gone {
    fn read32(&self, _: usize) -> u32 {
        !0
    }

    fn write32(&self, _: usize, _: u32) {}
}

#[test]
fn a_nic_that_is_gone_is_an_error() {
    let hardware = plugged(Generation::Mcp55);
    let device = Generation::Mcp55.device_id();
    let result = Forcedeth::start(Gone, &mut hardware.clone(), device, 0xa3, SMALL);
    assert_eq!(result.err(), Some(Error::NotThere));
    let unknown = Forcedeth::start(hardware.clone(), &mut hardware.clone(), 0x1234, 0, SMALL);
    assert_eq!(unknown.err(), Some(Error::UnknownDevice(0x1234)));
}

#[test]
fn the_model_and_the_driver_know_the_same_members() {
    for generation in Generation::ALL {
        let model = ids::find(ids::VENDOR, generation.device_id()).unwrap();
        assert!(
            model.name.to_lowercase().contains(generation.name()),
            "{generation}"
        );
    }
}

#[test]
fn its_registers_can_be_looked_at_without_harm() {
    for generation in Generation::ALL {
        let (hardware, mut nic) = start(generation);
        hardware.0.receive(&frame(100));
        let before = poll_all(&mut nic).len();
        let (mut own, mut phy) = (Vec::new(), Vec::new());
        nic.registers(&mut |register, value| match register {
            Register::Nic(offset) => own.push((offset, value)),
            Register::Phy(number) => phy.push((number, value)),
        });
        assert!(own.contains(&(0xa8, u32::from_le_bytes([0x52, 0x54, 0x00, 0x12]))));
        assert_eq!(phy.len(), 32, "{generation}");
        assert_eq!(nic.statistics().rx_frames, before as u64);
        is_well(&hardware, &mut nic);
    }
}
