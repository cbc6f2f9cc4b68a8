//! QEMU's machine protocol, as far as the tests need it.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

const TIMEOUT: Duration = Duration::from_secs(10);

/// A connection to QEMU's monitor.
#[derive(Debug)]
pub struct Qmp {
    reader: BufReader<UnixStream>,
    writer: UnixStream,
}

impl Qmp {
    /// Greets the monitor at the other end of `stream`.
    pub fn new(stream: UnixStream) -> Result<Self> {
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        let mut qmp = Self {
            reader: BufReader::new(stream.try_clone()?),
            writer: stream,
        };
        let greeting = qmp.message()?;
        if greeting.get("QMP").is_none() {
            bail!("QEMU's monitor greets with {greeting}");
        }
        qmp.command("qmp_capabilities", json!({}))?;
        Ok(qmp)
    }

    /// Carries out one command and returns what it returns.
    pub fn command(&mut self, name: &str, arguments: Value) -> Result<Value> {
        let request = json!({ "execute": name, "arguments": arguments });
        self.writer
            .write_all(format!("{request}\n").as_bytes())
            .with_context(|| format!("QEMU's monitor does not take {name}"))?;
        let deadline = Instant::now() + TIMEOUT;
        while Instant::now() < deadline {
            let answer = self.message()?;
            if let Some(value) = answer.get("return") {
                return Ok(value.clone());
            }
            if let Some(error) = answer.get("error") {
                bail!("QEMU refuses {name}: {error}");
            }
        }
        bail!("QEMU does not answer {name}");
    }

    fn message(&mut self) -> Result<Value> {
        let mut line = String::new();
        let n = self
            .reader
            .read_line(&mut line)
            .context("QEMU's monitor is silent")?;
        if n == 0 {
            bail!("QEMU's monitor has closed");
        }
        serde_json::from_str(&line).with_context(|| format!("QEMU's monitor says {line}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn monitor(script: &'static [&'static str]) -> UnixStream {
        let (ours, theirs) = UnixStream::pair().unwrap();
        std::thread::spawn(move || {
            let mut reader = BufReader::new(theirs.try_clone().unwrap());
            let mut writer = theirs;
            for (number, line) in script.iter().enumerate() {
                if number > 0 {
                    reader.read_line(&mut String::new()).unwrap();
                }
                writer.write_all(line.as_bytes()).unwrap();
            }
        });
        ours
    }

    #[test]
    fn events_between_answers_are_passed_over() {
        let mut qmp = Qmp::new(monitor(&[
            "{\"QMP\": {}}\n",
            "{\"return\": {}}\n",
            "{\"event\": \"RESUME\"}\n{\"return\": {\"status\": \"running\"}}\n",
        ]))
        .unwrap();
        let status = qmp.command("query-status", json!({})).unwrap();
        assert_eq!(status["status"], "running");
    }

    #[test]
    fn a_refusal_is_an_error_with_its_reason() {
        let mut qmp = Qmp::new(monitor(&[
            "{\"QMP\": {}}\n",
            "{\"return\": {}}\n",
            "{\"error\": {\"desc\": \"no such device\"}}\n",
        ]))
        .unwrap();
        let error = qmp.command("set_link", json!({})).unwrap_err();
        assert!(error.to_string().contains("no such device"));
    }
}
