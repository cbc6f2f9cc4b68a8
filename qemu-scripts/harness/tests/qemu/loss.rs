//! A wire that loses, delays, repeats, reorders and corrupts frames.

use std::time::Duration;

use uniperf_harness::{
    Appliance, ImpairCounts, ImpairedLink, Impairment, Machine, Netperf, Network, Ready, Test,
    linux_guest,
};

use crate::rig::Rig;

/// Each way, so that a round trip takes ten.
const DELAY: Duration = Duration::from_millis(5);
const MESSAGE: u64 = 16384;
/// What a frame of a stream carries, with time stamps in its header.
const SEGMENT: u64 = 1448;
/// Beyond what netperf takes: handshakes wait a second and more for each loss.
const PATIENCE: Duration = Duration::from_secs(60);

/// A loss rate, and how much is sent over a wire that has it.
struct Load {
    loss: f64,
    bytes: u64,
    transactions: u64,
}

const LOADS: [Load; 3] = [
    Load {
        loss: 0.001,
        bytes: 1024 * MESSAGE,
        transactions: 100,
    },
    Load {
        loss: 0.01,
        bytes: 256 * MESSAGE,
        transactions: 100,
    },
    Load {
        loss: 0.05,
        bytes: 128 * MESSAGE,
        transactions: 150,
    },
];

/// A network whose wire is still perfect.
fn wire() -> Network {
    let mut network = Network::tap().unwrap();
    network.as_tap_mut().unwrap().impair().unwrap();
    network
}

fn link(guest: &Appliance) -> &ImpairedLink {
    guest.network().as_tap().unwrap().link().unwrap()
}

/// Makes both directions of the wire the same.
fn set(guest: &Appliance, impairment: Impairment, seed: u64) {
    link(guest).set(impairment, impairment, seed).unwrap();
}

/// Sends so many bytes or transactions, finds that both sides count the same, and
/// that the guest has not sent much more than it takes. Returns the throughput.
fn transfer(guest: &Appliance, ready: Ready, test: Test, amount: u64) -> f64 {
    let before = (link(guest).to_guest(), link(guest).from_guest());
    let netperf = Netperf::new(guest, ready).length(PATIENCE).amount(amount);
    let netperf = match test {
        Test::TcpRr => netperf,
        _ => netperf.test_arguments(["-m", "16384", "-M", "16384"]),
    };
    let result = netperf.run(test).unwrap();
    match test {
        Test::TcpStream => {
            assert_eq!(result.local_bytes_sent, Some(amount));
            assert_eq!(result.remote_bytes_received, Some(amount));
        }
        Test::TcpMaerts => {
            assert_eq!(result.remote_bytes_sent, Some(amount));
            assert_eq!(result.local_bytes_received, Some(amount));
        }
        _ => {}
    }
    let to = link(guest).to_guest().since(&before.0);
    let from = link(guest).from_guest().since(&before.1);
    println!(
        "{test}: {:.2} in {:.2} s\n  to it {to:?}\n  from it {from:?}",
        result.throughput, result.elapsed
    );
    assert!(2 * from.taken <= 3 * needed(test, amount, &to), "a storm");
    result.throughput
}

/// How many frames a guest may send where no data is lost: the data, or an
/// acknowledgement of each frame that came; and some for connections and commands.
fn needed(test: Test, amount: u64, to: &ImpairCounts) -> u64 {
    100 + match test {
        Test::TcpMaerts => amount.div_ceil(SEGMENT),
        _ => to.delivered,
    }
}

/// Which frames are lost: a lost SYN alone costs a second, so one seed says little.
const SEEDS: [u64; 3] = [1, 2, 3];

/// Throughputs of the three tests over a wire that loses so much each way: the
/// medians over the seeds.
fn measure(guest: &Appliance, ready: Ready, load: &Load) -> [f64; 3] {
    let impairment = Impairment {
        loss: load.loss,
        delay: DELAY,
        ..Impairment::default()
    };
    let tests = [
        (Test::TcpStream, load.bytes),
        (Test::TcpMaerts, load.bytes),
        (Test::TcpRr, load.transactions),
    ];
    tests.map(|(test, amount)| {
        let mut throughputs = SEEDS.map(|seed| {
            set(guest, impairment, seed);
            transfer(guest, ready, test, amount)
        });
        throughputs.sort_by(f64::total_cmp);
        throughputs[SEEDS.len() / 2]
    })
}

#[test]
fn all_arrives_over_a_wire_that_loses() {
    let mut rig = Rig::on(Machine::default(), wire());
    let own = LOADS
        .each_ref()
        .map(|load| measure(&rig.appliance, rig.ready, load));
    set(&rig.appliance, Impairment::default(), 1);
    rig.is_well();
    rig.end();

    let machine = Machine {
        memory: linux_guest::MEMORY,
        ..Machine::default()
    };
    let (image, machine) = linux_guest::prepare(machine).unwrap();
    let (mut linux, ready) = Appliance::boot(&image, &machine, wire()).unwrap();
    let others = LOADS.each_ref().map(|load| measure(&linux, ready, load));
    assert!(linux.power_off().unwrap().success());

    for ((load, own), other) in LOADS.iter().zip(own).zip(others) {
        for ((test, own), other) in ["TCP_STREAM", "TCP_MAERTS", "TCP_RR"]
            .into_iter()
            .zip(own)
            .zip(other)
        {
            let (loss, ratio) = (load.loss * 100.0, own / other);
            println!("{loss} % lost, {test}: {own:.2}, Linux {other:.2}, ratio {ratio:.2}");
        }
    }
}

#[test]
fn all_arrives_over_a_wire_that_repeats_reorders_and_corrupts() {
    let mut rig = Rig::on(Machine::default(), wire());
    // What the host said before the guest was there was refused.
    let counts = |rig: &Rig| {
        let link = link(&rig.appliance);
        (link.to_guest(), link.from_guest())
    };
    let before = counts(&rig);
    let delayed = Impairment {
        delay: Duration::from_millis(1),
        lateness: Duration::from_millis(2),
        ..Impairment::default()
    };
    let wires = [
        Impairment {
            duplicate: 0.05,
            ..delayed
        },
        Impairment {
            late: 0.02,
            ..delayed
        },
        Impairment {
            corrupt: 0.01,
            ..delayed
        },
        Impairment {
            duplicate: 0.01,
            late: 0.01,
            corrupt: 0.005,
            loss: 0.005,
            ..delayed
        },
    ];
    for (seed, impairment) in wires.into_iter().enumerate() {
        println!("-- {impairment:?}");
        set(&rig.appliance, impairment, seed as u64);
        transfer(&rig.appliance, rig.ready, Test::TcpStream, 512 * MESSAGE);
        transfer(&rig.appliance, rig.ready, Test::TcpMaerts, 32 * MESSAGE);
        transfer(&rig.appliance, rig.ready, Test::TcpRr, 100);
    }
    set(&rig.appliance, Impairment::default(), 0);
    let after = counts(&rig);
    let (to, from) = (after.0.since(&before.0), after.1.since(&before.1));
    for counts in [to, from] {
        assert!(counts.duplicated > 0 && counts.late > 0 && counts.corrupted > 0);
        assert_eq!(counts.refused, 0);
    }
    // What was changed under way was found out, by the checksum or before it.
    let bad: u64 = ["checksum", "truncated", "malformed", "not_ours", "protocol"]
        .iter()
        .map(|reason| rig.counter(&format!("drop.{reason}")))
        .sum();
    println!("{bad} bad frames dropped, {} corrupted", to.corrupted);
    assert!(bad > 0 && bad <= 2 * to.corrupted);
    rig.is_well();
    rig.end();
}
