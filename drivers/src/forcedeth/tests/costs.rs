//! Accesses to registers: each is a few hundred nanoseconds in which the CPU does nothing,
//! and much more in a virtual machine.

use super::*;

fn counted(generation: Generation) -> (Counted, Forcedeth<Counted>) {
    let registers = Counted(plugged(generation), Rc::default());
    let hardware = &registers.0;
    let mut nic = Forcedeth::start(
        registers.clone(),
        &mut hardware.clone(),
        generation.device_id(),
        generation.revision(),
        SMALL,
    )
    .unwrap();
    hardware.0.advance(NEGOTIATION);
    nic.service(Causes::LINK);
    (registers, nic)
}

#[test]
fn a_frame_costs_a_doorbell_and_no_other_access() {
    for generation in Generation::ALL {
        let (registers, mut nic) = counted(generation);
        for _ in 0..8 {
            registers.0.0.receive(&frame(60));
        }
        let poll = registers.during(|| {
            assert!(nic.halves().0.pending());
            assert_eq!(nic.halves().0.poll(64, |_| {}), 8);
        });
        let send = registers.during(|| {
            for _ in 0..8 {
                let (_, tx) = nic.halves();
                tx.send(60, &[], Offload::None, |buffer| buffer.fill(0xff))
                    .unwrap();
            }
            nic.halves().1.flush();
            nic.halves().1.flush();
        });
        let reclaim = registers.during(|| assert_eq!(nic.halves().1.reclaim(), 8));
        assert_eq!((poll, send, reclaim), (0, 1, 0), "{generation}");
    }
}

#[test]
fn an_interrupt_costs_few_accesses() {
    for generation in Generation::ALL {
        let (registers, mut nic) = counted(generation);
        let handle = nic.interrupt();
        nic.mask();
        let unmask = registers.during(|| nic.unmask());
        registers.0.0.receive(&frame(60));
        let claim = registers.during(|| assert!(handle.claim().is_some()));
        assert!(unmask <= 2 && claim <= 4, "{generation}: {unmask}, {claim}");
    }
}

#[test]
fn a_look_that_finds_nothing_new_is_cheap() {
    for generation in Generation::ALL {
        let (registers, mut nic) = counted(generation);
        nic.service(Causes::LOOK);
        let look = registers.during(|| assert_eq!(nic.service(Causes::LOOK), None));
        assert!(look <= 15, "{generation}: {look}");
    }
}

#[test]
fn a_nic_that_does_not_stop_is_not_waited_for_while_the_loop_waits() {
    let (registers, mut nic) = counted(Generation::Mcp55);
    let hardware = &registers.0.0;
    hardware.command("fault busy").unwrap();
    hardware.command("link 100 full").unwrap();
    hardware.advance(NEGOTIATION);
    let change = registers.during(|| assert!(nic.service(Causes::LINK).is_some()));
    assert!(change < 120_000, "{change}");
}
