//! An appliance under test.

use std::time::{Duration, Instant};

use uniperf_harness::{
    Appliance, Counters, Image, Machine, Netperf, NetperfResult, Network, NicModel, Ready, Test,
};

/// How long connections of dead clients may stay: the stack gives up on a silent
/// peer after its keep-alive and retransmission times, and holds TIME-WAIT.
const REST_TIMEOUT: Duration = Duration::from_secs(120);

/// How long frames may be under way.
const COUNTER_TIMEOUT: Duration = Duration::from_secs(5);

/// An appliance that is ready, and its counters from before anything happened.
pub struct Rig {
    pub appliance: Appliance,
    pub ready: Ready,
    rest: Counters,
}

impl Rig {
    /// On a tap, with one e1000 and 64 MiB.
    pub fn new() -> Self {
        Self::with(Machine::default())
    }

    /// `machine` on a tap.
    pub fn with(machine: Machine) -> Self {
        Self::on(machine, Network::tap().unwrap())
    }

    /// `machine` on `network`.
    pub fn on(machine: Machine, network: Network) -> Self {
        let image = Image::built().unwrap();
        let (mut appliance, ready) = Appliance::boot(&image, &machine, network).unwrap();
        let rest = appliance.counters().unwrap().resting();
        Self {
            appliance,
            ready,
            rest,
        }
    }

    pub fn netperf(&self) -> Netperf<'_> {
        Netperf::new(&self.appliance, self.ready)
    }

    /// Runs one test of one second, and looks at its figures.
    pub fn run(&self, test: Test) -> NetperfResult {
        let result = self.netperf().run(test).unwrap();
        result.check().unwrap();
        println!(
            "{test}: {:.2}, remote CPU {:.1} %, {:.3} us",
            result.throughput, result.remote_cpu, result.remote_service_demand
        );
        result
    }

    /// The next netperf runs normally, and nothing is lost.
    pub fn is_well(&mut self) {
        self.run(Test::TcpRr);
        self.run(Test::TcpStream);
        self.is_at_rest();
    }

    /// All buffers and sockets are free again.
    pub fn is_at_rest(&mut self) {
        let now = self
            .appliance
            .wait_for_rest(&self.rest, REST_TIMEOUT)
            .unwrap();
        println!("at rest: {:?}", now.0);
    }

    /// What a counter says.
    pub fn counter(&mut self, name: &str) -> u64 {
        let counters = self.appliance.counters().unwrap();
        counters
            .get(name)
            .unwrap_or_else(|| panic!("there is no counter {name}"))
    }

    /// Waits until a counter has reached `value`.
    pub fn wait_for_counter(&mut self, name: &str, value: u64) {
        let begin = Instant::now();
        let mut now = self.counter(name);
        while now < value {
            assert!(begin.elapsed() < COUNTER_TIMEOUT, "{name} stays at {now}");
            std::thread::sleep(Duration::from_millis(100));
            now = self.counter(name);
        }
        println!("{name}: {now}");
    }

    /// Powers off.
    pub fn end(mut self) {
        let status = self.appliance.power_off().unwrap();
        assert!(status.success(), "power-off ends with {status}");
    }
}

/// A machine with these boot arguments.
pub fn append(arguments: &str) -> Machine {
    Machine {
        append: arguments.to_owned(),
        ..Machine::default()
    }
}

/// A machine with these NICs and boot arguments.
pub fn nics(nics: &[NicModel], arguments: &str) -> Machine {
    Machine {
        nics: nics.to_vec(),
        ..append(arguments)
    }
}
