//! What the console says about a test, in one line each.

use core::fmt;
use core::net::SocketAddr;

use super::spec::{Errno, Limit, Spec};
use super::wire::test_name;

/// A console line; `Display` gives its text without the line end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Report {
    /// A test is set up.
    Started {
        /// The client's end of the control connection.
        client: SocketAddr,
        /// The test.
        spec: Spec,
        /// The data port.
        port: u16,
    },
    /// A test has ended and its results are on their way.
    Finished {
        /// The client's end of the control connection.
        client: SocketAddr,
        /// The test.
        spec: Spec,
        /// What was counted.
        totals: Totals,
    },
    /// A test has ended without results, as its client is gone.
    Abandoned {
        /// The client's end of the control connection.
        client: SocketAddr,
        /// The test.
        spec: Spec,
    },
    /// A request is answered with an error.
    Refused {
        /// The client's end of the control connection.
        client: SocketAddr,
        /// The request's code.
        code: u32,
        /// Why.
        errno: Errno,
    },
    /// The control connection is closed, as what comes from it is no use.
    Dropped {
        /// The client's end of the control connection.
        client: SocketAddr,
        /// Why.
        why: Nonsense,
    },
}

/// Why a control connection is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nonsense {
    /// It does not start like a message of netperf's.
    NotNetperf,
    /// Part of a message came, of so many bytes, and then nothing for long.
    Stalled(usize),
    /// Part of a message came, of so many bytes, and then the end.
    Cut(usize),
}

/// A test's figures.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    /// Length in nanoseconds.
    pub elapsed: u64,
    /// Transactions served.
    pub transactions: u64,
    /// Bytes received.
    pub bytes_received: u64,
    /// Receive calls, or datagrams received.
    pub receives: u64,
    /// Bytes sent.
    pub bytes_sent: u64,
    /// Messages sent.
    pub sends: u64,
    /// Datagrams that the stack did not take.
    pub failed_sends: u64,
    /// CPU utilisation in percent, if the client wanted it.
    pub cpu: Option<f32>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Report::Started { client, spec, port } => {
                write!(f, "netperf: {} from {client}", spec.name())?;
                match spec.limit {
                    Limit::None => write!(f, ", without limit")?,
                    Limit::Seconds(seconds) => write!(f, ", {seconds} s")?,
                    Limit::Units(units) => write!(f, ", {units} {}", unit(spec))?,
                }
                write!(f, ", on port {port}")
            }
            Report::Finished {
                client,
                spec,
                totals,
            } => {
                write!(
                    f,
                    "netperf: {} from {client}, {}.{:02} s: ",
                    spec.name(),
                    totals.elapsed / 1_000_000_000,
                    totals.elapsed / 10_000_000 % 100,
                )?;
                write_totals(f, spec, totals)
            }
            Report::Abandoned { client, spec } => {
                write!(
                    f,
                    "netperf: {} from {client}: the client is gone",
                    spec.name()
                )
            }
            Report::Refused {
                client,
                code,
                errno,
            } => {
                match test_name(*code) {
                    Some(name) => write!(f, "netperf: {name} from {client} refused: ")?,
                    None => write!(f, "netperf: request {code} from {client} refused: ")?,
                }
                write!(f, "{errno}")
            }
            Report::Dropped { client, why } => {
                write!(f, "netperf: {client} dropped: ")?;
                match why {
                    Nonsense::NotNetperf => write!(f, "not a netperf client"),
                    Nonsense::Stalled(bytes) => {
                        write!(f, "sent {bytes} bytes of a message and no more")
                    }
                    Nonsense::Cut(bytes) => write!(f, "ended after {bytes} bytes of a message"),
                }
            }
        }
    }
}

fn unit(spec: &Spec) -> &'static str {
    if spec.is_transactional() {
        "transactions"
    } else {
        "bytes"
    }
}

fn write_totals(f: &mut fmt::Formatter<'_>, spec: &Spec, totals: &Totals) -> fmt::Result {
    if spec.is_transactional() {
        write!(f, "{} transactions", totals.transactions)?;
    } else if spec.open.receives {
        write!(f, "{} bytes received", totals.bytes_received)?;
    } else {
        write!(f, "{} bytes sent", totals.bytes_sent)?;
    }
    match totals.cpu {
        Some(cpu) => write!(f, ", CPU {cpu:.0} %"),
        None => Ok(()),
    }
}
