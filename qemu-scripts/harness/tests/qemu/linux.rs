//! The Linux guest, with which the figures are compared.

use uniperf_harness::{Appliance, Machine, Netperf, Network, Test, linux_guest};

#[test]
fn a_linux_guest_answers_the_same_client() {
    let machine = Machine {
        memory: linux_guest::MEMORY,
        ..Machine::default()
    };
    let (image, machine) = linux_guest::prepare(machine).unwrap();
    let (mut linux, ready) = Appliance::boot(&image, &machine, Network::tap().unwrap()).unwrap();
    for test in Test::ALL {
        let result = Netperf::new(&linux, ready).run(test).unwrap();
        println!("{test}: {:.2}", result.throughput);
        result.check().unwrap();
    }
    assert!(linux.power_off().unwrap().success());
}
