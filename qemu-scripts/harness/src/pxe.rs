//! `pxe`: from power-on over the network to netperf's table.

use std::process::{Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

use crate::cli::PxeOptions;
use crate::run::{SLACK, code, show};
use uniperf_harness::netboot::BootServer;
use uniperf_harness::{Appliance, Netperf, Ready, Test};

/// From power-on to ready: firmware takes its time, QEMU's translator more.
const BOOT_TIMEOUT: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(100);

/// Boots, runs TCP_RR, powers off.
pub fn run(options: &PxeOptions) -> Result<ExitCode> {
    let way = options.way()?;
    let mut network = options.network()?;
    eprintln!("uniperf: preparing what the servers offer");
    let server = way.serve(&options.image()?, &options.arguments(), &mut network)?;
    let machine = options.machine();
    let begin = Instant::now();
    eprintln!("uniperf: power on; the firmware boots from the network");
    let mut appliance = Appliance::start_by_firmware(&way.start(), &machine, network)?;
    let result = measure(&mut appliance, &server, begin, options);
    if !matches!(&result, Ok(status) if status.success()) {
        eprintln!("{}\n{}", appliance.logs(), servers_log(&appliance, &server));
    }
    let status = result?;
    if !status.success() {
        return Ok(code(status));
    }
    eprintln!("uniperf: powering off");
    let end = appliance.power_off()?;
    ensure!(
        end.success(),
        "QEMU has ended with {end}\n{}",
        appliance.logs()
    );
    Ok(ExitCode::SUCCESS)
}

fn measure(
    appliance: &mut Appliance,
    server: &BootServer,
    begin: Instant,
    options: &PxeOptions,
) -> Result<ExitStatus> {
    let ready = follow(appliance, server, begin)?;
    eprintln!(
        "uniperf: {} is ready, {:.1} s after power-on and {} ms after its kernel's first instruction",
        ready.address,
        begin.elapsed().as_secs_f32(),
        ready.milliseconds
    );
    let length = Duration::from_secs(options.length);
    let netperf: Command = Netperf::new(appliance, ready)
        .length(length)
        .test_command(Test::TcpRr);
    show(appliance, netperf, Some(length + SLACK))
}

/// Waits until the appliance is ready, and says what happens meanwhile.
fn follow(appliance: &mut Appliance, server: &BootServer, begin: Instant) -> Result<Ready> {
    let mut said = 0;
    loop {
        let steps = steps(appliance, server);
        for step in steps.iter().skip(said) {
            eprintln!("uniperf: {step}");
        }
        said = steps.len();
        let console = appliance.console().text();
        if console.contains("uniperf: ready ") {
            return appliance.ready(POLL);
        }
        if let Some(status) = appliance.try_wait()? {
            bail!("the machine has ended with {status}");
        }
        if begin.elapsed() > BOOT_TIMEOUT {
            bail!("not ready after {} s", BOOT_TIMEOUT.as_secs());
        }
        std::thread::sleep(POLL);
    }
}

/// What the servers have done for the machine up to now, in order for each of them.
fn steps(appliance: &Appliance, server: &BootServer) -> Vec<String> {
    let tap = appliance.network().as_tap().ok();
    let log = tap
        .and_then(|tap| tap.dhcp())
        .map(|dhcp| dhcp.log().since(0));
    let dnsmasq = log.unwrap_or_default().into_iter().filter_map(|line| {
        let told = ["DHCPACK", "dnsmasq-tftp: sent", "dnsmasq-tftp: failed"];
        told.iter().any(|word| line.contains(word)).then_some(line)
    });
    let http = server
        .requests()
        .into_iter()
        .map(|line| format!("HTTP: {line}"));
    dnsmasq.chain(http).collect()
}

fn servers_log(appliance: &Appliance, server: &BootServer) -> String {
    let tap = appliance.network().as_tap().ok();
    let dnsmasq = tap.and_then(|tap| tap.dhcp()).map(|dhcp| dhcp.log().text());
    let mut text = String::new();
    if let Some(dnsmasq) = dnsmasq {
        text += &format!("--- DHCP and TFTP server\n{dnsmasq}\n---");
    }
    let requests = server.requests();
    if !requests.is_empty() {
        text += &format!("\n--- HTTP server\n{}\n---", requests.join("\n"));
    }
    text
}
