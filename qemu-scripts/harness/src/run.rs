//! `boot`, `run`, `bench`, `ping`, `crowd`, `report` and `scenario`.

use std::io::{BufRead, Write};
use std::net::IpAddr;
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::cli::{
    BenchOptions, BootOptions, CrowdOptions, LinuxOptions, PingOptions, ReportOptions, RunOptions,
    Scenario,
};
use uniperf_harness::bench;
use uniperf_harness::linux_guest;
use uniperf_harness::process::{self, Running};
use uniperf_harness::report;
use uniperf_harness::scenario;
use uniperf_harness::{
    Appliance, BOOT_TIMEOUT, CONTROL_PORT, Image, Machine, Netperf, Network, Ready, Test,
};

/// The four tests of the main job.
const TESTS: [Test; 4] = [Test::TcpRr, Test::TcpStream, Test::TcpMaerts, Test::UdpRr];
/// The appliance's memory in MiB.
const MEMORY: u32 = 64;
/// What one of them may take beyond its length.
pub const SLACK: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);

/// Boots and stays until the appliance ends or a signal comes.
pub fn boot(options: &BootOptions) -> Result<ExitCode> {
    stay(&options.image()?, &options.machine(MEMORY), options)
}

/// The Linux guest, to stay or to be measured.
pub fn linux(options: &LinuxOptions) -> Result<ExitCode> {
    let boot = &options.options.boot;
    let (image, machine) = linux_guest::prepare(boot.machine(linux_guest::MEMORY))?;
    if options.run {
        return run_netperf(&image, &machine, &options.options);
    }
    stay(&image, &machine, boot)
}

/// Measures, prints the tables, and leaves the figures as JSON.
pub fn bench(options: &BenchOptions) -> Result<ExitCode> {
    let report = bench::run(&options.options()?)?;
    print!("\n{}", bench::render(&report));
    let path = bench::save(&report, &options.folder())?;
    eprintln!(
        "\nuniperf: {:.0} s in all; as JSON in {}",
        report.about.took,
        path.display()
    );
    Ok(ExitCode::SUCCESS)
}

/// Runs one of the reports, prints its tables, and leaves its files.
pub fn scenario(options: &Scenario) -> Result<ExitCode> {
    let folder = options.folder();
    let whole = match options {
        Scenario::SendpageCpu(options) => each_in_turn(&options.scenarios()?, &folder)?,
        Scenario::NapiWeight(options) => each_in_turn(&options.scenarios()?, &folder)?,
    };
    Ok(match whole {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Runs one scenario after the other, one for each NIC; whether everything was measured.
fn each_in_turn<S: scenario::Scenario>(scenarios: &[S], folder: &Path) -> Result<bool> {
    let mut whole = true;
    for scenario in scenarios {
        let outcome = scenario::run(scenario, folder)?;
        outcome.print();
        whole &= outcome.whole;
    }
    Ok(whole)
}

/// Tries an appliance on real hardware, and leaves a file for us.
pub fn report(options: &ReportOptions) -> Result<ExitCode> {
    let reported = report::run(&options.options())?;
    match reported.failures.len() {
        0 => eprintln!("uniperf: everything that was tried went well"),
        count => eprintln!("uniperf: {count} failed, which is what the report is for"),
    }
    eprintln!(
        "uniperf: the report is {}. Please write the board's name at its top, look whether \
         you want to send what it holds, and attach it to a new issue at {}/issues",
        reported.path.display(),
        env!("CARGO_PKG_REPOSITORY")
    );
    Ok(ExitCode::SUCCESS)
}

/// Sends requests and says how many were answered how quickly.
pub fn ping(options: &PingOptions) -> Result<ExitCode> {
    let length = Duration::from_secs(options.seconds);
    let bytes = usize::from(options.bytes);
    let default = match options.netperf {
        true => CONTROL_PORT,
        false => bench::REFLECTOR_PORT,
    };
    let peer = (options.host, options.port.unwrap_or(default)).into();
    let result = match options.netperf {
        true => bench::netperf_udp(peer, bytes, length)?,
        false => bench::udp(peer, bytes, length)?,
    };
    println!(
        "{:.2} transactions/s of {bytes} bytes for {:.2} s, {} lost\n\
         latency: min {:.1} us, median {:.1} us, p99 {:.1} us",
        result.rate(),
        result.elapsed,
        result.lost,
        result.min,
        result.median,
        result.p99
    );
    Ok(ExitCode::SUCCESS)
}

/// Opens tests and says how many transactions they do a second.
pub fn crowd(options: &CrowdOptions) -> Result<ExitCode> {
    let pattern = bench::Pattern {
        in_flight: options.in_flight,
        visit: options.visit,
    };
    let length = Duration::from_secs(options.seconds);
    let mut crowd = bench::Crowd::new((options.host, options.port).into())?;
    for &clients in &options.clients {
        let begin = Instant::now();
        crowd.grow(clients as usize)?;
        let opened = begin.elapsed().as_secs_f64();
        eprintln!("uniperf: {clients} clients, opened in {opened:.2} s");
        let result = crowd.run(pattern, bench::Until::Time(length))?;
        println!("{clients} clients: {:.0} transactions/s", result.rate());
    }
    crowd.close()?;
    Ok(ExitCode::SUCCESS)
}

fn stay(image: &Image, machine: &Machine, options: &BootOptions) -> Result<ExitCode> {
    let network = options.network()?;
    introduce(image, machine, &network);
    let echo = |bytes: &[u8]| {
        let mut stdout = std::io::stdout().lock();
        let _ = stdout.write_all(bytes).and_then(|()| stdout.flush());
    };
    let mut appliance = Appliance::start_with_echo(image, machine, network, Some(Box::new(echo)))?;
    let mut console = appliance.console_input()?;
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if console.write_all(format!("{line}\n").as_bytes()).is_err() {
                break;
            }
        }
    });
    loop {
        if let Some(status) = appliance.try_wait()? {
            eprintln!("uniperf: QEMU has ended with {status}");
            return Ok(code(status));
        }
        std::thread::sleep(POLL);
    }
}

fn introduce(image: &Image, machine: &Machine, network: &Network) {
    let nics: Vec<_> = machine.nics.iter().map(ToString::to_string).collect();
    eprintln!(
        "uniperf: booting {} with {}, {} MiB",
        image.path().display(),
        nics.join(" and "),
        machine.memory
    );
    let address = machine
        .append
        .split_whitespace()
        .rfind(|word| word.starts_with("ip="))
        .map_or("10.77.0.2", |word| {
            word[3..]
                .split_once('/')
                .map_or(&word[3..], |(address, _)| address)
        });
    let (host, port) = match address.parse::<IpAddr>() {
        Ok(address) => network.endpoint(address),
        Err(_) => network.endpoint(IpAddr::from([10, 77, 0, 50])),
    };
    eprintln!(
        "uniperf: once it is ready, in another terminal: {}netperf -H {host} -p {port}",
        network.prefix()
    );
    if address == "dhcp" && !network.prefix().is_empty() {
        eprintln!("uniperf: with the address that its ready line says");
    }
    eprintln!("uniperf: lines typed here go to its console; ctrl-C ends it");
}

/// Boots, runs netperf, powers off.
pub fn run(options: &RunOptions) -> Result<ExitCode> {
    let boot = &options.boot;
    run_netperf(&boot.image()?, &boot.machine(MEMORY), options)
}

fn run_netperf(image: &Image, machine: &Machine, options: &RunOptions) -> Result<ExitCode> {
    let network = options.boot.network()?;
    eprintln!("uniperf: booting {}", image.path().display());
    let mut appliance = Appliance::start(image, machine, network)?;
    let result = measure(&mut appliance, options);
    match &result {
        Ok(status) if status.success() => {}
        _ => eprintln!("{}", appliance.logs()),
    }
    let status = result?;
    if !status.success() {
        return Ok(code(status));
    }
    eprintln!("uniperf: powering off");
    let end = appliance.power_off()?;
    if !end.success() {
        eprintln!("{}", appliance.logs());
        bail!("QEMU has ended with {end}");
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(appliance: &mut Appliance, options: &RunOptions) -> Result<ExitStatus> {
    let ready = appliance.ready(BOOT_TIMEOUT)?;
    eprintln!(
        "uniperf: {} is ready, {} ms after its kernel's first instruction",
        ready.address, ready.milliseconds
    );
    if !options.netperf.is_empty() {
        let command = custom(appliance, ready, &options.netperf);
        return show(appliance, command, None);
    }
    let mut last = ExitStatus::default();
    for test in TESTS {
        let length = Duration::from_secs(options.length);
        let command = Netperf::new(appliance, ready)
            .length(length)
            .test_command(test);
        last = show(appliance, command, Some(length + SLACK))?;
        if !last.success() {
            break;
        }
    }
    Ok(last)
}

/// netperf with the user's arguments, and `-H` and `-p` where they lack.
fn custom(appliance: &Appliance, ready: Ready, arguments: &[String]) -> Command {
    let (host, port) = appliance.endpoint(ready);
    let own = arguments.iter().take_while(|word| *word != "--");
    let given = |option| own.clone().any(|word| word.starts_with(option));
    let mut command = appliance.network().command("netperf");
    if !given("-H") {
        command.args(["-H", &host.to_string()]);
    }
    if !given("-p") {
        command.args(["-p", &port.to_string()]);
    }
    command.args(arguments);
    command
}

/// Says the command and runs it with its output on the terminal, for as long as
/// the appliance runs and at most for `timeout`.
pub fn show(
    appliance: &mut Appliance,
    mut command: Command,
    timeout: Option<Duration>,
) -> Result<ExitStatus> {
    println!(
        "\n$ {}{}",
        appliance.network().prefix(),
        process::line(&command)
    );
    command.stdin(Stdio::null());
    let begin = Instant::now();
    let mut netperf = Running::start(&mut command)?;
    loop {
        if let Some(status) = netperf.wait(POLL)? {
            if !status.success() {
                eprintln!("uniperf: netperf has ended with {status}");
            }
            return Ok(status);
        }
        if let Some(status) = appliance.try_wait()? {
            bail!("the appliance has ended with {status} in the middle of the test");
        }
        if timeout.is_some_and(|timeout| begin.elapsed() > timeout) {
            bail!("netperf does not end");
        }
    }
}

/// The exit code of somebody else, as our own.
pub fn code(status: ExitStatus) -> ExitCode {
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    ExitCode::from(code.unwrap_or(1))
}
