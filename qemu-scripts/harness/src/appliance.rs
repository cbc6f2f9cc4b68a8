//! A running appliance: its console, its monitor, its end.

use std::io::{Read, Write};
use std::net::IpAddr;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, bail, ensure};
use serde_json::json;

use crate::counters::Counters;
use crate::firmware::FirmwareBoot;
use crate::folder::Folder;
use crate::machine::{Image, Machine, Start};
use crate::network::Network;
use crate::nic_model::NicModelProcess;
use crate::process::{Log, Running};
use crate::qemu;
use crate::qmp::Qmp;
use crate::screen::{self, ScreenKind};

/// How long the appliance may take from power-on until it is ready.
pub const BOOT_TIMEOUT: Duration = Duration::from_secs(60);
/// How long its console may take to answer.
const CONSOLE_TIMEOUT: Duration = Duration::from_secs(10);
const POWER_OFF_TIMEOUT: Duration = Duration::from_secs(10);
const QEMU_END_TIMEOUT: Duration = Duration::from_secs(2);
/// How often a screen is looked at.
const SCREEN_INTERVAL: Duration = Duration::from_millis(50);
/// Bytes of boot arguments: what the image keeps, less what is added here. QEMU's
/// PVH loader goes wrong over a few KiB.
const LONGEST_APPEND: usize = 1900;

/// Receives the console's bytes as they come.
pub type Echo = Box<dyn FnMut(&[u8]) + Send>;

/// What the appliance says when it can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Its address.
    pub address: IpAddr,
    /// Milliseconds from the kernel's entry to the listening netserver.
    pub milliseconds: u64,
}

impl Ready {
    fn parse(line: &str) -> Option<Self> {
        let (_, words) = line.split_once("uniperf: ready ")?;
        let mut words = words.split_whitespace();
        Some(Self {
            address: words.next()?.parse().ok()?,
            milliseconds: words.next()?.parse().ok()?,
        })
    }
}

/// A virtual machine that runs. Dropping it kills it, and shows its console when
/// that happens because a test fails.
pub struct Appliance {
    qemu: Running,
    qmp: Qmp,
    serial: UnixStream,
    console: Log,
    complaints: Log,
    models: Vec<(usize, NicModelProcess)>,
    network: Network,
    _folder: Folder,
}

impl Appliance {
    /// Starts `image` in `machine`, attached to `network`.
    pub fn start(image: &Image, machine: &Machine, network: Network) -> Result<Self> {
        Self::start_with_echo(image, machine, network, None)
    }

    /// As [`start`](Self::start), with the console's bytes also given to `echo`.
    pub fn start_with_echo(
        image: &Image,
        machine: &Machine,
        network: Network,
        echo: Option<Echo>,
    ) -> Result<Self> {
        Self::launch(Start::Kernel(image), machine, network, echo)
    }

    /// Starts what firmware finds. The boot arguments of `machine` are those that it
    /// finds as well.
    pub fn start_by_firmware(
        boot: &FirmwareBoot,
        machine: &Machine,
        network: Network,
    ) -> Result<Self> {
        Self::launch(Start::Firmware(boot), machine, network, None)
    }

    fn launch(
        start: Start<'_>,
        machine: &Machine,
        mut network: Network,
        echo: Option<Echo>,
    ) -> Result<Self> {
        if machine.append.len() > LONGEST_APPEND {
            bail!(
                "the boot arguments are {} bytes long; {LONGEST_APPEND} are the most",
                machine.append.len()
            );
        }
        let folder = Folder::new()?;
        let serial = folder.path().join("serial");
        let monitor = folder.path().join("monitor");
        let listeners = [UnixListener::bind(&serial)?, UnixListener::bind(&monitor)?];

        network.fit(&machine.append)?;
        let arguments = machine.arguments(start, &mut network, folder.path())?;
        let models = NicModelProcess::start_all(machine, &mut network, folder.path())?;
        let qemu = qemu::program(machine.has_models())?;
        let mut command = network.command(qemu);
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut qemu = Running::start(&mut command)
            .context("is QEMU installed (Debian's qemu-system-x86)?")?;
        let complaints = Log::follow(qemu.child().stderr.take().context("no stderr")?);

        let mut accept = |listener| {
            accept(listener, &mut qemu).with_context(|| {
                let command = crate::process::line(&command);
                let complaints = complaints.text() + &model_logs(&models);
                format!("QEMU does not start: {complaints}\n{command}")
            })
        };
        let serial = accept(&listeners[0])?;
        let monitor = accept(&listeners[1])?;
        let qmp = Qmp::new(monitor).with_context(|| {
            // It says why it ends just before it does.
            let _ = qemu.wait(QEMU_END_TIMEOUT);
            format!("QEMU ended: {}", complaints.text().trim())
        })?;
        Ok(Self {
            qemu,
            qmp,
            console: read_console(serial.try_clone()?, echo),
            serial,
            complaints,
            models,
            network,
            _folder: folder,
        })
    }

    /// Starts it and waits until it is ready.
    pub fn boot(image: &Image, machine: &Machine, network: Network) -> Result<(Self, Ready)> {
        let mut appliance = Self::start(image, machine, network)?;
        let ready = appliance.ready(BOOT_TIMEOUT)?;
        Ok((appliance, ready))
    }

    /// The network it is attached to.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The same, for changes.
    pub fn network_mut(&mut self) -> &mut Network {
        &mut self.network
    }

    /// What its console has printed.
    pub fn console(&self) -> &Log {
        &self.console
    }

    /// QEMU's process id.
    pub fn id(&self) -> u32 {
        self.qemu.id()
    }

    /// Waits for a console line that contains `pattern`, from the first line on.
    pub fn wait_for_line(&self, pattern: &str, timeout: Duration) -> Result<String> {
        Ok(self.wait_for_line_after(0, pattern, timeout)?.1)
    }

    /// The same from line `from` on; also returns the line's number.
    pub fn wait_for_line_after(
        &self,
        from: usize,
        pattern: &str,
        timeout: Duration,
    ) -> Result<(usize, String)> {
        let what = format!("console line \"{pattern}\"");
        self.console
            .wait_for(from, timeout, &what, |line| line.contains(pattern))
            .map_err(|error| self.explain(error))
    }

    /// Waits until the netserver listens.
    pub fn ready(&mut self, timeout: Duration) -> Result<Ready> {
        self.ready_after(0, timeout)
    }

    /// The same for whatever runs from console line `from` on.
    pub fn ready_after(&mut self, from: usize, timeout: Duration) -> Result<Ready> {
        let (_, line) = self.wait_for_line_after(from, "uniperf: ready ", timeout)?;
        Ready::parse(&line).with_context(|| format!("cannot read \"{line}\""))
    }

    /// What its screen shows.
    pub fn screen(&mut self, kind: ScreenKind) -> Result<Vec<String>> {
        screen::read(&mut self.qmp, kind)
    }

    /// Waits for a line on its screen that contains `pattern`.
    pub fn wait_for_screen(
        &mut self,
        kind: ScreenKind,
        pattern: &str,
        timeout: Duration,
    ) -> Result<String> {
        let deadline = Instant::now() + timeout;
        loop {
            let lines = self.screen(kind)?;
            if let Some(line) = lines.iter().find(|line| line.contains(pattern)) {
                return Ok(line.clone());
            }
            if Instant::now() >= deadline {
                bail!("the screen lacks \"{pattern}\":\n{}", lines.join("\n"));
            }
            std::thread::sleep(SCREEN_INTERVAL);
        }
    }

    /// Where netperf reaches it.
    pub fn endpoint(&self, ready: Ready) -> (IpAddr, u16) {
        self.network.endpoint(ready.address)
    }

    /// Types a line on the console.
    pub fn type_line(&mut self, line: &str) -> Result<()> {
        self.serial
            .write_all(format!("{line}\n").as_bytes())
            .map_err(|error| self.explain(error.into()))
    }

    /// A second handle on the console's input.
    pub fn console_input(&self) -> Result<UnixStream> {
        Ok(self.serial.try_clone()?)
    }

    /// Asks the console for all counters.
    pub fn counters(&mut self) -> Result<Counters> {
        let from = self.console.len();
        self.type_line("counters")?;
        // The command itself may be echoed, so the heading is taken whole.
        let heading = |line: &str| line.trim() == "counters:";
        let wait = |from, what, wanted: &dyn Fn(&str) -> bool| {
            self.console
                .wait_for(from, CONSOLE_TIMEOUT, what, wanted)
                .map_err(|error| self.explain(error))
        };
        let (begin, _) = wait(from, "counters on the console", &heading)?;
        let (end, _) = wait(begin, "end of counters", &|line| {
            line.contains("end of counters")
        })?;
        let lines = self.console.since(begin);
        let lines = lines.iter().take(end - begin);
        Ok(Counters::parse(lines.map(String::as_str)))
    }

    /// Waits until the resting counters are again what they are in `before`, and
    /// returns them.
    pub fn wait_for_rest(&mut self, before: &Counters, timeout: Duration) -> Result<Counters> {
        let before = before.resting();
        ensure!(
            !before.0.is_empty(),
            "the appliance has no resting counters"
        );
        let deadline = Instant::now() + timeout;
        loop {
            let now = self.counters()?.resting();
            let differences = before.differences(&now);
            if differences.is_empty() {
                return Ok(now);
            }
            if Instant::now() >= deadline {
                bail!(
                    "not at rest after {} s: {}",
                    timeout.as_secs(),
                    differences.join(", ")
                );
            }
            std::thread::sleep(Duration::from_millis(250));
        }
    }

    /// The device model that NIC number `index` is.
    pub fn nic_model(&self, index: usize) -> Result<&NicModelProcess> {
        let model = self.models.iter().find(|(number, _)| *number == index);
        let (_, model) = model.with_context(|| format!("NIC {index} is no model of ours"))?;
        Ok(model)
    }

    /// Pulls the cable of NIC number `index`, or puts it back.
    pub fn set_link(&mut self, index: usize, up: bool) -> Result<()> {
        if let Ok(model) = self.nic_model(index) {
            model.ask(if up { "link up" } else { "link down" })?;
            return Ok(());
        }
        let arguments = json!({ "name": format!("nic{index}"), "up": up });
        self.qmp.command("set_link", arguments)?;
        Ok(())
    }

    /// QEMU's monitor.
    pub fn qmp(&mut self) -> &mut Qmp {
        &mut self.qmp
    }

    /// How it ended, when it has.
    pub fn try_wait(&mut self) -> Result<Option<ExitStatus>> {
        self.qemu.try_wait()
    }

    /// Waits for its own end.
    pub fn wait(&mut self, timeout: Duration) -> Result<ExitStatus> {
        match self.qemu.wait(timeout)? {
            Some(status) => Ok(status),
            None => bail!("the appliance still runs after {} s", timeout.as_secs()),
        }
    }

    /// Types `poweroff` and waits for the end.
    pub fn power_off(&mut self) -> Result<ExitStatus> {
        self.type_line("poweroff")?;
        let status = self
            .wait(POWER_OFF_TIMEOUT)
            .map_err(|error| self.explain(error))?;
        for (_, model) in &mut self.models {
            let end = model.wait()?;
            ensure!(end.success(), "it ended with {end}: {}", model.logs());
        }
        Ok(status)
    }

    /// Ends QEMU at once.
    pub fn kill(&mut self) -> Result<ExitStatus> {
        self.qemu.kill()
    }

    /// The console's text, and the complaints of QEMU and of device models where there
    /// are any.
    pub fn logs(&self) -> String {
        let mut text = format!("--- serial console\n{}\n", self.console.text());
        if !self.complaints.is_empty() {
            text += &format!("--- QEMU\n{}\n", self.complaints.text());
        }
        text + &model_logs(&self.models) + "---"
    }

    fn explain(&self, error: Error) -> Error {
        let complaints = self.complaints.text();
        if complaints.is_empty() {
            return error;
        }
        error.context(format!("QEMU says: {complaints}"))
    }
}

impl Drop for Appliance {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.logs());
        }
    }
}

/// What all models have complained of.
fn model_logs(models: &[(usize, NicModelProcess)]) -> String {
    models.iter().map(|(_, model)| model.logs()).collect()
}

/// The first connection to `listener`, or an error once `qemu` has ended.
fn accept(listener: &UnixListener, qemu: &mut Running) -> Result<UnixStream> {
    listener.set_nonblocking(true)?;
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                return Ok(stream);
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
        if let Some(status) = qemu.try_wait()? {
            // Its last words come through a pipe that a thread reads.
            std::thread::sleep(Duration::from_millis(100));
            bail!("it ended with {status}");
        }
        ensure!(
            Instant::now() < deadline,
            "it does not connect to its sockets"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A log of what a console says on `stream`, whose bytes `echo` gets as well.
pub(crate) fn read_console(mut stream: impl Read + Send + 'static, mut echo: Option<Echo>) -> Log {
    let log = Log::default();
    let writer = log.clone();
    std::thread::spawn(move || {
        let mut line = Vec::new();
        let mut buffer = [0; 4096];
        while let Ok(n @ 1..) = stream.read(&mut buffer) {
            let bytes = &buffer[..n];
            if let Some(echo) = &mut echo {
                echo(bytes);
            }
            for &byte in bytes {
                line.push(byte);
                if byte == b'\n' {
                    writer.push(&without_escapes(&line));
                    line.clear();
                }
            }
        }
        if !line.is_empty() {
            writer.push(&without_escapes(&line));
        }
        writer.close();
    });
    log
}

/// The text of `line`: firmware and boot loaders colour it, and move the cursor, by
/// control sequences (ECMA-48 section 5.4).
fn without_escapes(line: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(line.len());
    let mut bytes = line.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            0x1b if bytes.next() == Some(b'[') => {
                bytes.find(|byte| (0x40..=0x7e).contains(byte));
                text.push(b' ');
            }
            b'\r' | b'\n' | b'\t' => text.push(byte),
            byte if byte >= b' ' => text.push(byte),
            _ => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_sequences_are_taken_out_of_lines() {
        let text = |line: &[u8]| String::from_utf8(without_escapes(line)).unwrap();
        assert_eq!(
            text(b"\x1b[2J\x1b[01;01Huniperf: a\tb\r\n"),
            "  uniperf: a\tb\r\n"
        );
        assert_eq!(text(b"a\x08\x1bMb\x1b[3"), "ab ");
    }

    #[test]
    fn the_ready_line_is_read() {
        let ready = Ready::parse("uniperf: ready 10.77.0.2 143").unwrap();
        assert_eq!(ready.address.to_string(), "10.77.0.2");
        assert_eq!(ready.milliseconds, 143);
        for line in [
            "uniperf: ready",
            "uniperf: ready 10.77 1",
            "uniperf: ready 10.77.0.2",
        ] {
            assert_eq!(Ready::parse(line), None, "{line}");
        }
    }
}
