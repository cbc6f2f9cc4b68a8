//! A contestant that runs, and what is measured of it.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::case::{Case, Contestant, VISIT};
use super::crowd::{Crowd, Pattern, Until};
use super::ping::{self, PingResult, REFLECTOR_PORT};
use crate::machine::{Image, Machine};
use crate::measure::{Boot, Guest, Netserver};
use crate::netperf::{Netperf, NetperfResult, Test};
use crate::network::{CONTROL_PORT, Network};

/// What a piece of work may take under `--icount`, whose length is not in seconds.
const PATIENCE: Duration = Duration::from_secs(120);
const CONSOLE_TIMEOUT: Duration = Duration::from_secs(20);
const KIB: f64 = 1024.0;

/// How long a measurement takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// By the clock.
    Time(Duration),
    /// By the work done, for so many times [`Case::amount`]; pings take so many
    /// seconds. Instructions are counted.
    Work(u64),
}

/// What one measurement found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// Transactions or 10^6 bits a second, by this machine's clock. Not under
    /// `--icount`, where the guest's clock is another.
    pub rate: Option<f64>,
    /// Percent of the remote CPU, as netperf says.
    pub remote_cpu: Option<f64>,
    /// µs of the remote CPU a transaction or a KB, as netperf says.
    pub service_demand: Option<f64>,
    /// Guest instructions a transaction or a KB.
    pub instructions: Option<f64>,
    /// Frames that the guest received for each transaction.
    pub frames: Option<f64>,
    /// What a ping found.
    pub ping: Option<PingResult>,
}

/// A contestant that runs; ended when it is dropped.
pub struct Target {
    contestant: Contestant,
    subject: Subject,
}

enum Subject {
    Guest(Box<Guest>),
    Host(Box<Network>, Netserver),
}

impl Target {
    /// Boots `image` in `machine`, in a namespace and on a tap of its own.
    pub fn boot(contestant: Contestant, image: &Image, machine: &Machine) -> Result<(Self, Boot)> {
        let (guest, boot) = Guest::boot(image, machine)?;
        let subject = Subject::Guest(Box::new(guest));
        Ok((
            Self {
                contestant,
                subject,
            },
            boot,
        ))
    }

    /// Starts netserver in a namespace whose loopback it is reached by.
    pub fn host() -> Result<Self> {
        let mut network = Network::tap()?;
        // netperf believes in no address where the loopback is all there is.
        network.as_tap_mut()?.tap(0)?;
        let netserver = Netserver::start(&network)?;
        Ok(Self {
            contestant: Contestant::Host,
            subject: Subject::Host(Box::new(network), netserver),
        })
    }

    /// The line of the console that begins with `prefix`, without it.
    pub fn console_line(&self, prefix: &str) -> Option<String> {
        match &self.subject {
            Subject::Guest(guest) => guest.console_line(prefix),
            Subject::Host(..) => None,
        }
    }

    fn network(&self) -> &Network {
        match &self.subject {
            Subject::Guest(guest) => guest.network(),
            Subject::Host(network, _) => network,
        }
    }

    fn endpoint(&self) -> (IpAddr, u16) {
        match &self.subject {
            Subject::Guest(guest) => guest.endpoint(),
            Subject::Host(..) => (Ipv4Addr::LOCALHOST.into(), CONTROL_PORT),
        }
    }

    /// Runs `case` once.
    pub fn measure(&mut self, case: Case, extent: Extent) -> Result<Sample> {
        let measured = match extent {
            Extent::Time(length) => self.measure_rate(case, length),
            Extent::Work(times) => self.measure_instructions(case, times),
        };
        let contestant = self.contestant;
        measured.with_context(|| format!("{case} with {contestant}"))
    }

    fn measure_rate(&self, case: Case, length: Duration) -> Result<Sample> {
        let Case::Netperf(test) = case else {
            let ping = self.ping(case, length)?;
            return Ok(Sample {
                rate: Some(ping.rate()),
                ping: Some(ping),
                ..Sample::default()
            });
        };
        let result = self.netperf(case).length(length).run(test)?;
        result.check()?;
        let rate = match test {
            // What was received counts, and not what was sent into the void.
            Test::UdpStream => result.received_throughput.context("no received rate")?,
            _ => result.throughput,
        };
        Ok(Sample {
            rate: Some(rate),
            remote_cpu: Some(result.remote_cpu),
            service_demand: Some(result.remote_service_demand),
            ..Sample::default()
        })
    }

    /// The guest's busy time over the whole of a netperf run, its control
    /// connection included, by the work that the run did.
    fn measure_instructions(&mut self, case: Case, times: u64) -> Result<Sample> {
        let before = self.busy_instructions()?;
        let (work, ping) = match case {
            Case::Netperf(test) => {
                let amount = case.amount() * times;
                let netperf = match test {
                    // The datagram that tells its end may be lost, so it has to end
                    // by the clock.
                    Test::UdpStream => self.netperf(case).length(Duration::from_secs(times)),
                    _ => self.netperf(case).length(PATIENCE).amount(amount),
                };
                (work_done(&netperf.run(test)?, amount)?, None)
            }
            _ => {
                let ping = self.ping(case, Duration::from_secs(times))?;
                (ping.transactions as f64, Some(ping))
            }
        };
        let busy = self.busy_instructions()?.saturating_sub(before);
        ensure!(work > 0.0, "no work was done");
        Ok(Sample {
            instructions: Some(busy as f64 / work),
            ping,
            ..Sample::default()
        })
    }

    /// A crowd of clients that will go to it.
    pub fn crowd(&self) -> Result<Crowd> {
        let control = self.endpoint().into();
        self.network().enter(|| Crowd::new(control))?
    }

    /// Opens tests until there are `count` clients.
    pub fn grow(&self, crowd: &mut Crowd, count: usize) -> Result<()> {
        self.network().enter(|| crowd.grow(count))?
    }

    /// Has the crowd send requests as `case` says, one at a time.
    pub fn measure_crowd(
        &mut self,
        crowd: &mut Crowd,
        case: Case,
        extent: Extent,
    ) -> Result<Sample> {
        let until = match extent {
            Extent::Time(length) => Until::Time(length),
            Extent::Work(times) => Until::Count(case.amount() * times),
        };
        let pattern = Pattern {
            in_flight: 1,
            visit: match case {
                Case::Scattered(_) => 1,
                _ => VISIT,
            },
        };
        let counts = matches!(extent, Extent::Work(_));
        let busy = |target: &mut Self| match counts {
            true => target.busy_instructions(),
            false => Ok(0),
        };
        let (before, frames_before) = (busy(self)?, self.frames_to_guest()?);
        let result = crowd.run(pattern, until)?;
        let frames = self.frames_to_guest()? - frames_before;
        let busy = busy(self)?.saturating_sub(before);
        let transactions = result.transactions as f64;
        Ok(Sample {
            rate: (!counts).then(|| result.rate()),
            instructions: counts.then(|| busy as f64 / transactions),
            frames: Some(frames as f64 / transactions),
            ..Sample::default()
        })
    }

    /// Frames that went to the guest so far.
    fn frames_to_guest(&self) -> Result<u64> {
        let table = || std::fs::read_to_string("/proc/thread-self/net/dev");
        let table = self.network().enter(table)??;
        sent_by(&table, "tap0").context("the kernel does not count the tap's frames")
    }

    fn netperf(&self, case: Case) -> Netperf<'_> {
        let (host, port) = self.endpoint();
        let arguments = case.arguments();
        Netperf::at(self.network(), host, port).test_arguments(arguments.iter().map(String::as_str))
    }

    fn ping(&self, case: Case, length: Duration) -> Result<PingResult> {
        let (host, control) = self.endpoint();
        let reflects = self.contestant == Contestant::Reflect;
        self.network().enter(|| match case {
            Case::PingUdp(bytes) if reflects => {
                ping::udp((host, REFLECTOR_PORT).into(), bytes, length)
            }
            Case::PingUdp(bytes) => ping::netperf_udp((host, control).into(), bytes, length),
            Case::PingEthernet(bytes) => ping::ethernet(bytes, length),
            _ => bail!("{case} is no ping"),
        })?
    }

    /// Nanoseconds, which are instructions under `-icount shift=0`, that the guest's
    /// CPU has been busy since it started: all time that it did not wait for an
    /// interrupt.
    fn busy_instructions(&mut self) -> Result<u64> {
        match (&mut self.subject, self.contestant) {
            (Subject::Guest(guest), Contestant::Linux) => linux_busy(guest),
            (Subject::Guest(guest), _) => appliance_busy(guest),
            (Subject::Host(..), _) => bail!("this machine's instructions cannot be counted"),
        }
    }

    /// Switches it off.
    pub fn end(self) -> Result<()> {
        match self.subject {
            Subject::Guest(guest) => guest.end(),
            Subject::Host(_, netserver) => netserver.end(),
        }
    }

    /// Its console, for a failure.
    pub fn logs(&self) -> String {
        match &self.subject {
            Subject::Guest(guest) => guest.logs(),
            Subject::Host(..) => String::new(),
        }
    }
}

/// Frames that an interface has sent, by /proc/net/dev.
fn sent_by(table: &str, interface: &str) -> Option<u64> {
    let line = table.lines().find_map(|line| {
        let (name, counts) = line.split_once(':')?;
        (name.trim() == interface).then_some(counts)
    })?;
    // Eight columns are of what was received; then bytes and frames sent.
    line.split_whitespace().nth(9)?.parse().ok()
}

/// Transactions or KB that a run of `amount` transactions or bytes has done.
fn work_done(result: &NetperfResult, amount: u64) -> Result<f64> {
    let bytes = match result.test {
        Test::TcpStream | Test::UdpStream => result.remote_bytes_received,
        Test::TcpMaerts => result.local_bytes_received,
        // Its table does not say; it ends when all has been sent and taken.
        Test::TcpSendfile => Some(amount),
        Test::TcpRr | Test::TcpCrr | Test::UdpRr => return Ok(amount as f64),
    };
    Ok(bytes.context("netperf does not say how many bytes")? as f64 / KIB)
}

/// From the appliance's counters. Its clock is the time-stamp counter, one tick of
/// which is one instruction.
fn appliance_busy(guest: &mut Guest) -> Result<u64> {
    let counters = guest.counters()?;
    let counter = |name: &str| {
        let value = counters.get(name);
        value.with_context(|| format!("there is no counter {name}"))
    };
    let frequency = counter("cpu.cycles_per_second")?;
    ensure!(
        (990_000_000..=1_010_000_000).contains(&frequency),
        "the guest's CPU runs at {frequency} Hz: instructions are not counted"
    );
    Ok(counter("cpu.cycles")? - counter("cpu.idle_cycles")?)
}

/// From the Linux guest's own books: its clock, less the time that its CPU was in
/// the idle loop, exact to the nanosecond as its tick stops there.
fn linux_busy(guest: &mut Guest) -> Result<u64> {
    let question = "grep -E 'now at|idle_sleep' /proc/timer_list";
    let text = guest.shell(question, CONSOLE_TIMEOUT)?;
    busy_by_timer_list(&text).with_context(|| format!("/proc/timer_list has no such lines: {text}"))
}

fn busy_by_timer_list(text: &str) -> Option<u64> {
    let value = |word: &str| -> Option<u64> {
        let line = text
            .lines()
            .rfind(|line| line.contains("nsecs") && line.contains(word))?;
        line.split_whitespace().find_map(|word| word.parse().ok())
    };
    value("now at")?.checked_sub(value("idle_sleeptime")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linux_was_busy_when_it_was_not_idle() {
        let text = "/ # grep -E 'now at|idle_sleep' /proc/timer_list; echo end $((40+2))\n\
            now at 5601645044 nsecs\n  .idle_sleeptime : 1748276298 nsecs";
        assert_eq!(busy_by_timer_list(text), Some(3_853_368_746));
        assert_eq!(busy_by_timer_list("now at 5 nsecs"), None);
        assert_eq!(busy_by_timer_list(""), None);
    }

    #[test]
    fn frames_are_those_that_the_tap_has_sent() {
        let table = "Inter-|   Receive         |  Transmit\n face |bytes packets\n\
            \x20   lo:    0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n\
            \x20 tap0: 1 2 3 4 5 6 7 8 900 10 0 0 0 0 0 0\n";
        assert_eq!(sent_by(table, "tap0"), Some(10));
        assert_eq!(sent_by(table, "tap1"), None);
    }

    #[test]
    fn work_is_what_arrived() {
        let output = "ELAPSED_TIME=1.00\nTHROUGHPUT=2.0\nREMOTE_RECV_THROUGHPUT=1.0\n\
            LOCAL_CPU_UTIL=1.0\nREMOTE_CPU_UTIL=1.0\nLOCAL_SD=1.0\nREMOTE_SD=1.0\n\
            LOCAL_BYTES_SENT=4096\nLOCAL_BYTES_RECVD=0\nREMOTE_BYTES_SENT=0\n\
            REMOTE_BYTES_RECVD=2048\n";
        let result = NetperfResult::from_selectors(Test::UdpStream, output).unwrap();
        assert_eq!(work_done(&result, 4096).unwrap(), 2.0);
        let result = NetperfResult::from_selectors(Test::TcpRr, output).unwrap();
        assert_eq!(work_done(&result, 700).unwrap(), 700.0);
    }
}
