//! What is measured, and of whom.

use std::fmt;
use std::str::FromStr;

use crate::netperf::Test;

/// Payload bytes of UDP_RR's requests and responses, and of the pings beside it.
const BYTES: usize = 100;
/// Payload bytes of a datagram that fills a frame of Ethernet's.
const DATAGRAM: usize = 1472;

/// Who is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Contestant {
    /// The appliance.
    Uniperf,
    /// The Linux guest.
    Linux,
    /// The appliance's image answering in the receive loop: the ceiling.
    Reflect,
    /// netserver on this machine, over its loopback: what the clients cost.
    Host,
}

impl Contestant {
    /// All of them, in the order they take their turns in.
    pub const ALL: [Self; 4] = [Self::Uniperf, Self::Linux, Self::Reflect, Self::Host];

    /// Its name in tables and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Uniperf => "uniperf",
            Self::Linux => "linux",
            Self::Reflect => "reflect",
            Self::Host => "host",
        }
    }

    /// What is measured of it; with `icount`, where only guests can be.
    pub fn cases(self, icount: bool) -> Vec<Case> {
        let netperf = Case::NETPERF.map(Case::Netperf);
        match self {
            Self::Uniperf | Self::Linux if icount => [&netperf[..], &Case::FLOWS].concat(),
            Self::Uniperf | Self::Linux => {
                [&netperf[..], &[Case::PingUdp(BYTES)], &Case::FLOWS].concat()
            }
            Self::Reflect => vec![
                Case::PingUdp(1),
                Case::PingUdp(BYTES),
                Case::PingEthernet(BYTES),
            ],
            Self::Host if icount => Vec::new(),
            Self::Host => vec![
                Case::Netperf(Test::TcpRr),
                Case::Netperf(Test::UdpRr),
                Case::PingUdp(BYTES),
            ],
        }
    }
}

impl fmt::Display for Contestant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Case {
    /// One of netperf's.
    Netperf(Test),
    /// Our own client with datagrams of so many bytes.
    PingUdp(usize),
    /// The same with the payload in bare Ethernet frames.
    PingEthernet(usize),
    /// TCP_RR over so many connections that are all open. A client whose turn it
    /// is does [`VISIT`] transactions.
    Flows(usize),
    /// The same with one transaction a turn.
    Scattered(usize),
}

/// Transactions that a client of [`Case::Flows`] does before another has its turn.
pub const VISIT: u32 = 16;

/// What the work of a test is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Requests with their responses.
    Transactions,
    /// Bytes that moved one way.
    Bytes,
}

impl Case {
    /// netperf's tests in the order of the tables.
    pub const NETPERF: [Test; 7] = [
        Test::TcpRr,
        Test::UdpRr,
        Test::TcpCrr,
        Test::TcpStream,
        Test::TcpMaerts,
        Test::TcpSendfile,
        Test::UdpStream,
    ];
    /// Requests and responses of UDP_RR's size by our own client.
    pub const PING: Self = Self::PingUdp(BYTES);
    /// The same with TCP_RR's size.
    pub const PING_BYTE: Self = Self::PingUdp(1);
    /// Bare frames.
    pub const PING_FRAME: Self = Self::PingEthernet(BYTES);
    /// TCP_RR over ever more open connections.
    pub const FLOWS: [Self; 5] = [
        Self::Flows(1),
        Self::Flows(100),
        Self::Flows(1_000),
        Self::Flows(10_000),
        Self::Scattered(10_000),
    ];

    /// Whether it is about many open connections.
    pub fn is_flows(self) -> bool {
        self.connections().is_some()
    }

    /// How many connections are open, where that is the question.
    pub fn connections(self) -> Option<usize> {
        match self {
            Self::Flows(count) | Self::Scattered(count) => Some(count),
            _ => None,
        }
    }

    /// What its work is counted in.
    pub fn work(self) -> Work {
        match self {
            Self::Netperf(
                Test::TcpStream | Test::TcpMaerts | Test::TcpSendfile | Test::UdpStream,
            ) => Work::Bytes,
            _ => Work::Transactions,
        }
    }

    /// The arguments that netperf takes after `--`.
    pub fn arguments(self) -> Vec<String> {
        let words = |words: [&str; 2]| words.map(str::to_owned).to_vec();
        match self {
            Self::Netperf(Test::TcpRr | Test::TcpCrr) => words(["-r", "1,1"]),
            Self::Netperf(Test::UdpRr) => words(["-r", &format!("{BYTES},{BYTES}")]),
            Self::Netperf(Test::UdpStream) => words(["-m", &DATAGRAM.to_string()]),
            _ => Vec::new(),
        }
    }

    /// How much is done under `--icount` for each second of `--seconds`.
    pub fn amount(self) -> u64 {
        match (self, self.work()) {
            (Self::Netperf(Test::TcpCrr), _) => 500,
            (_, Work::Transactions) => 2_000,
            (_, Work::Bytes) => 16 << 20,
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Netperf(Test::TcpRr) => f.write_str("TCP_RR 1,1"),
            Self::Netperf(Test::TcpCrr) => f.write_str("TCP_CRR 1,1"),
            Self::Netperf(Test::UdpRr) => write!(f, "UDP_RR {BYTES}"),
            Self::Netperf(Test::UdpStream) => write!(f, "UDP_STREAM {DATAGRAM}"),
            Self::Netperf(test) => write!(f, "{test}"),
            Self::PingUdp(bytes) => write!(f, "ping UDP {bytes}"),
            Self::PingEthernet(bytes) => write!(f, "ping frame {bytes}"),
            Self::Flows(1) => write!(f, "TCP_RR over 1 connection"),
            Self::Flows(count) => write!(f, "TCP_RR over {count} connections"),
            Self::Scattered(count) => write!(f, "TCP_RR scattered over {count} connections"),
        }
    }
}

/// A test that is to be run when not all are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Only {
    /// One of netperf's, with the pings that it is compared with.
    Netperf(Test),
    /// All pings.
    Ping,
    /// TCP_RR over ever more open connections.
    Flows,
}

impl Only {
    /// Whether `case` is meant.
    pub fn selects(self, case: Case) -> bool {
        match (self, case) {
            (Self::Netperf(test), Case::Netperf(other)) => test == other,
            (Self::Netperf(Test::TcpRr), Case::PING_BYTE) => true,
            (Self::Netperf(Test::UdpRr), Case::PING) => true,
            (Self::Netperf(_), _) => false,
            (Self::Ping, case) => matches!(case, Case::PingUdp(_) | Case::PingEthernet(_)),
            (Self::Flows, case) => case.is_flows(),
        }
    }
}

impl FromStr for Only {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let name = text.to_ascii_uppercase();
        match name.as_str() {
            "PING" => return Ok(Self::Ping),
            "FLOWS" => return Ok(Self::Flows),
            _ => {}
        }
        let test = Case::NETPERF.into_iter().find(|test| test.name() == name);
        test.map(Self::Netperf).ok_or_else(|| {
            let names = Case::NETPERF.map(Test::name).join(", ");
            format!("it is one of {names}, PING or FLOWS")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_brings_the_ping_that_it_is_compared_with() {
        let only: Only = "tcp_rr".parse().unwrap();
        let chosen: Vec<_> = Contestant::Reflect
            .cases(false)
            .into_iter()
            .filter(|case| only.selects(*case))
            .collect();
        assert_eq!(chosen, [Case::PING_BYTE]);
        let stream: Only = "TCP_STREAM".parse().unwrap();
        let cases = Contestant::Reflect.cases(false);
        assert!(!cases.into_iter().any(|case| stream.selects(case)));
        let ping: Only = "PING".parse().unwrap();
        assert!(ping.selects(Case::PING_FRAME) && !ping.selects(Case::Netperf(Test::TcpRr)));
        let flows: Only = "flows".parse().unwrap();
        assert!(flows.selects(Case::Flows(7)) && !ping.selects(Case::Flows(7)));
        let error = "TCP_RX".parse::<Only>().unwrap_err();
        assert!(error.contains("TCP_SENDFILE"), "{error}");
    }

    #[test]
    fn only_guests_count_instructions() {
        assert!(Contestant::Host.cases(true).is_empty());
        assert_eq!(Contestant::Linux.cases(true).len(), 12);
        assert_eq!(Contestant::Linux.cases(false).len(), 13);
    }
}
