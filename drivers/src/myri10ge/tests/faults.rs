//! What goes wrong, is counted, and passes.

use std::cell::RefCell;
use std::rc::Rc;

use super::super::regs::{BOOT_HANDOFF, Cmd, ETH_CMD};
use super::*;

/// Looks at the card as the loop does, a second after the last time.
fn look(hardware: &Hardware, nic: &mut Myri10ge<Hardware>) -> Option<Event> {
    hardware.0.advance(Duration::from_secs(1));
    nic.service(Causes::LOOK)
}

fn command(hardware: &Hardware, line: &str) {
    hardware.0.command(line).unwrap();
}

#[test]
fn frames_that_the_card_has_lost_are_counted_by_reason() {
    let (hardware, mut nic) = start();
    for kind in ["crc", "phy", "overrun", "overflow", "runt"] {
        command(&hardware, &format!("fault rx {kind} 2"));
        hardware.0.receive(&frame(100));
        hardware.0.receive(&frame(100));
    }
    assert!(poll_all(&mut nic).is_empty());
    nic.unmask();
    hardware.0.advance(Duration::from_millis(1));
    let counted = nic.statistics();
    assert_eq!(counted.rx_crc_errors, 2);
    assert_eq!(counted.rx_other_errors, 2);
    assert_eq!(counted.rx_missed, 4);
    assert_eq!(counted.rx_length_errors, 2);
    is_well(&hardware, &mut nic);
}

#[test]
fn a_link_that_goes_and_comes_is_seen() {
    let (hardware, mut nic) = start();
    nic.unmask();
    hardware.0.advance(Duration::from_millis(1));
    handle(&hardware, &nic);
    nic.unmask();
    for (line, link) in [("link down", Link::Down), ("link up", UP)] {
        command(&hardware, line);
        hardware.0.advance(Duration::from_millis(1));
        let causes = handle(&hardware, &nic).unwrap();
        assert!(causes.contains(Causes::LINK));
        assert_eq!(nic.service(causes), Some(Event::Link(link)));
        nic.unmask();
    }
    is_well(&hardware, &mut nic);
}

#[test]
fn a_link_that_changes_while_interrupts_are_masked_is_seen_at_the_next_looks() {
    let (hardware, mut nic) = start();
    nic.mask();
    command(&hardware, "link down");
    let seen = (0..3).any(|_| look(&hardware, &mut nic) == Some(Event::Link(Link::Down)));
    assert!(seen);
}

#[test]
fn a_transmitter_that_is_stuck_gets_its_firmware_anew() {
    let (hardware, mut nic) = start();
    is_well(&hardware, &mut nic);
    command(&hardware, "fault stuck");
    send(&mut nic, &frame(100));
    let reset = (0..6).any(|_| look(&hardware, &mut nic) == Some(Event::Reset));
    assert!(reset);
    assert_eq!(hardware.0.device(|card| card.totals().hand_offs), 2);
    assert_eq!(nic.halves().1.free(), nic.halves().1.capacity());
    is_well(&hardware, &mut nic);
    assert_eq!(look(&hardware, &mut nic), None, "it is over");
}

#[test]
fn a_card_that_works_is_never_taken_for_stuck() {
    let (hardware, mut nic) = start();
    nic.mask();
    for _ in 0..20 {
        send(&mut nic, &frame(100));
        nic.halves().1.reclaim();
        assert_eq!(look(&hardware, &mut nic), None);
    }
    is_well(&hardware, &mut nic);
}

#[test]
fn a_card_that_reboots_in_the_midst_of_things_comes_back() {
    let (hardware, mut nic) = start();
    nic.unmask();
    for _ in 0..3 {
        send(&mut nic, &frame(100));
        hardware.0.receive(&frame(100));
        command(&hardware, "fault parity");
        send(&mut nic, &frame(100));
        assert_eq!(
            nic.card.word(0x3c),
            u32::MAX,
            "it has forgotten its addresses"
        );
        // The machine gives it its place on the bus back.
        hardware.0.device(|card| {
            use uniperf_nic_models::Device;
            card.config_mut().set_command(0b110);
        });
        assert_eq!(nic.service(Causes::LOOK | Causes::BUS), Some(Event::Reset));
        assert_eq!(nic.link(), UP);
        poll_all(&mut nic);
        hardware.0.host(|host| host.complaints.clear());
        is_well(&hardware, &mut nic);
    }
    assert_eq!(hardware.0.device(|card| card.totals().reboots), 3);
}

#[test]
fn a_card_that_is_silent_is_tried_again_until_it_answers() {
    let (hardware, mut nic) = start();
    nic.unmask();
    command(&hardware, "fault silent");
    assert_eq!(
        nic.service(Causes::LOOK | Causes::BUS),
        Some(Event::Link(Link::Down))
    );
    for _ in 0..20 {
        assert_eq!(look(&hardware, &mut nic), None);
    }
    command(&hardware, "fault silent off");
    let back = (0..9).any(|_| look(&hardware, &mut nic) == Some(Event::Reset));
    assert!(back);
    assert_eq!(nic.link(), UP);
    is_well(&hardware, &mut nic);
}

#[test]
fn commands_and_hand_offs_that_are_never_answered_end_the_start_with_words() {
    let hardware = plugged(Variant::Aligned);
    command(&hardware, "fault silent");
    let error = try_start(&hardware, Some(both()), SMALL).err().unwrap();
    assert!(error.to_string().contains("does not answer"), "{error}");
    let hardware = plugged(Variant::Aligned);
    command(&hardware, "fault handoff");
    let error = try_start(&hardware, Some(both()), SMALL).err().unwrap();
    assert_eq!(error, Error::Load(LoadError::NotConfirmed));
}

#[test]
fn a_dma_test_that_fails_leads_to_the_firmware_for_any_host() {
    let hardware = plugged(Variant::Aligned);
    command(&hardware, "fault dma");
    let mut nic = try_start(&hardware, Some(both()), SMALL).unwrap();
    assert_eq!(nic.firmware().to_string(), "firmware 1.4.57 for any host");
    hardware.0.host(|host| host.complaints.clear());
    is_well(&hardware, &mut nic);
}

#[test]
fn an_interrupt_that_is_lost_is_missed_at_the_next_look() {
    let (hardware, mut nic) = start();
    hardware.0.set_interrupt_mode(InterruptMode::Msi);
    nic.interrupt().claim();
    nic.raise_interrupt(InterruptKind::Message);
    hardware.0.advance(Duration::from_millis(1));
    handle(&hardware, &nic);
    nic.unmask();
    hardware.0.advance(Duration::from_millis(1));
    command(&hardware, "fault lost");
    hardware.0.receive(&frame(100));
    assert_eq!(look(&hardware, &mut nic), Some(Event::LostInterrupt));
    assert_eq!(poll_all(&mut nic), [frame(100)]);
    is_well(&hardware, &mut nic);
}

/// A card whose commands to go down and hand-offs are written down in their order.
#[derive(Clone)]
struct Recorded(Hardware, Rc<RefCell<Vec<&'static str>>>);

// SAFETY: as for `Hardware`.
unsafe impl Send for Recorded {}

impl Registers for Recorded {
    fn read32(&self, offset: usize) -> u32 {
        self.0.read32(offset)
    }

    fn write32(&self, offset: usize, value: u32) {
        self.0.write32(offset, value);
    }
}

impl Window for Recorded {
    fn copy_to(&self, offset: usize, words: &[u64]) {
        let down = u64::from((Cmd::EthernetDown as u32).to_be());
        match offset {
            BOOT_HANDOFF => self.1.borrow_mut().push("hand-off"),
            ETH_CMD if words[0] & 0xffff_ffff == down => self.1.borrow_mut().push("down"),
            _ => {}
        }
        self.0.copy_to(offset, words);
    }

    fn copy_from(&self, offset: usize, words: &mut [u64]) {
        self.0.copy_from(offset, words);
    }

    fn fence(&self) {}

    fn delay_us(&self, microseconds: u32) {
        Window::delay_us(&self.0, microseconds);
    }
}

#[test]
fn the_interface_goes_down_before_firmware_that_runs_is_replaced() {
    let hardware = plugged(Variant::Aligned);
    let mut platform = hardware.clone();
    let did = Rc::new(RefCell::new(Vec::new()));
    let window = Recorded(hardware.clone(), Rc::clone(&did));
    let mut nic =
        Myri10ge::start(window, &mut platform, 8, Some(WIDE), Some(both()), SMALL).unwrap();
    assert_eq!(did.take(), ["hand-off"]);

    command(&hardware, "fault stuck");
    let (_, tx) = nic.halves();
    tx.send(100, &[], Offload::None, |_| ()).unwrap();
    tx.flush();
    let reset = (0..6).any(|_| {
        hardware.0.advance(Duration::from_secs(1));
        nic.service(Causes::LOOK) == Some(Event::Reset)
    });
    assert!(reset);
    assert_eq!(did.take(), ["down", "hand-off"]);

    // One that has started anew runs nothing that could.
    command(&hardware, "fault parity");
    hardware.0.device(|card| {
        use uniperf_nic_models::Device;
        card.config_mut().set_command(0b110);
    });
    assert_eq!(nic.service(Causes::LOOK | Causes::BUS), Some(Event::Reset));
    assert_eq!(did.take(), ["hand-off"]);
}

#[test]
fn to_stop_waits_for_the_card_whoever_holds_the_token_and_however_long_it_gathers() {
    for claimed in [false, true] {
        let (hardware, mut nic) = start();
        nic.unmask();
        nic.throttle(2);
        if claimed {
            hardware.0.receive(&frame(100));
            hardware.0.advance(Duration::from_secs(1));
            handle(&hardware, &nic).unwrap();
        }
        nic.stop();
        assert!(nic.interrupts.is_down(), "{claimed}");
        assert!(!nic.interrupts.is_raised());
        assert_eq!(hardware.0.complaints(), "");
    }
    // One that never says so ends the wait.
    let (hardware, mut nic) = start();
    command(&hardware, "fault silent");
    nic.stop();
    assert!(!nic.interrupts.is_down());
}

#[test]
fn a_card_whose_memory_forgets_is_found_out() {
    /// A card whose SRAM loses a bit of what is written at one place.
    #[derive(Clone)]
    struct Forgetful(Hardware);

    // SAFETY: as for `Hardware`.
    unsafe impl Send for Forgetful {}

    impl Registers for Forgetful {
        fn read32(&self, offset: usize) -> u32 {
            self.0.read32(offset)
        }

        fn write32(&self, offset: usize, value: u32) {
            self.0.write32(offset, value);
        }
    }

    impl Window for Forgetful {
        fn copy_to(&self, offset: usize, words: &[u64]) {
            self.0.copy_to(offset, words);
        }

        fn copy_from(&self, offset: usize, words: &mut [u64]) {
            self.0.copy_from(offset, words);
            if offset == (1 << 20) + 0x300 {
                words[5] &= !(1 << 40);
                words[6] ^= 1 << 3;
            }
        }

        fn fence(&self) {}

        fn delay_us(&self, microseconds: u32) {
            Window::delay_us(&self.0, microseconds);
        }
    }

    let hardware = plugged(Variant::Aligned);
    let mut platform = hardware.clone();
    let window = Forgetful(hardware);
    let error = Myri10ge::start(window, &mut platform, 8, None, Some(both()), SMALL).err();
    assert!(matches!(error, Some(Error::Load(LoadError::Corrupt(_)))));
    assert!(
        error
            .unwrap()
            .to_string()
            .contains("its memory or the bus is faulty")
    );
}
