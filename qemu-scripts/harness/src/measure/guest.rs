//! A guest that is measured: booted in a network namespace and on a tap of its own.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::appliance::{Appliance, BOOT_TIMEOUT, Ready};
use crate::counters::Counters;
use crate::machine::{Image, Machine};
use crate::network::Network;

/// QEMU's e1000 is deaf for a second after its driver has enabled it; what comes
/// in that time would be answered late.
const SETTLE: Duration = Duration::from_millis(1300);

/// A guest that runs; ended when it is dropped.
pub struct Guest {
    appliance: Appliance,
    ready: Ready,
}

/// How long it took to boot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Boot {
    /// Seconds from the start of QEMU's process to the ready line.
    pub power_on_to_ready: f64,
    /// Milliseconds that the guest says it took, from its first instruction.
    pub guest_milliseconds: u64,
}

impl Guest {
    /// Boots `image` in `machine`, and waits until it can be measured.
    pub fn boot(image: &Image, machine: &Machine) -> Result<(Self, Boot)> {
        let mut network = Network::tap()?;
        // Made before the clock runs, as it is none of the guest's work.
        network.as_tap_mut()?.tap(0)?;
        let begin = Instant::now();
        let mut appliance = Appliance::start(image, machine, network)?;
        let ready = match appliance.ready(BOOT_TIMEOUT) {
            Ok(ready) => ready,
            Err(error) => bail!("{error:#}\n{}", appliance.logs()),
        };
        let boot = Boot {
            power_on_to_ready: begin.elapsed().as_secs_f64(),
            guest_milliseconds: ready.milliseconds,
        };
        std::thread::sleep(SETTLE);
        Ok((Self { appliance, ready }, boot))
    }

    /// The network it is attached to.
    pub fn network(&self) -> &Network {
        self.appliance.network()
    }

    /// Where netperf reaches it.
    pub fn endpoint(&self) -> (IpAddr, u16) {
        self.appliance.endpoint(self.ready)
    }

    /// The line of the console that begins with `prefix`, without it.
    pub fn console_line(&self, prefix: &str) -> Option<String> {
        let lines = self.appliance.console().since(0);
        lines
            .iter()
            .find_map(|line| Some(line.strip_prefix(prefix)?.to_owned()))
    }

    /// The appliance's counters.
    pub fn counters(&mut self) -> Result<Counters> {
        self.appliance.counters()
    }

    /// What the Linux guest's shell prints when told `command`, as far as whole
    /// lines go.
    pub fn shell(&mut self, command: &str, timeout: Duration) -> Result<String> {
        let from = self.appliance.console().len();
        // The sum is not in the command, which the console repeats.
        self.appliance
            .type_line(&format!("{command}; echo end $((40+2))"))?;
        let what = "answer of the guest's shell";
        let ends = |line: &str| line.trim() == "end 42";
        let console = self.appliance.console();
        let (end, _) = console
            .wait_for(from, timeout, what, ends)
            .with_context(|| format!("told `{command}`"))?;
        Ok(console.since(from)[..end - from].join("\n"))
    }

    /// Switches it off.
    pub fn end(mut self) -> Result<()> {
        let status = self.appliance.power_off()?;
        ensure!(
            status.success(),
            "QEMU has ended with {status}\n{}",
            self.appliance.logs()
        );
        Ok(())
    }

    /// Its console, for a failure.
    pub fn logs(&self) -> String {
        self.appliance.logs()
    }
}
