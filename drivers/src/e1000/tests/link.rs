//! The link: copper, fibre, and what the MAC is told.

use super::*;

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
    assert_eq!(nic.service(Causes::LOOK), None);
    let up = Link::Up {
        mbps: 1000,
        full_duplex: true,
    };
    hardware.set_link(up);
    assert_eq!(nic.service(Causes::LOOK), Some(Event::Link(up)));
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
            .take_while(|_| nic.service(Causes::LOOK).is_none())
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
        nic.service(Causes::LOOK);
        assert_ne!(
            hardware.peek(TXCW) & Txcw::ANE.bits(),
            0,
            "back to negotiation"
        );
        nic.service(Causes::LOOK);
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
            assert_eq!(nic.service(Causes::LOOK), None);
        }
        assert_ne!(hardware.peek(TXCW) & Txcw::ANE.bits(), 0);
    }
}
