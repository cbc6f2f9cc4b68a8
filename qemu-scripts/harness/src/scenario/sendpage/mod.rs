//! `sendpage-cpu`: what it costs a host to send a file's pages, and to send and receive
//! streams, with TSO and without.

mod report;

use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use super::guests::{Common, Kind, on_off};
use super::{Findings, Scenario};
use crate::machine::{Image, Machine};
use crate::measure::{Guest, Netserver, table::number};
use crate::netperf::{Netperf, NetperfResult, Test};
use crate::network::CONTROL_PORT;

/// The appliance's memory in MiB.
const MEMORY: u32 = 64;
/// This machine's address on the tap.
const HOST: &str = "10.77.0.1";
/// What netperf may take beyond the length of its test.
const SLACK: Duration = Duration::from_secs(30);

/// What to measure.
#[derive(Clone, Debug)]
pub struct SendpageCpu {
    /// As for all scenarios.
    pub common: Common,
    /// With TSO, without, or both.
    pub tso: Vec<bool>,
}

/// A guest as it is booted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Setup {
    /// Who it is.
    pub kind: Kind,
    /// Whether whoever sends may leave the cutting of segments to what is below it.
    pub tso: bool,
}

/// Which end of a stream the guest is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// netperf runs on this machine and sends.
    Receiver,
    /// netperf runs on this machine and receives.
    Sender,
    /// netperf runs in the guest and sends.
    Client,
}

/// One of netperf's tests, in one of the roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Point {
    /// What the guest does.
    pub role: Role,
    /// The test.
    pub test: Test,
}

impl Role {
    /// All of them, in the order of the tables.
    pub const ALL: [Self; 3] = [Self::Receiver, Self::Sender, Self::Client];

    /// netperf's tests in this role.
    pub fn tests(self) -> &'static [Test] {
        match self {
            Self::Receiver | Self::Client => &[Test::TcpSendfile, Test::TcpStream],
            Self::Sender => &[Test::TcpMaerts],
        }
    }

    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Receiver => "receiver",
            Self::Sender => "sender",
            Self::Client => "sending client",
        }
    }

    /// Who has this role: the appliance has no netperf of its own.
    fn is_of(self, kind: Kind) -> bool {
        self != Self::Client || kind == Kind::Linux
    }
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, TSO {}", self.kind, on_off(self.tso))
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} as {}", self.test, self.role.name())
    }
}

impl Scenario for SendpageCpu {
    type Setup = Setup;
    type Point = Point;
    type Sample = NetperfResult;

    const NAME: &'static str = "sendpage-cpu";

    fn common(&self) -> &Common {
        &self.common
    }

    fn setups(&self) -> Vec<Setup> {
        let kinds = self.common.kinds();
        let setups = self.tso.iter().flat_map(|&tso| {
            let setup = move |&kind| Setup { kind, tso };
            kinds.iter().map(setup)
        });
        setups.collect()
    }

    fn points(&self, setup: Setup) -> Vec<Point> {
        let roles = Role::ALL.into_iter().filter(|role| role.is_of(setup.kind));
        let points = roles.flat_map(|role| {
            let point = move |&test| Point { role, test };
            role.tests().iter().map(point)
        });
        points.collect()
    }

    fn kind(&self, setup: Setup) -> Kind {
        setup.kind
    }

    fn guest(&self, setup: Setup) -> Result<(Image, Machine)> {
        let append = format!("tso={}", on_off(setup.tso));
        self.common.guest(setup.kind, MEMORY, &append)
    }

    fn length(&self) -> Duration {
        Duration::from_millis(self.common.seconds * 1000 + 400)
    }

    fn measure(&self, guest: &mut Guest, setup: Setup, point: Point) -> Result<NetperfResult> {
        let length = Duration::from_secs(self.common.seconds);
        let result = match point.role {
            Role::Client => run_in_guest(guest, point.test, length)?,
            Role::Receiver | Role::Sender => {
                segment_here(guest, setup.tso)?;
                let (host, port) = guest.endpoint();
                Netperf::at(guest.network(), host, port)
                    .length(length)
                    .run(point.test)?
            }
        };
        result.check()?;
        Ok(result)
    }

    fn said(&self, sample: &NetperfResult) -> String {
        format!("{} Mbit/s", number(sample.throughput))
    }

    fn tables(&self, findings: &Findings<Self>) -> String {
        report::tables(self, findings)
    }

    fn json(&self, findings: &Findings<Self>) -> (Value, Vec<Value>) {
        report::json(self, findings)
    }

    fn plot(&self, _: &Findings<Self>) -> Result<Option<String>> {
        Ok(None)
    }
}

/// Has this machine's TCP give the tap super-segments, which its kernel cuts before
/// the tap as TSO would, or single ones.
fn segment_here(guest: &Guest, tso: bool) -> Result<()> {
    let segments = if tso { "65535" } else { "1" };
    let namespace = guest.network().as_tap()?.namespace();
    namespace.ip(&["link", "set", "tap0", "gso_max_segs", segments])?;
    Ok(())
}

/// Runs the Linux guest's own netperf against a netserver on this machine.
fn run_in_guest(guest: &mut Guest, test: Test, length: Duration) -> Result<NetperfResult> {
    let netserver = Netserver::start(guest.network())?;
    let command = format!(
        "netperf -H {HOST} -p {CONTROL_PORT} -t {test} -l {} -c -C",
        length.as_secs()
    );
    let text = guest.shell(&command, length + SLACK)?;
    netserver.end()?;
    NetperfResult::from_table(test, &text)
        .with_context(|| format!("cannot read what the guest's `{command}` prints: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::guests::tests::common;

    #[test]
    fn setups_take_turns_and_only_linux_is_a_client() {
        let scenario = SendpageCpu {
            common: common(),
            tso: vec![true, false],
        };
        let setups: Vec<_> = scenario.setups().iter().map(Setup::to_string).collect();
        let expected = [
            "uniperf, TSO on",
            "linux, TSO on",
            "uniperf, TSO off",
            "linux, TSO off",
        ];
        assert_eq!(setups, expected);
        let points = |kind| {
            let points = scenario.points(Setup { kind, tso: true });
            points.iter().map(Point::to_string).collect::<Vec<_>>()
        };
        assert_eq!(
            points(Kind::Uniperf),
            [
                "TCP_SENDFILE as receiver",
                "TCP_STREAM as receiver",
                "TCP_MAERTS as sender",
            ]
        );
        assert_eq!(points(Kind::Linux).len(), 5);
        assert_eq!(points(Kind::Linux)[3], "TCP_SENDFILE as sending client");
    }
}
