//! The system's ping, nmap and tcpdump, and what they find.

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::folder::Folder;
use crate::machine::mac_text;
use crate::network::Network;
use crate::process::{self, Log, Running};
use crate::trace::{self, Station, Verdict};

/// A capture's file in its folder.
const CAPTURE: &str = "capture";

/// What a flood of pings came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PingResult {
    /// Echo requests sent.
    pub sent: u64,
    /// Replies received.
    pub received: u64,
}

impl PingResult {
    /// Reads the line of ping's statistics that has them.
    pub(crate) fn parse(output: &str) -> Option<Self> {
        let line = output
            .lines()
            .find(|line| line.contains("packets transmitted"))?;
        let number = |word: &str| -> Option<u64> {
            let (before, _) = line.split_once(word)?;
            before.rsplit([',', '\n']).next()?.trim().parse().ok()
        };
        Some(Self {
            sent: number(" packets transmitted")?,
            received: number(" received")?,
        })
    }
}

/// Sends `count` pings with `size` bytes each, as fast as the replies come.
pub fn ping_flood(network: &Network, host: IpAddr, count: u32, size: u32) -> Result<PingResult> {
    let mut ping = network.command("ping");
    ping.args(["-f", "-q", "-n", "-w", "60"])
        .args(["-c", &count.to_string(), "-s", &size.to_string()])
        .arg(host.to_string());
    let output = process::run(&mut ping, Duration::from_secs(70))?;
    PingResult::parse(&output.stdout).with_context(|| format!("{output}"))
}

/// Scans all TCP ports of `host`, and returns those that are open.
pub fn scan_ports(network: &Network, host: IpAddr) -> Result<Vec<u16>> {
    let mut nmap = network.command("nmap");
    nmap.args(["-n", "-Pn", "-p-", "-T4", "--max-retries", "2", "-oG", "-"])
        .args(["--host-timeout", "240s"])
        .arg(host.to_string());
    let output = process::run(&mut nmap, Duration::from_secs(300))?.success()?;
    ensure!(
        !output.stdout.contains("Status: Timeout") && output.stdout.contains("Ports:"),
        "the scan did not come to its end: {output}"
    );
    Ok(open_ports(&output.stdout))
}

fn open_ports(output: &str) -> Vec<u16> {
    let ports = output.lines().filter_map(|line| line.split_once("Ports: "));
    ports
        .flat_map(|(_, list)| list.split([',', '\t']))
        .filter_map(|entry| entry.trim().split_once("/open/")?.0.parse().ok())
        .collect()
}

/// A capture of everything on `tap0`.
#[derive(Debug)]
pub struct Capture {
    tcpdump: Running,
    log: Log,
    folder: Folder,
}

/// A capture that has ended.
#[derive(Debug)]
pub struct Recording {
    complete: bool,
    folder: Folder,
}

/// What tcpdump says of one sender's frames in a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaptureReport {
    /// Frames of that sender.
    pub frames: usize,
    /// tcpdump's descriptions of those that are malformed or have a bad checksum.
    pub bad: Vec<String>,
}

impl Capture {
    /// Begins to capture.
    pub fn start(network: &Network) -> Result<Self> {
        network.as_tap()?;
        let folder = Folder::new()?;
        let mut command = network.command("tcpdump");
        command
            .args(["-i", "tap0", "-n", "-U", "-B", "131072", "-Z", "root", "-w"])
            .arg(folder.path().join(CAPTURE))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut tcpdump = Running::start(&mut command)?;
        let log = Log::follow(tcpdump.child().stderr.take().context("no stderr")?);
        log.wait_for(0, Duration::from_secs(10), "capture", |line| {
            line.contains("listening on")
        })
        .with_context(|| log.text())?;
        Ok(Self {
            tcpdump,
            log,
            folder,
        })
    }

    /// Ends it.
    pub fn finish(mut self) -> Result<Recording> {
        // The kernel hands packets over when a block of them is full or a second old.
        std::thread::sleep(Duration::from_millis(1200));
        self.tcpdump.terminate(Duration::from_secs(10))?;
        if !self.log.text().contains("captured") {
            bail!("tcpdump has not ended well: {}", self.log.text());
        }
        Ok(Recording {
            complete: self.log.text().contains("\n0 packets dropped by kernel"),
            folder: self.folder,
        })
    }
}

impl Recording {
    fn path(&self) -> PathBuf {
        self.folder.path().join(CAPTURE)
    }

    /// Judges what `station` sent by the RFCs.
    ///
    /// # Errors
    ///
    /// The capture is not complete, so that what is missing cannot be told from
    /// what was not sent.
    pub fn judge(&self, station: Station) -> Result<Verdict> {
        ensure!(self.complete, "packets are missing from the capture");
        trace::judge(&self.path(), station)
    }

    /// Has tcpdump judge the frames that came from `sender`. The host's own are left
    /// out: it captures them before it has completed their checksums.
    pub fn report(&self, sender: [u8; 6]) -> Result<CaptureReport> {
        let mut command = std::process::Command::new("tcpdump");
        command
            .args(["-nn", "-e", "-vv", "-t", "-r"])
            .arg(self.path())
            .args(["ether", "src", &mac_text(sender)]);
        let output = process::run(&mut command, Duration::from_secs(120))?.success()?;
        Ok(CaptureReport::parse(&output.stdout, sender))
    }
}

impl CaptureReport {
    fn parse(output: &str, sender: [u8; 6]) -> Self {
        let sender = mac_text(sender);
        let mut report = Self::default();
        let mut frame = String::new();
        for line in output.lines().chain([sender.as_str()]) {
            // Each frame begins with its sender; what follows it is indented.
            if line.starts_with(&sender) {
                report.take(&frame);
                frame.clear();
            }
            frame += line;
            frame.push('\n');
        }
        report
    }

    fn take(&mut self, frame: &str) {
        if frame.is_empty() {
            return;
        }
        self.frames += 1;
        // With what is before them, as a checksum may end with the digits "bad".
        let complaints = [
            "incorrect",
            "wrong",
            " bad ",
            "[bad ",
            "(bad ",
            "bad-",
            "[|",
            "malformed",
            "truncated",
            "invalid",
        ];
        // What the payload may mean to a protocol that its port is known for is none
        // of our business.
        let headers: String = frame.lines().map(headers).collect();
        if complaints
            .iter()
            .any(|complaint| headers.contains(complaint))
        {
            self.bad.push(frame.trim_end().to_owned());
        }
    }
}

/// A line of tcpdump's without its guess at the payload, which comes after the
/// length in the indented lines.
fn headers(line: &str) -> &str {
    let indented = line.starts_with(char::is_whitespace);
    match line.rfind(", length ").filter(|_| indented) {
        Some(place) => line[place..]
            .find(": ")
            .map_or(line, |end| &line[..place + end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pings_are_counted() {
        let output = "PING 10.77.0.2\n\n--- ping statistics ---\n\
            10000 packets transmitted, 9998 received, 0.02% packet loss, time 1034ms\n";
        let expected = PingResult {
            sent: 10000,
            received: 9998,
        };
        assert_eq!(PingResult::parse(output), Some(expected));
        assert_eq!(PingResult::parse("ping: no route"), None);
    }

    #[test]
    fn open_ports_are_found_in_a_scan() {
        let output = "Host: 10.77.0.2 ()\tStatus: Up\n\
            Host: 10.77.0.2 ()\tPorts: 12865/open/tcp//netperf///, 80/closed/tcp//x///, \
            40000/open/tcp/////\tIgnored State: closed (65533)\n";
        assert_eq!(open_ports(output), [12865, 40000]);
    }

    #[test]
    fn only_the_frames_that_tcpdump_complains_of_are_bad() {
        let sender = [0x52, 0x54, 0, 0x12, 0x34, 0x56];
        let output = "52:54:00:12:34:56 > 02:00:00:00:00:01, ethertype IPv4 (0x0800), length 60: \
            (tos 0x0, ttl 64)\n    10.77.0.2.1 > 10.77.0.1.2: Flags [.], cksum 0x1bad (correct)\n\
            52:54:00:12:34:56 > 02:00:00:00:00:01, ethertype IPv4 (0x0800), length 60: \
            (tos 0x0, ttl 64)\n    10.77.0.2.1 > 10.77.0.1.2: Flags [.], cksum 0x1234 \
            (incorrect -> 0x4321)\n";
        let report = CaptureReport::parse(output, sender);
        assert_eq!(report.frames, 2);
        assert_eq!(report.bad.len(), 1);
        assert!(report.bad[0].contains("0x4321"));

        let guess = "    10.77.0.2.1 > 10.77.0.1.6379: Flags [F.], cksum 0xfcd3 (correct), \
            length 1: RESP [|resp]";
        assert!(headers(guess).ends_with(", length 1"));
        let cut = "    10.77.0.2.1 > 10.77.0.1.6379: [|tcp]";
        assert_eq!(headers(cut), cut);
    }
}
