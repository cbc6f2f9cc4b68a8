//! The netperf that is installed, run with every wait bounded.

use std::collections::HashMap;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// No run here takes longer, whatever goes wrong.
const PATIENCE: Duration = Duration::from_secs(30);

/// A netperf under way; it is killed when dropped.
pub struct Client {
    child: Child,
    started: Instant,
    arguments: String,
}

/// What a netperf that ended has said.
#[derive(Debug)]
pub struct Outcome {
    pub arguments: String,
    pub success: bool,
    pub text: String,
    pub took: Duration,
}

impl Client {
    /// Runs `netperf -H 127.0.0.1 -p port` with more arguments.
    pub fn spawn(port: u16, arguments: &str) -> Self {
        let child = Command::new("netperf")
            .args(["-H", "127.0.0.1", "-p", &port.to_string()])
            .args(arguments.split_whitespace())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| {
                panic!(
                    "netperf cannot be run ({error}): qemu-scripts/setup installs it \
                     (on Debian 12 it is in the non-free component)"
                )
            });
        Client {
            child,
            started: Instant::now(),
            arguments: arguments.to_owned(),
        }
    }

    /// Waits for its end.
    pub fn wait(mut self) -> Outcome {
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            let patient = self.started.elapsed() < PATIENCE;
            assert!(patient, "netperf {} does not end", self.arguments);
            thread::sleep(Duration::from_millis(5));
        };
        let mut text = String::new();
        let stdout = self.child.stdout.take().unwrap();
        let stderr = self.child.stderr.take().unwrap();
        stdout.chain(stderr).read_to_string(&mut text).unwrap();
        Outcome {
            arguments: self.arguments.clone(),
            success: status.success(),
            text,
            took: self.started.elapsed(),
        }
    }

    /// Kills it as nothing but SIGKILL does.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // Both fail only where it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Outcome {
    /// The outcome, if netperf was content.
    pub fn checked(self) -> Self {
        assert!(self.success, "netperf {}:\n{}", self.arguments, self.text);
        self
    }

    /// The `NAME=value` lines of `-k`, those with numbers.
    pub fn values(&self) -> HashMap<String, f64> {
        let pairs = self.text.lines().filter_map(|line| line.split_once('='));
        pairs
            .filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)))
            .collect()
    }

    /// The first line of a classic table that is all numbers.
    pub fn row(&self) -> Vec<f64> {
        let rows = self.text.lines().filter_map(|line| {
            let numbers = line.split_whitespace().map(str::parse);
            numbers.collect::<Result<Vec<f64>, _>>().ok()
        });
        let mut rows = rows.filter(|row| row.len() > 4);
        rows.next()
            .unwrap_or_else(|| panic!("no table in:\n{}", self.text))
    }
}
