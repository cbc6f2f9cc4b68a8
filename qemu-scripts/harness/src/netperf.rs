//! The system's netperf, and what it reports.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};

use crate::appliance::{Appliance, Ready};
use crate::network::Network;
use crate::process;

/// What netperf may take beyond the length of its test: two connections, the
/// calibration of the CPU counters at both ends, and slow machines.
const SLACK: Duration = Duration::from_secs(30);

/// netperf's tests that the appliance serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Test {
    /// One stream of data to the appliance.
    TcpStream,
    /// One stream of data from the appliance.
    TcpMaerts,
    /// As [`TcpStream`](Self::TcpStream), sent by sendfile.
    TcpSendfile,
    /// Transactions on one connection.
    TcpRr,
    /// Transactions with a connection each.
    TcpCrr,
    /// One stream of datagrams to the appliance.
    UdpStream,
    /// Transactions in datagrams.
    UdpRr,
}

impl Test {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::TcpStream,
        Self::TcpMaerts,
        Self::TcpSendfile,
        Self::TcpRr,
        Self::TcpCrr,
        Self::UdpStream,
        Self::UdpRr,
    ];

    /// What netperf calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::TcpStream => "TCP_STREAM",
            Self::TcpMaerts => "TCP_MAERTS",
            Self::TcpSendfile => "TCP_SENDFILE",
            Self::TcpRr => "TCP_RR",
            Self::TcpCrr => "TCP_CRR",
            Self::UdpStream => "UDP_STREAM",
            Self::UdpRr => "UDP_RR",
        }
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a test measured; "local" is the client, "remote" the appliance.
#[derive(Clone, Debug, PartialEq)]
pub struct NetperfResult {
    /// Which test.
    pub test: Test,
    /// Seconds.
    pub elapsed: f64,
    /// 10^6 bits or transactions a second. Of a UDP stream: what was sent.
    pub throughput: f64,
    /// 10^6 bits a second that the appliance received, where netperf says it.
    pub received_throughput: Option<f64>,
    /// Percent of the client's CPUs.
    pub local_cpu: f64,
    /// Percent of the appliance's CPU.
    pub remote_cpu: f64,
    /// µs a KB, or µs a transaction.
    pub local_service_demand: f64,
    /// µs a KB, or µs a transaction.
    pub remote_service_demand: f64,
    /// Bytes the client has sent, where netperf says it.
    pub local_bytes_sent: Option<u64>,
    /// Bytes the client has received, where netperf says it.
    pub local_bytes_received: Option<u64>,
    /// Bytes the appliance has sent, where netperf says it.
    pub remote_bytes_sent: Option<u64>,
    /// Bytes the appliance has received, where netperf says it.
    pub remote_bytes_received: Option<u64>,
}

/// The selectors of netperf's omni output that make up a [`NetperfResult`].
const SELECTORS: &str = "ELAPSED_TIME,THROUGHPUT,REMOTE_RECV_THROUGHPUT,LOCAL_CPU_UTIL,\
    REMOTE_CPU_UTIL,LOCAL_SD,REMOTE_SD,LOCAL_BYTES_SENT,LOCAL_BYTES_RECVD,REMOTE_BYTES_SENT,\
    REMOTE_BYTES_RECVD";

/// A netperf client of one appliance.
#[derive(Clone, Debug)]
pub struct Netperf<'a> {
    network: &'a Network,
    host: IpAddr,
    port: u16,
    length: Duration,
    amount: Option<u64>,
    arguments: Vec<String>,
}

impl<'a> Netperf<'a> {
    /// A client of `appliance` whose tests take one second.
    pub fn new(appliance: &'a Appliance, ready: Ready) -> Self {
        let (host, port) = appliance.endpoint(ready);
        Self::at(appliance.network(), host, port)
    }

    /// The same of the netserver at `host` and `port`.
    pub fn at(network: &'a Network, host: IpAddr, port: u16) -> Self {
        Self {
            network,
            host,
            port,
            length: Duration::from_secs(1),
            amount: None,
            arguments: Vec::new(),
        }
    }

    /// How long a test takes, in whole seconds.
    #[must_use]
    pub fn length(mut self, length: Duration) -> Self {
        self.length = length;
        self
    }

    /// Ends a test after so many bytes or transactions, and not after a time.
    #[must_use]
    pub fn amount(mut self, amount: u64) -> Self {
        self.amount = Some(amount);
        self
    }

    /// Further arguments of the test's own, those that netperf takes after `--`.
    #[must_use]
    pub fn test_arguments<'b>(mut self, arguments: impl IntoIterator<Item = &'b str>) -> Self {
        self.arguments
            .extend(arguments.into_iter().map(str::to_owned));
        self
    }

    /// `netperf -H HOST -p PORT ARGUMENTS`, ready to run where the appliance is
    /// reached.
    pub fn command<'b>(&self, arguments: impl IntoIterator<Item = &'b str>) -> Command {
        let mut command = self.network.command("netperf");
        command.args(["-H", &self.host.to_string(), "-p", &self.port.to_string()]);
        command.args(arguments);
        command
    }

    /// The command of a whole test with the CPU measured at both ends.
    pub fn test_command(&self, test: Test) -> Command {
        let length = match self.amount {
            Some(amount) => format!("-{amount}"),
            None => self.length.as_secs().max(1).to_string(),
        };
        self.command(["-t", test.name(), "-l", &length, "-c", "-C"])
    }

    /// Runs a test, in bounded time.
    pub fn run(&self, test: Test) -> Result<NetperfResult> {
        let mut command = self.test_command(test);
        command.arg("--").args(&self.arguments);
        // TCP_SENDFILE knows its table only.
        let table = test == Test::TcpSendfile;
        if !table {
            command.args(["-k", SELECTORS]);
        }
        let output = process::run(&mut command, self.length + SLACK)?.success()?;
        let result = if table {
            NetperfResult::from_table(test, &output.stdout)
        } else {
            NetperfResult::from_selectors(test, &output.stdout)
        };
        result.with_context(|| format!("cannot read what {output}"))
    }
}

impl NetperfResult {
    /// Reads the `KEY=VALUE` lines of netperf's option `-k`.
    pub fn from_selectors(test: Test, output: &str) -> Result<Self> {
        let values: BTreeMap<_, _> = output
            .lines()
            .filter_map(|line| line.split_once('='))
            .collect();
        let text = |key| {
            values
                .get(key)
                .with_context(|| format!("there is no {key}"))
        };
        let number = |key| -> Result<f64> {
            let text = text(key)?;
            text.parse().with_context(|| format!("{key}={text}"))
        };
        let bytes = |key| -> Result<Option<u64>> {
            let text = text(key)?;
            Ok(Some(text.parse().with_context(|| format!("{key}={text}"))?))
        };
        Ok(Self {
            test,
            elapsed: number("ELAPSED_TIME")?,
            throughput: number("THROUGHPUT")?,
            received_throughput: Some(number("REMOTE_RECV_THROUGHPUT")?),
            local_cpu: number("LOCAL_CPU_UTIL")?,
            remote_cpu: number("REMOTE_CPU_UTIL")?,
            local_service_demand: number("LOCAL_SD")?,
            remote_service_demand: number("REMOTE_SD")?,
            local_bytes_sent: bytes("LOCAL_BYTES_SENT")?,
            local_bytes_received: bytes("LOCAL_BYTES_RECVD")?,
            remote_bytes_sent: bytes("REMOTE_BYTES_SENT")?,
            remote_bytes_received: bytes("REMOTE_BYTES_RECVD")?,
        })
    }

    /// Reads the table that netperf prints with `-c -C`.
    pub fn from_table(test: Test, output: &str) -> Result<Self> {
        let numbers = |line: &str| -> Option<Vec<f64>> {
            line.split_whitespace()
                .map(|word| word.parse().ok())
                .collect()
        };
        let rows: Vec<_> = output
            .lines()
            .filter_map(numbers)
            .filter(|row| row.len() > 2)
            .collect();
        let row = |index: usize, columns: usize| -> Result<&[f64]> {
            let row = rows.get(index).context("the table has too few rows")?;
            ensure!(
                row.len() == columns,
                "row {index} has {} columns and not {columns}",
                row.len()
            );
            Ok(row)
        };
        let (elapsed, throughput, received, cpu, demand) = match test {
            Test::UdpStream => {
                let sent = row(0, 8)?;
                let received = row(1, 6)?;
                let throughput = Some(received[3]);
                let cpu = [sent[6], received[4]];
                (sent[2], sent[5], throughput, cpu, [sent[7], received[5]])
            }
            Test::TcpRr | Test::TcpCrr | Test::UdpRr => {
                let row = row(0, 10)?;
                (row[4], row[5], None, [row[6], row[7]], [row[8], row[9]])
            }
            Test::TcpStream | Test::TcpMaerts | Test::TcpSendfile => {
                let row = row(0, 9)?;
                (row[3], row[4], None, [row[5], row[6]], [row[7], row[8]])
            }
        };
        Ok(Self {
            test,
            elapsed,
            throughput,
            received_throughput: received,
            local_cpu: cpu[0],
            remote_cpu: cpu[1],
            local_service_demand: demand[0],
            remote_service_demand: demand[1],
            local_bytes_sent: None,
            local_bytes_received: None,
            remote_bytes_sent: None,
            remote_bytes_received: None,
        })
    }

    /// An error unless the figures make sense: something moved, and both ends
    /// say how busy they were.
    ///
    /// Linux's netserver counts idle ticks over a time that it measures by
    /// another clock, so a guest that was never idle may say up to some 104 %.
    pub fn check(&self) -> Result<()> {
        let percent = |value: f64| value > 0.0 && value <= 105.0;
        let sensible = self.throughput > 0.0
            && percent(self.local_cpu)
            && percent(self.remote_cpu)
            && self.local_service_demand > 0.0
            && self.remote_service_demand > 0.0;
        sensible
            .then_some(())
            .ok_or_else(|| anyhow!("these figures make no sense: {self:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_read() {
        let output = "MIGRATED TCP STREAM TEST from 0.0.0.0\nELAPSED_TIME=1.00\n\
            THROUGHPUT=24955.20\nREMOTE_RECV_THROUGHPUT=24955.20\nLOCAL_CPU_UTIL=72.47\n\
            REMOTE_CPU_UTIL=51.00\nLOCAL_SD=0.476\nREMOTE_SD=0.337\n\
            LOCAL_BYTES_SENT=3120316416\nLOCAL_BYTES_RECVD=0\nREMOTE_BYTES_SENT=0\n\
            REMOTE_BYTES_RECVD=3120316416\n";
        let result = NetperfResult::from_selectors(Test::TcpStream, output).unwrap();
        result.check().unwrap();
        assert_eq!(result.remote_service_demand, 0.337);
        assert_eq!(result.local_bytes_sent, result.remote_bytes_received);
        let cut = output.replace("LOCAL_SD", "SD");
        let error = NetperfResult::from_selectors(Test::TcpStream, &cut).unwrap_err();
        assert_eq!(error.to_string(), "there is no LOCAL_SD");
    }

    #[test]
    fn tables_are_read() {
        let stream = "bytes  bytes   bytes    secs.    10^6bits/s  % S      % S\n\n\
            131072  16384  16384    1.00       19594.70   64.29    32.29    0.538   0.270  \n";
        let result = NetperfResult::from_table(Test::TcpSendfile, stream).unwrap();
        assert_eq!((result.throughput, result.remote_cpu), (19594.70, 32.29));

        let rr = "16384  131072 1       1      1.00    16516.38  26.37  26.37  31.933  31.5 \n\
            16384  131072\n";
        let result = NetperfResult::from_table(Test::TcpRr, rr).unwrap();
        assert_eq!(result.throughput, 16516.38);
        assert_eq!(result.remote_service_demand, 31.5);

        let udp = "212992   65507   1.00       137390      0    71993.1     89.77    0.204 \n\
            212992           1.00       133855           70140.7     89.77    0.204 \n";
        let result = NetperfResult::from_table(Test::UdpStream, udp).unwrap();
        assert_eq!(result.received_throughput, Some(70140.7));

        assert!(NetperfResult::from_table(Test::TcpRr, udp).is_err());
        assert!(NetperfResult::from_table(Test::TcpRr, "").is_err());
    }
}
