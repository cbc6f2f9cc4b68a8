//! Many netperf streams at once, and what they move together once all of them flow.

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, anyhow, bail, ensure};
use serde_json::Value;

use crate::measure::Guest;
use crate::netperf::{Netperf, Test};
use crate::process::{Log, Running};

/// How often each netperf says how far it is, in seconds; below 0, as it then looks at
/// its clock after every call and does not guess when the time has come. A stream that
/// says nothing has moved nothing.
const INTERIM: &str = "-0.25";
/// What it begins these lines with.
const INTERIM_LINE: &str = "Interim result:";
/// How long it may take until all of them flow: where the tap is full, connections
/// begin with lost segments.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// After this an interim result has come that reaches up to the present.
const LAST_INTERIM: Duration = Duration::from_millis(400);
/// How long a wire may take to fall silent when nobody sends any more.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(20);
/// How often to look whether it is, and what may pass meanwhile.
const SILENCE_LOOK: Duration = Duration::from_millis(100);
const SILENCE: u64 = 10_000;

/// Which way a stream flows, as the guest sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The guest sends.
    Tx,
    /// The guest receives.
    Rx,
}

/// A moment, in seconds since 1970 by this machine's clock, as netperf says it.
pub type Moment = f64;

/// Streams that flow; ended when this is dropped.
pub struct Streams(Vec<(Way, Client)>);

struct Client {
    netperf: Running,
    output: Log,
    complaints: Log,
}

impl Streams {
    /// Starts `tx` streams from the guest and `rx` to it, in turn, to be measured for
    /// `length`, and waits until all of them flow.
    pub fn start(guest: &Guest, tx: u32, rx: u32, length: Duration) -> Result<Self> {
        let longest = START_TIMEOUT + length + SILENCE_TIMEOUT;
        let mut streams = Vec::new();
        for number in 0..tx.max(rx) {
            let ways = [(Way::Tx, tx), (Way::Rx, rx)];
            for (way, _) in ways.into_iter().filter(|(_, count)| number < *count) {
                streams.push((way, Client::start(guest, way, longest)?));
            }
        }
        for (_, client) in &streams {
            let interim = |line: &str| line.starts_with(INTERIM_LINE);
            let wait = client.output.wait_for(0, START_TIMEOUT, "stream", interim);
            wait.map_err(|error| client.explain(error))?;
        }
        Ok(Self(streams))
    }

    /// Ends all of them by force, as they would not end together by themselves, and
    /// waits until nothing flows any more. Returns what flowed when.
    pub fn end(self, guest: &Guest) -> Result<Flows> {
        std::thread::sleep(LAST_INTERIM);
        let mut flows = Vec::new();
        for (way, mut client) in self.0 {
            if let Some(status) = client.netperf.try_wait()? {
                bail!(client.explain(anyhow!("netperf ended too soon, with {status}")));
            }
            client.netperf.kill()?;
            flows.push((way, client.intervals()));
        }
        wait_for_silence(guest)?;
        Ok(Flows(flows))
    }
}

/// Waits until hardly a byte passes the tap.
fn wait_for_silence(guest: &Guest) -> Result<()> {
    let deadline = Instant::now() + SILENCE_TIMEOUT;
    let mut before = TapCounts::of(guest)?;
    loop {
        std::thread::sleep(SILENCE_LOOK);
        let now = TapCounts::of(guest)?;
        if now.bytes - before.bytes < SILENCE {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "streams do not end");
        before = now;
    }
}

/// What passed the tap, and what did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TapCounts {
    /// Bytes, both ways.
    pub bytes: u64,
    /// Frames to the guest that found the queue full.
    pub dropped: u64,
}

impl TapCounts {
    /// Looks at the guest's tap.
    pub fn of(guest: &Guest) -> Result<Self> {
        let namespace = guest.network().as_tap()?.namespace();
        let text = namespace.ip(&["-s", "-j", "link", "show", "dev", "tap0"])?;
        Self::parse(&text).with_context(|| format!("no such counts in {text}"))
    }

    fn parse(text: &str) -> Option<Self> {
        let links: Value = serde_json::from_str(text).ok()?;
        let counts = &links[0]["stats64"];
        let count = |way: &str, what: &str| counts[way][what].as_u64();
        Some(Self {
            bytes: count("rx", "bytes")? + count("tx", "bytes")?,
            dropped: count("tx", "dropped")?,
        })
    }
}

impl Client {
    fn start(guest: &Guest, way: Way, longest: Duration) -> Result<Self> {
        let test = match way {
            Way::Tx => Test::TcpMaerts,
            Way::Rx => Test::TcpStream,
        };
        let (host, port) = guest.endpoint();
        let seconds = longest.as_secs().to_string();
        let arguments = ["-t", test.name(), "-l", &seconds, "-D", INTERIM];
        let mut command = Netperf::at(guest.network(), host, port).command(arguments);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut netperf = Running::start(&mut command)?;
        let stdout = netperf.take_stdout().context("no output")?;
        let stderr = netperf.take_stderr().context("no output")?;
        Ok(Self {
            netperf,
            output: Log::follow(stdout),
            complaints: Log::follow(stderr),
        })
    }

    fn intervals(&self) -> Vec<Interval> {
        let lines = self.output.since(0);
        let lines = lines.iter().map(String::as_str);
        lines.filter_map(Interval::parse).collect()
    }

    fn explain(&self, error: Error) -> Error {
        let said = format!("{} {}", self.output.text(), self.complaints.text());
        error.context(format!("netperf says: {}", said.trim()))
    }
}

/// What one stream moved in a part of its time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    begin: Moment,
    end: Moment,
    /// 10^6 bit a second.
    rate: f64,
}

impl Interval {
    fn parse(line: &str) -> Option<Self> {
        let words: Vec<_> = line
            .strip_prefix(INTERIM_LINE)?
            .split_whitespace()
            .collect();
        let number = |index: usize| words.get(index)?.parse::<f64>().ok();
        let known = words.get(1) == Some(&"10^6bits/s") && words.get(2) == Some(&"over");
        let (rate, seconds, end) = (number(0)?, number(3)?, number(7)?);
        known.then_some(Self {
            begin: end - seconds,
            end,
            rate,
        })
    }

    /// 10^6 bit that moved between `begin` and `end`.
    fn within(&self, begin: Moment, end: Moment) -> f64 {
        let shared = self.end.min(end) - self.begin.max(begin);
        self.rate * shared.max(0.0)
    }
}

/// What all streams moved.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Flows(Vec<(Way, Vec<Interval>)>);

impl Flows {
    /// Seconds between the first and the last stream's start.
    pub fn skew(&self) -> f64 {
        let first = self.begins().fold(f64::MAX, f64::min);
        let last = self.begins().fold(f64::MIN, f64::max);
        (last - first).max(0.0)
    }

    fn begins(&self) -> impl Iterator<Item = Moment> {
        let firsts = self.0.iter().filter_map(|(_, intervals)| intervals.first());
        firsts.map(|first| first.begin)
    }

    /// 10^6 bit a second of all streams of one way together, between `begin` and `end`.
    pub fn rate(&self, way: Way, begin: Moment, end: Moment) -> f64 {
        let streams = self.0.iter().filter(|(its, _)| *its == way);
        let intervals = streams.flat_map(|(_, intervals)| intervals);
        let moved: f64 = intervals.map(|interval| interval.within(begin, end)).sum();
        moved / (end - begin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(begin: f64, end: f64, rate: f64) -> Interval {
        Interval { begin, end, rate }
    }

    #[test]
    fn interim_results_are_read_and_other_lines_are_not() {
        let line = "Interim result:  212.48 10^6bits/s over 0.250 seconds ending at 1796074511.750";
        let expected = interval(1_796_074_511.5, 1_796_074_511.75, 212.48);
        assert_eq!(Interval::parse(line), Some(expected));
        for line in [
            "MIGRATED TCP STREAM TEST from 0.0.0.0",
            "Interim result:",
            "Interim result:  212.48 KBytes/s over 0.250 seconds ending at 1796074511.750",
            "Interim result:  many 10^6bits/s over 0.250 seconds ending at 1796074511.750",
        ] {
            assert_eq!(Interval::parse(line), None, "{line}");
        }
    }

    #[test]
    fn the_taps_counts_are_those_of_both_ways() {
        let text = r#"[{"ifname":"tap0","stats64":{"rx":{"bytes":100,"dropped":1},
            "tx":{"bytes":20,"dropped":3}}}]"#;
        let expected = TapCounts {
            bytes: 120,
            dropped: 3,
        };
        assert_eq!(TapCounts::parse(text), Some(expected));
        assert_eq!(TapCounts::parse("[]"), None);
    }

    #[test]
    fn the_sum_is_over_the_time_that_is_asked_for() {
        let flows = Flows(vec![
            (
                Way::Rx,
                vec![interval(10.0, 11.0, 100.0), interval(11.0, 12.0, 300.0)],
            ),
            (Way::Rx, vec![interval(10.5, 12.5, 50.0)]),
            (Way::Tx, vec![interval(10.25, 13.0, 10.0)]),
        ]);
        assert_eq!(flows.skew(), 0.5);
        assert_eq!(flows.rate(Way::Rx, 10.5, 11.5), 250.0);
        assert_eq!(flows.rate(Way::Tx, 10.5, 11.5), 10.0);
        // A stream that stalls counts with what it moved.
        assert_eq!(flows.rate(Way::Tx, 12.0, 14.0), 5.0);
    }
}
