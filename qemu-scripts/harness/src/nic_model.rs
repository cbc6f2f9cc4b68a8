//! NICs that are device models of ours: a `nic-model` process for each, which QEMU is
//! connected to by vfio-user.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::machine::{Machine, mac, mac_text, target_folder};
use crate::network::Network;
use crate::nic::NicModel;
use crate::process::{Log, Running};

/// How long a model may take until QEMU may connect.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// How long it may take to answer a line.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long it may outlive QEMU.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// The socket in `folder` on which the model of NIC number `index` awaits QEMU.
pub(crate) fn socket(folder: &Path, index: usize) -> PathBuf {
    folder.join(format!("nic{index}"))
}

/// The program: what the environment variable `UNIPERF_NIC_MODEL` names, or what
/// cargo has built.
fn program() -> Result<PathBuf> {
    let path = match std::env::var_os("UNIPERF_NIC_MODEL") {
        Some(path) => path.into(),
        None => target_folder().join("release/nic-model"),
    };
    ensure!(
        path.is_file(),
        "there is no {}: build it with cargo build --release -p uniperf-nic-models",
        path.display()
    );
    Ok(path)
}

/// A model that runs, until it is dropped or QEMU disconnects.
#[derive(Debug)]
pub struct NicModelProcess {
    device: String,
    process: Running,
    complaints: Log,
    control: PathBuf,
}

impl NicModelProcess {
    /// Starts the models of `machine`, with their sockets in `folder`; each comes with
    /// its NIC's number.
    pub(crate) fn start_all(
        machine: &Machine,
        network: &mut Network,
        folder: &Path,
    ) -> Result<Vec<(usize, Self)>> {
        let nics = machine.nics.iter().enumerate();
        nics.filter(|(_, nic)| nic.is_modelled())
            .map(|(index, nic)| {
                let model = Self::start(nic, index, network, folder);
                Ok((index, model.with_context(|| format!("cannot start {nic}"))?))
            })
            .collect()
    }

    fn start(nic: &NicModel, index: usize, network: &mut Network, folder: &Path) -> Result<Self> {
        let control = folder.join(format!("control{index}"));
        let cable = network.cable(index, folder)?;
        let mut command = network.command(program()?);
        command
            .arg(nic.device())
            .arg("--socket")
            .arg(socket(folder, index))
            .args(["--mac", &mac_text(mac(index))])
            .arg("--control")
            .arg(&control)
            .args(cable.model)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut process = Running::start(&mut command)?;
        let complaints = Log::follow(process.take_stderr().context("no stderr")?);
        let output = Log::follow(process.take_stdout().context("no stdout")?);
        let ready = output.wait_for(0, START_TIMEOUT, "nic-model: ready", |line| {
            line == "nic-model: ready"
        });
        let model = Self {
            device: nic.device().to_owned(),
            process,
            complaints,
            control,
        };
        ready.with_context(|| {
            // Its last words come through a pipe that a thread reads.
            std::thread::sleep(Duration::from_millis(100));
            format!(
                "{}\n{}",
                crate::process::line(&command),
                model.complaints.text()
            )
        })?;
        Ok(model)
    }

    /// Gives it a line, such as `statistics` or `help`, and returns its answer.
    ///
    /// # Errors
    ///
    /// It does not answer, or it says that it cannot do that.
    pub fn ask(&self, line: &str) -> Result<String> {
        let answer = ask(&self.control, line);
        answer.with_context(|| format!("{} was asked \"{line}\"", self.device))
    }

    /// What it said of its guest and of itself.
    pub fn complaints(&self) -> &Log {
        &self.complaints
    }

    /// Waits for its end, which comes with QEMU's.
    pub(crate) fn wait(&mut self) -> Result<ExitStatus> {
        match self.process.wait(END_TIMEOUT)? {
            Some(status) => Ok(status),
            None => bail!("the model {} does not end with QEMU", self.device),
        }
    }

    /// Its complaints under a heading, or nothing.
    pub(crate) fn logs(&self) -> String {
        if self.complaints.is_empty() {
            return String::new();
        }
        format!("--- {}\n{}\n", self.device, self.complaints.text())
    }
}

/// The lines before the empty one that ends the answer to `line`.
fn ask(control: &Path, line: &str) -> Result<String> {
    let mut stream = UnixStream::connect(control)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.write_all(format!("{line}\n").as_bytes())?;
    let mut answer = String::new();
    let mut reader = BufReader::new(stream);
    loop {
        let begin = answer.len();
        let read = reader.read_line(&mut answer).context("no answer")?;
        ensure!(read > 0, "it ended in the middle of its answer");
        if &answer[begin..] == "\n" {
            answer.truncate(begin);
            break;
        }
    }
    match answer.strip_prefix("error: ") {
        Some(error) => bail!("{}", error.trim_end()),
        None => Ok(answer),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn an_answer_ends_with_an_empty_line_and_may_be_a_refusal() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control");
        let listener = UnixListener::bind(&path).unwrap();
        let answers = [
            "a 1\nb 2\n\nmore\n",
            "\n",
            "error: none of those\n\n",
            "a 1\n",
        ];
        let server = std::thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut line = String::new();
                BufReader::new(&stream).read_line(&mut line).unwrap();
                assert_eq!(line, "statistics\n");
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        let ask = || ask(&path, "statistics");
        assert_eq!(ask().unwrap(), "a 1\nb 2\n");
        assert_eq!(ask().unwrap(), "");
        assert_eq!(ask().unwrap_err().to_string(), "none of those");
        assert!(ask().is_err());
        server.join().unwrap();
    }
}
