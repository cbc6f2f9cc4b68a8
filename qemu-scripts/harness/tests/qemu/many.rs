//! Very many connections at once.

use std::time::Instant;

use uniperf_harness::bench::{Crowd, Pattern, Until};
use uniperf_harness::{CONTROL_PORT, Machine, Test};

use crate::rig::Rig;

/// Clients that fit into the machine's 128 MiB with room to spare.
const CLIENTS: usize = 2000;

fn crowd(rig: &Rig) -> Crowd {
    let control = (rig.ready.address, CONTROL_PORT).into();
    let network = rig.appliance.network();
    network.enter(|| Crowd::new(control)).unwrap().unwrap()
}

fn grow(rig: &Rig, crowd: &mut Crowd, count: usize) -> anyhow::Result<()> {
    rig.appliance.network().enter(|| crowd.grow(count)).unwrap()
}

#[test]
fn thousands_of_clients_are_served_and_leave_nothing() {
    let mut rig = Rig::with(Machine {
        memory: 128,
        ..Machine::default()
    });
    let begin = Instant::now();
    let mut crowd = crowd(&rig);
    grow(&rig, &mut crowd, CLIENTS).unwrap();
    println!("{CLIENTS} clients after {:?}", begin.elapsed());
    assert_eq!(rig.counter("rest.netperf_sessions"), CLIENTS as u64);
    assert_eq!(rig.counter("rest.flows"), 2 * CLIENTS as u64);

    let everybody_twice = Until::Count(2 * CLIENTS as u64);
    for in_flight in [1, 64] {
        let pattern = Pattern {
            in_flight,
            visit: 1,
        };
        let result = crowd.run(pattern, everybody_twice).unwrap();
        println!("{in_flight} at a time: {:.0} transactions/s", result.rate());
    }
    // They are at rest now, and in nobody's way.
    for test in [Test::TcpRr, Test::TcpStream, Test::UdpRr] {
        rig.run(test);
    }
    // The server has counted what the clients did.
    crowd.close().unwrap();
    println!("all gone after {:?}", begin.elapsed());
    rig.is_well();
    rig.end();
}

/// One client too many is told so; the others go on.
#[test]
fn a_crowd_that_does_not_fit_is_refused_in_words() {
    let mut rig = Rig::new();
    let mut crowd = crowd(&rig);
    let refused = grow(&rig, &mut crowd, 10_000).unwrap_err();
    let refused = format!("{refused:#}");
    assert!(refused.contains("refuses"), "{refused}");
    assert!(refused.contains("error 105"), "{refused}");
    let clients = crowd.len();
    println!("{clients} clients fit into 64 MiB: {refused}");
    assert!(clients >= 1000, "{clients}");
    let pattern = Pattern {
        in_flight: 16,
        visit: 1,
    };
    crowd.run(pattern, Until::Count(clients as u64)).unwrap();
    assert!(rig.counter("rest.socket_bytes_left") > 0);
    drop(crowd);
    rig.is_well();
    rig.end();
}
