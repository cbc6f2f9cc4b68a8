//! Children that end when their owner does, and waits that end.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::cleanup::{Registration, Resource, register};

const POLL: Duration = Duration::from_millis(5);

/// A child that is killed when this is dropped, when the thread that started it
/// ends, and when a signal ends this process.
#[derive(Debug)]
pub struct Running {
    child: Child,
    name: String,
    registration: Option<Registration>,
}

impl Running {
    /// Starts `command` in a process group of its own, so that the terminal's
    /// ctrl-C does not reach it before its owner has decided what to do.
    pub fn start(command: &mut Command) -> Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        command.process_group(0);
        die_with_parent(command);
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {}", line(command)))?;
        let registration = Some(register(Resource::Process(child.id())));
        Ok(Self {
            child,
            name,
            registration,
        })
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, when it has.
    pub fn try_wait(&mut self) -> Result<Option<ExitStatus>> {
        let status = self.child.try_wait()?;
        if status.is_some() {
            self.registration = None;
        }
        Ok(status)
    }

    /// Waits for its end, at most for `timeout`; `None` when it still runs then.
    pub fn wait(&mut self, timeout: Duration) -> Result<Option<ExitStatus>> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(status) = self.try_wait()? {
                return Ok(Some(status));
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            std::thread::sleep(POLL);
        }
    }

    /// Sends SIGTERM, and SIGKILL when that has no effect within `grace`.
    pub fn terminate(&mut self, grace: Duration) -> Result<ExitStatus> {
        let pid = nix::unistd::Pid::from_raw(self.child.id().cast_signed());
        if self.try_wait()?.is_none() {
            nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM)?;
        }
        match self.wait(grace)? {
            Some(status) => Ok(status),
            None => self.kill(),
        }
    }

    /// Kills it and waits for its end.
    pub fn kill(&mut self) -> Result<ExitStatus> {
        if self.try_wait()?.is_none() {
            self.child.kill()?;
        }
        match self.wait(Duration::from_secs(5))? {
            Some(status) => Ok(status),
            None => bail!("{} does not die", self.name),
        }
    }

    /// The read end of its standard output, if that was piped and not yet taken.
    pub fn take_stdout(&mut self) -> Option<std::process::ChildStdout> {
        self.child.stdout.take()
    }

    /// The same of its standard error.
    pub fn take_stderr(&mut self) -> Option<std::process::ChildStderr> {
        self.child.stderr.take()
    }

    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.child
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// Makes the child get SIGKILL when the thread that starts it ends.
fn die_with_parent(command: &mut Command) {
    let parent = std::process::id().cast_signed();
    // SAFETY: prctl, getppid and the error's construction allocate nothing and
    // take no lock, as is due between fork and exec.
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(std::io::Error::last_os_error());
            }
            if libc::getppid() != parent {
                return Err(std::io::Error::from_raw_os_error(libc::ESRCH));
            }
            Ok(())
        });
    }
}

/// What a finished command left.
#[derive(Debug)]
pub struct Finished {
    /// The command line.
    pub command: String,
    /// How it ended.
    pub status: ExitStatus,
    /// What it printed.
    pub stdout: String,
    /// What it complained of.
    pub stderr: String,
}

impl Finished {
    /// The output, or an error with all of it when the exit code is not 0.
    pub fn success(self) -> Result<Self> {
        if self.status.success() {
            return Ok(self);
        }
        bail!("{self}");
    }
}

impl std::fmt::Display for Finished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "`{}` ended with {}\n{}{}",
            self.command, self.status, self.stdout, self.stderr
        )
    }
}

/// Runs `command` to its end with its output kept. It is killed, and an error
/// returned, when it takes longer than `timeout`.
pub fn run(command: &mut Command, timeout: Duration) -> Result<Finished> {
    let text = line(command);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut running = Running::start(command)?;
    let stdout = read_all(running.child().stdout.take());
    let stderr = read_all(running.child().stderr.take());
    let ended = running.wait(timeout)?;
    let status = match ended {
        Some(status) => status,
        None => running.kill()?,
    };
    let finished = Finished {
        command: text,
        status,
        stdout: joined(stdout),
        stderr: joined(stderr),
    };
    if ended.is_none() {
        bail!("after {} s without an end, {finished}", timeout.as_secs());
    }
    Ok(finished)
}

fn read_all(stream: Option<impl Read + Send + 'static>) -> Option<JoinHandle<String>> {
    let mut stream = stream?;
    Some(std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }))
}

fn joined(reader: Option<JoinHandle<String>>) -> String {
    reader
        .and_then(|reader| reader.join().ok())
        .unwrap_or_default()
}

/// The command as a person would type it.
pub fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(quoted).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+^".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.into_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Lines that somebody writes while others wait for them.
#[derive(Clone, Debug, Default)]
pub struct Log(Arc<(Mutex<LogState>, Condvar)>);

#[derive(Debug, Default)]
struct LogState {
    lines: Vec<String>,
    closed: bool,
}

impl Log {
    /// A log of what a child prints on `stream`.
    pub fn follow(stream: impl Read + Send + 'static) -> Self {
        let log = Self::default();
        let writer = log.clone();
        std::thread::spawn(move || {
            let mut reader = BufReader::new(stream);
            let mut bytes = Vec::new();
            while matches!(reader.read_until(b'\n', &mut bytes), Ok(n) if n > 0) {
                writer.push(&bytes);
                bytes.clear();
            }
            writer.close();
        });
        log
    }

    pub(crate) fn push(&self, line: &[u8]) {
        let line = String::from_utf8_lossy(line);
        self.state()
            .lines
            .push(line.trim_end_matches(['\r', '\n']).to_owned());
        self.0.1.notify_all();
    }

    pub(crate) fn close(&self) {
        self.state().closed = true;
        self.0.1.notify_all();
    }

    fn state(&self) -> std::sync::MutexGuard<'_, LogState> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many lines there are.
    pub fn len(&self) -> usize {
        self.state().lines.len()
    }

    /// Whether there is no line yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether its writer has ended.
    pub fn is_closed(&self) -> bool {
        self.state().closed
    }

    /// All lines from the one with number `from` on.
    pub fn since(&self, from: usize) -> Vec<String> {
        self.state()
            .lines
            .get(from..)
            .map(<[_]>::to_vec)
            .unwrap_or_default()
    }

    /// The whole text.
    pub fn text(&self) -> String {
        self.since(0).join("\n")
    }

    /// Waits for a line, from line `from` on, that `wanted` accepts; returns its
    /// number and text.
    pub fn wait_for(
        &self,
        from: usize,
        timeout: Duration,
        what: &str,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<(usize, String)> {
        let deadline = Instant::now() + timeout;
        let mut next = from;
        let mut state = self.state();
        loop {
            while let Some(line) = state.lines.get(next) {
                if wanted(line) {
                    return Ok((next, line.clone()));
                }
                next += 1;
            }
            if state.closed {
                bail!("no {what}: its writer has ended");
            }
            let now = Instant::now();
            if now >= deadline {
                bail!("no {what} within {} s", timeout.as_secs_f32());
            }
            state = self
                .0
                .1
                .wait_timeout(state, deadline - now)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_hangs_is_ended_and_its_output_shown() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo begun; exec sleep 60"]);
        let begin = Instant::now();
        let error = run(&mut command, Duration::from_millis(300)).unwrap_err();
        assert!(begin.elapsed() < Duration::from_secs(5));
        assert!(error.to_string().contains("begun"), "{error}");
    }

    #[test]
    fn a_command_line_can_be_pasted() {
        let mut command = Command::new("netperf");
        command.args(["-H", "10.77.0.2", "a b", "it's", ""]);
        assert_eq!(line(&command), r"netperf -H 10.77.0.2 'a b' 'it'\''s' ''");
    }

    #[test]
    fn a_log_waits_for_lines_and_says_when_none_can_come() {
        let log = Log::follow(&b"one\r\ntwo\nthree"[..]);
        let second = Duration::from_secs(1);
        let (number, text) = log
            .wait_for(0, second, "t", |l| l.starts_with('t'))
            .unwrap();
        assert_eq!((number, text.as_str()), (1, "two"));
        let (number, _) = log
            .wait_for(2, second, "t", |l| l.starts_with('t'))
            .unwrap();
        assert_eq!(number, 2);
        let error = log.wait_for(3, second, "more", |_| true).unwrap_err();
        assert_eq!(error.to_string(), "no more: its writer has ended");
    }
}
