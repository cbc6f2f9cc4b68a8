//! What the report tries over the network.

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::process::Command;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};

use crate::client::{OwnTest, Plan, read_pattern};
use crate::netperf::{NetperfResult, Test};
use crate::peers::PingResult;
use crate::process::{self, Finished};

/// Payloads of pings in bytes: none; around the shortest frame's (18) and the longest
/// frame's (1472); two fragments; and the longest that there is.
pub const PINGS: [u32; 14] = [
    0, 1, 16, 17, 18, 19, 56, 1000, 1471, 1472, 1473, 8000, 30_000, 65_507,
];
/// Pings of each size.
const PING_COUNT: u64 = 3;
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// What netperf may take beyond its test.
const SLACK: Duration = Duration::from_secs(30);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Payload of a datagram that makes one frame.
const ONE_FRAME: &str = "1472";
/// Bytes of a stream for each second that a test is to take, and at the most.
const STREAM_A_SECOND: u64 = 32 << 20;
const STREAM_MOST: u64 = 1 << 30;
/// How much longer than a test a stream may take.
const STREAM_PATIENCE: u32 = 3;
/// Requests and responses of this many bytes, so often.
const MESSAGE: u32 = 65_536;
const MESSAGES: u32 = 100;

/// What came of something that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// In a few words.
    pub summary: String,
    /// What a program printed, if one did.
    pub text: String,
}

impl Shown {
    fn short(summary: String) -> Self {
        Self {
            summary,
            text: String::new(),
        }
    }
}

/// Something to be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trial {
    /// Pings with so many bytes of payload, whose return is compared.
    Ping(u32),
    /// A test of netperf's.
    Netperf(Test),
    /// UDP_STREAM in datagrams of one frame each.
    UdpInFrames,
    /// A stream from the appliance, each byte of which is compared.
    StreamFrom,
    /// A stream to the appliance, which counts what it gets.
    StreamTo,
    /// Long requests and responses, each byte of which is compared.
    Messages,
}

impl Trial {
    /// All of them, in their order.
    pub fn all() -> Vec<Self> {
        let mut all: Vec<_> = PINGS.map(Self::Ping).to_vec();
        all.extend(Test::ALL.map(Self::Netperf));
        all.extend([
            Self::UdpInFrames,
            Self::StreamFrom,
            Self::StreamTo,
            Self::Messages,
        ]);
        all
    }

    /// The section of the report that it belongs in.
    pub fn section(self) -> &'static str {
        match self {
            Self::Ping(_) => "Pings",
            Self::Netperf(_) | Self::UdpInFrames => "netperf",
            Self::StreamFrom | Self::StreamTo | Self::Messages => "Streams, byte by byte",
        }
    }

    /// What it is called.
    pub fn name(self) -> String {
        match self {
            Self::Ping(bytes) => format!("ping with {bytes} bytes"),
            Self::Netperf(test) => test.to_string(),
            Self::UdpInFrames => format!("UDP_STREAM, {ONE_FRAME} bytes a datagram"),
            Self::StreamFrom => "stream from the appliance".into(),
            Self::StreamTo => "stream to the appliance".into(),
            Self::Messages => format!("requests and responses of {MESSAGE} bytes"),
        }
    }

    /// Whether it needs the appliance's netserver.
    pub fn needs_netserver(self) -> bool {
        !matches!(self, Self::Ping(_))
    }

    /// Tries it on the appliance whose netserver is there, for `seconds` where it takes a
    /// time.
    pub fn run(self, server: SocketAddr, seconds: u64) -> Result<Shown> {
        match self {
            Self::Ping(bytes) => ping(server.ip(), bytes),
            Self::Netperf(test) => netperf(server, test, seconds, &[]),
            Self::UdpInFrames => {
                netperf(server, Test::UdpStream, seconds, &["--", "-m", ONE_FRAME])
            }
            Self::StreamFrom => stream_from(server, seconds),
            Self::StreamTo => stream_to(server, seconds),
            Self::Messages => messages(server, seconds),
        }
    }
}

/// An error unless somebody listens where the netserver should.
pub fn find_netserver(server: SocketAddr) -> Result<()> {
    TcpStream::connect_timeout(&server, CONNECT_TIMEOUT).with_context(|| {
        format!(
            "nobody listens at {server}. Check the address that the appliance's `ready` line \
             has, the cable, and this machine's firewall"
        )
    })?;
    Ok(())
}

fn ping(address: IpAddr, bytes: u32) -> Result<Shown> {
    let mut command = Command::new("ping");
    command
        .args(["-n", "-i", "0.2", "-W", "2"])
        .args(["-c", &PING_COUNT.to_string(), "-s", &bytes.to_string()])
        .arg(address.to_string());
    let output = process::run(&mut command, PING_TIMEOUT)?;
    judge_ping(&output.stdout).map_err(|error| anyhow!("{error}\n{output}"))
}

fn judge_ping(output: &str) -> Result<Shown> {
    let result = PingResult::parse(output).context("ping has no result")?;
    // ping compares what comes back with what it sent.
    ensure!(
        !output.contains("wrong data") && !output.contains("wrong total length"),
        "the answer holds other bytes than the question"
    );
    ensure!(
        result.received == PING_COUNT,
        "{} of {} came back",
        result.received,
        result.sent
    );
    let times = output.lines().find_map(|line| line.split_once(" = "));
    let times = times.map_or(String::new(), |(_, times)| {
        format!(", min/avg/max/mdev {times}")
    });
    Ok(Shown::short(format!("all came back{times}")))
}

fn netperf(server: SocketAddr, test: Test, seconds: u64, own: &[&str]) -> Result<Shown> {
    let mut command = Command::new("netperf");
    command
        .args(["-H", &server.ip().to_string()])
        .args(["-p", &server.port().to_string()])
        .args(["-t", test.name(), "-l", &seconds.to_string(), "-c", "-C"])
        .args(own);
    let limit = Duration::from_secs(seconds) + SLACK;
    let output = process::run(&mut command, limit)?;
    judge_netperf(test, &output)
}

fn judge_netperf(test: Test, output: &Finished) -> Result<Shown> {
    if !output.status.success() {
        let mut said = output.stdout.lines().chain(output.stderr.lines());
        let last = said.rfind(|line| !line.trim().is_empty());
        let last = last.unwrap_or("netperf says nothing, and fails");
        bail!("{last}\n{output}");
    }
    let result = NetperfResult::from_table(test, &output.stdout)
        .map_err(|error| anyhow!("{error}\n{output}"))?;
    let moved = result.received_throughput.unwrap_or(result.throughput);
    ensure!(moved > 0.0, "nothing has arrived\n{output}");
    let unit = match test {
        Test::TcpRr | Test::TcpCrr | Test::UdpRr => "transactions/s",
        _ => "Mbit/s",
    };
    let mut summary = format!("{moved:.2} {unit}");
    if result.received_throughput.is_some() {
        let lost = 100.0 * (1.0 - moved / result.throughput);
        summary += &format!(" arrived, {:.1} % lost", lost.max(0.0));
    }
    summary += &format!(", CPU there {:.1} %", result.remote_cpu);
    Ok(Shown {
        summary,
        text: format!("$ {}\n{}", output.command, output.stdout),
    })
}

/// Bytes of a stream that is to take about so many seconds.
fn stream_bytes(seconds: u64) -> u32 {
    let bytes = STREAM_A_SECOND.saturating_mul(seconds).min(STREAM_MOST);
    bytes.try_into().unwrap_or(u32::MAX)
}

/// Ends a connection that takes too long, so that whoever waits for it goes on.
struct Limit {
    _running: mpsc::Sender<()>,
    after: Duration,
    begun: Instant,
}

impl Limit {
    fn set(stream: &TcpStream, seconds: u64) -> Result<Self> {
        let after = Duration::from_secs(seconds) * STREAM_PATIENCE + SLACK;
        let stream = stream.try_clone()?;
        let (running, ended) = mpsc::channel();
        std::thread::spawn(move || {
            if ended.recv_timeout(after) == Err(mpsc::RecvTimeoutError::Timeout) {
                let _ = stream.shutdown(Shutdown::Both);
            }
        });
        Ok(Self {
            _running: running,
            after,
            begun: Instant::now(),
        })
    }

    /// An error when it has struck, with what had been done by then.
    fn check(&self, done: u64) -> Result<()> {
        ensure!(
            self.begun.elapsed() < self.after,
            "cut off after {} s, as it is too slow; {done} bytes had passed, all of them right",
            self.after.as_secs()
        );
        Ok(())
    }

    fn mbits(&self, bytes: u64) -> f64 {
        bytes as f64 * 8e-6 / self.begun.elapsed().as_secs_f64()
    }
}

fn open(server: SocketAddr, plan: Plan, seconds: u64) -> Result<(OwnTest, TcpStream, Limit)> {
    let test = OwnTest::open(server, plan, None)?;
    let data = test.connect()?;
    let limit = Limit::set(&data, seconds)?;
    Ok((test, data, limit))
}

fn stream_from(server: SocketAddr, seconds: u64) -> Result<Shown> {
    let wanted = stream_bytes(seconds);
    let (test, mut data, limit) = open(server, Plan::Send(wanted), seconds)?;
    let (count, _) = read_pattern(&mut data, test.send_buffer, u64::MAX)?;
    limit.check(count)?;
    ensure!(
        count == u64::from(wanted),
        "it ended after {count} bytes of {wanted}"
    );
    let rate = limit.mbits(count);
    test.results()?;
    Ok(Shown::short(format!(
        "{count} bytes, each as it should be, at {rate:.1} Mbit/s with the comparing"
    )))
}

fn stream_to(server: SocketAddr, seconds: u64) -> Result<Shown> {
    let wanted = u64::from(stream_bytes(seconds));
    let (test, mut data, limit) = open(server, Plan::Receive, seconds)?;
    let piece: Vec<u8> = (0..MESSAGE).map(|n| (n ^ n >> 8) as u8).collect();
    let mut sent = 0;
    while sent < wanted {
        let result = data.write_all(&piece);
        limit.check(sent)?;
        result.with_context(|| format!("after {sent} bytes"))?;
        sent += piece.len() as u64;
    }
    data.shutdown(Shutdown::Write)?;
    let end = data
        .read(&mut [0; 1])
        .context("the appliance does not close");
    limit.check(sent)?;
    ensure!(end? == 0, "the appliance sends something");
    let rate = limit.mbits(sent);
    let received = test.results()?;
    ensure!(
        received == sent,
        "{sent} bytes were sent, and the appliance has counted {received}"
    );
    Ok(Shown::short(format!(
        "{sent} bytes, and as many counted there, at {rate:.1} Mbit/s"
    )))
}

fn messages(server: SocketAddr, seconds: u64) -> Result<Shown> {
    let (test, mut data, limit) = open(server, Plan::Answer(MESSAGE), seconds)?;
    for number in 1..=MESSAGES {
        let done = u64::from(number - 1) * u64::from(MESSAGE);
        let result = data
            .write_all(&[0; MESSAGE as usize])
            .context("the request cannot be sent")
            // The buffer is empty before each, and so it begins at its begin.
            .and_then(|()| read_pattern(&mut data, MESSAGE as usize, MESSAGE.into()));
        limit.check(done)?;
        let (count, _) = result.with_context(|| format!("message {number} of {MESSAGES}"))?;
        if count != u64::from(MESSAGE) {
            bail!("message {number} of {MESSAGES} ended after {count} bytes of {MESSAGE}");
        }
    }
    data.shutdown(Shutdown::Write)?;
    ensure!(
        data.read(&mut [0; 1]).context("no end")? == 0,
        "more bytes than were asked for"
    );
    let received = test.results()?;
    let sent = u64::from(MESSAGES) * u64::from(MESSAGE);
    ensure!(
        received == sent,
        "{sent} bytes were sent, and the appliance has counted {received}"
    );
    Ok(Shown::short(format!(
        "{MESSAGES} both ways, each byte of the responses as it should be"
    )))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;

    #[test]
    fn pings_are_judged() {
        let output = |tail: &str| {
            format!(
                "PING\n64 bytes\n{tail}\n3 packets transmitted, 3 received, 0% packet loss\n\
                 rtt min/avg/max/mdev = 0.1/0.2/0.3/0.1 ms\n"
            )
        };
        let good = judge_ping(&output("")).unwrap();
        assert_eq!(
            good.summary,
            "all came back, min/avg/max/mdev 0.1/0.2/0.3/0.1 ms"
        );
        let wrong = judge_ping(&output("wrong data byte #20 should be 0x14")).unwrap_err();
        assert!(wrong.to_string().contains("other bytes"));
        let lost = "3 packets transmitted, 1 received, 66% packet loss\n";
        let error = judge_ping(lost).unwrap_err();
        assert_eq!(error.to_string(), "1 of 3 came back");
        assert!(judge_ping("ping: no route").is_err());
    }

    #[test]
    fn netperf_is_judged() {
        let finished = |stdout: &str| Finished {
            command: "netperf".into(),
            status: ExitStatus::from_raw(0),
            stdout: stdout.into(),
            stderr: String::new(),
        };
        let sent = "212992   65507   1.00       1000      0    500.0     89.77    0.204 \n";
        let good =
            format!("{sent}212992           1.00       900           400.0     9.77    0.1 \n");
        let shown = judge_netperf(Test::UdpStream, &finished(&good)).unwrap();
        assert_eq!(
            shown.summary,
            "400.00 Mbit/s arrived, 20.0 % lost, CPU there 9.8 %"
        );
        assert!(shown.text.starts_with("$ netperf\n2129"));
        let none =
            format!("{sent}212992           1.00       0             0.0     9.77    0.1 \n");
        let error = judge_netperf(Test::UdpStream, &finished(&none)).unwrap_err();
        assert!(error.to_string().starts_with("nothing has arrived"));
        assert!(judge_netperf(Test::TcpRr, &finished("")).is_err());
        let refused = Finished {
            status: ExitStatus::from_raw(1 << 8),
            ..finished("TEST from here\nremote error 105\n")
        };
        let error = judge_netperf(Test::TcpRr, &refused).unwrap_err();
        assert!(error.to_string().starts_with("remote error 105\n`netperf`"));
    }

    #[test]
    fn everything_is_tried_once() {
        let all = Trial::all();
        for test in Test::ALL {
            assert!(all.contains(&Trial::Netperf(test)), "{test}");
        }
        let mut names: Vec<_> = all.iter().map(|trial| trial.name()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all.len());
    }

    #[test]
    fn long_tests_do_not_make_streams_without_end() {
        assert_eq!(stream_bytes(1), 32 << 20);
        assert_eq!(u64::from(stream_bytes(u64::MAX)), STREAM_MOST);
    }

    #[test]
    fn a_stream_that_takes_too_long_is_cut_off() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let _far = listener.accept().unwrap();
        let mut limit = Limit::set(&near, 1).unwrap();
        limit.check(0).unwrap();
        limit.after = Duration::ZERO;
        let error = limit.check(7).unwrap_err().to_string();
        assert!(error.contains("7 bytes"), "{error}");
        near.shutdown(Shutdown::Both).unwrap();
        assert_eq!(near.read(&mut [0; 1]).unwrap(), 0);
    }

    #[test]
    fn where_nobody_listens_it_says_what_to_check() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        find_netserver(server).unwrap();
        drop(listener);
        let error = find_netserver(server).unwrap_err().to_string();
        assert!(error.contains(&server.to_string()), "{error}");
        assert!(error.contains("firewall"), "{error}");
    }
}
