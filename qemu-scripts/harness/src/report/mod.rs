//! A report of how the appliance does on somebody's hardware, for those who have none of
//! that kind: registers, counters, and what came of every test, in one text file.

mod console;
mod file;
mod host;
mod network;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;

pub use console::{Console, ConsoleError, Question};
use file::ReportFile;
use host::Host;
use network::{Trial, find_netserver};

use crate::cleanup::{LastWords, give_way_to_signal};
use crate::counters::Counters;

/// How the file's name begins unless it is given.
const PREFIX: &str = "uniperf-report";
/// How long the console may take to answer: all registers take half a second.
const CONSOLE_TIMEOUT: Duration = Duration::from_secs(10);
/// What the person is to add.
const TO_ADD: &str = "\
To be filled in by you, as the appliance cannot know it:
board (maker, model):
firmware (version):
cable and switch, or a cable straight to this machine:
boot arguments of the appliance:
its console from `uniperf: version` to `ready`, if you can copy it:
";
/// What is said in the place of what only the console tells.
const NO_CONSOLE: &str = "\
Missing, as no --serial was given: registers of the NIC, the PHY and PCI, and counters.
They are the most useful part. Connect the appliance's first serial port by a null-modem
cable with this machine (or a USB adapter here), and run this again with --serial
/dev/ttyS0 (or /dev/ttyUSB0). Where you reach its console in another way, by serial over
LAN perhaps: type `hardware` and `counters` there, and add what they print.";

/// What to report of.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the appliance's netserver listens.
    pub server: SocketAddr,
    /// The port of this machine that its console is connected with.
    pub serial: Option<PathBuf>,
    /// The file; a name with the time in it unless given.
    pub out: Option<PathBuf>,
    /// How long each test takes.
    pub seconds: u64,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reported {
    /// The file.
    pub path: PathBuf,
    /// What has failed, in words.
    pub failures: Vec<String>,
}

/// Writes the report, saying on the terminal how far it is. What fails is part of it.
///
/// # Errors
///
/// The file cannot be written, or the console that was named does not answer: there is
/// nothing then that would be worth the time.
pub fn run(options: &Options) -> Result<Reported> {
    report(options, &Trial::all())
}

fn report(options: &Options, trials: &[Trial]) -> Result<Reported> {
    let console = options.serial.as_deref().map(greet).transpose()?;
    let host = Host::look(options.server.ip())?;
    let path = match &options.out {
        Some(path) => path.clone(),
        None => host.file_name(PREFIX).into(),
    };
    let file = ReportFile::create(&path)?;
    say(&format!("writing {}", path.display()));
    let _last_words = last_words(file.try_clone()?);
    let mut report = Report {
        file,
        console,
        failures: Vec::new(),
    };
    report.begin(&host, options)?;
    let before = report.ask_before()?;
    report.try_all(trials, options)?;
    report.ask_after(before)?;
    report.end()?;
    Ok(Reported {
        path,
        failures: report.failures,
    })
}

fn say(what: &str) {
    eprintln!("uniperf: {what}");
}

/// A console that has answered.
fn greet(device: &Path) -> Result<Console, ConsoleError> {
    say(&format!("asking the console on {}", device.display()));
    let mut console = Console::open(device)?;
    console.greet(CONSOLE_TIMEOUT)?;
    Ok(console)
}

/// Says in the file, and on the terminal, that somebody has stopped it.
fn last_words(mut file: ReportFile) -> LastWords {
    LastWords::new(move || {
        let _ = file.section("Stopped by a signal: what would follow is missing");
        say(&format!(
            "what was found so far is in {}",
            file.path().display()
        ));
    })
}

/// A report in the making.
struct Report {
    file: ReportFile,
    console: Option<Console>,
    failures: Vec<String>,
}

impl Report {
    fn begin(&mut self, host: &Host, options: &Options) -> Result<()> {
        self.file.add("uniperf report")?;
        self.file.section("Who")?;
        self.file.add(TO_ADD)?;
        self.file.section("What with")?;
        self.file.add(&host.render())?;
        self.file.add(&format!(
            "appliance        {}\ntests            {} s each",
            options.server.ip(),
            options.seconds
        ))
    }

    fn fail(&mut self, what: &str, why: &str) -> Result<()> {
        give_way_to_signal();
        let first = why.lines().next().unwrap_or_default();
        say(&format!("{what} failed: {first}"));
        self.failures.push(format!("{what}: {first}"));
        self.file.add_failure(what, why)
    }

    /// Registers and counters from before anything was tried.
    fn ask_before(&mut self) -> Result<Option<Counters>> {
        if self.console.is_none() {
            self.file.section("Registers and counters")?;
            self.file.add(NO_CONSOLE)?;
            return Ok(None);
        }
        self.ask("Registers before", Question::Hardware)?;
        let counters = self.ask("Counters before", Question::Counters)?;
        Ok(counters.map(|lines| Counters::parse(lines.iter().map(String::as_str))))
    }

    /// The same from after it, and what has changed.
    fn ask_after(&mut self, before: Option<Counters>) -> Result<()> {
        if self.console.is_none() {
            return Ok(());
        }
        let counters = self.ask("Counters after", Question::Counters)?;
        if let (Some(before), Some(lines)) = (before, counters) {
            let after = Counters::parse(lines.iter().map(String::as_str));
            self.file.section("Counters that have changed")?;
            self.file.add(&changes(&before, &after))?;
        }
        self.ask("Registers after", Question::Hardware)?;
        let messages = self.console.as_ref().map(Console::messages);
        self.file.section("What the console said meanwhile")?;
        self.file.add(&messages.unwrap_or_default().join("\n"))
    }

    /// Adds a section with the console's answer; returns that, if there is one.
    fn ask(&mut self, title: &str, question: Question) -> Result<Option<Vec<String>>> {
        let Some(console) = &mut self.console else {
            return Ok(None);
        };
        say(&format!("asking the console for {}", question.command()));
        let answer = console.ask(question, CONSOLE_TIMEOUT);
        self.file.section(title)?;
        match answer {
            Ok(lines) => {
                self.file.add(&lines.join("\n"))?;
                Ok(Some(lines))
            }
            Err(error) => {
                self.fail(title, &error.to_string())?;
                Ok(None)
            }
        }
    }

    fn try_all(&mut self, trials: &[Trial], options: &Options) -> Result<()> {
        let mut section = "";
        let mut is_found = None;
        for (number, trial) in trials.iter().enumerate() {
            if section != trial.section() {
                section = trial.section();
                self.file.section(section)?;
            }
            let name = trial.name();
            if trial.needs_netserver() && is_found.is_none() {
                let found = find_netserver(options.server);
                if let Err(error) = &found {
                    self.fail("netserver", &format!("{error:#}"))?;
                }
                is_found = Some(found.is_ok());
            }
            if trial.needs_netserver() && is_found == Some(false) {
                self.file.add(&format!("{name}: not tried"))?;
                continue;
            }
            say(&format!("{} of {}: {name}", number + 1, trials.len()));
            match trial.run(options.server, options.seconds) {
                Ok(shown) => {
                    say(&format!("    {}", shown.summary));
                    self.file.add(&format!("{name}: {}", shown.summary))?;
                    if !shown.text.is_empty() {
                        self.file.add(&format!("{}\n", shown.text.trim_end()))?;
                    }
                }
                Err(error) => self.fail(&name, &format!("{error:#}"))?,
            }
        }
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        self.file.section("Summary")?;
        match self.failures.len() {
            0 => self.file.add("Everything that was tried went well.")?,
            count => self.file.add(&format!("{count} failed:"))?,
        }
        for failure in &self.failures {
            self.file.add(&format!("- {failure}"))?;
        }
        self.file.add("\nend of report")
    }
}

/// The counters that differ, one a line, with both values and the difference.
fn changes(before: &Counters, after: &Counters) -> String {
    let mut text = format!(
        "{:<32} {:>16} {:>16} {:>17}\n",
        "", "before", "after", "difference"
    );
    for (name, value) in &after.0 {
        let old = before.get(name).unwrap_or_default();
        if old != *value {
            let difference = i128::from(*value) - i128::from(old);
            text += &format!("{name:<32} {old:>16} {value:>16} {difference:>+17}\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::netperf::Test;

    #[test]
    fn changed_counters_are_shown_with_their_difference() {
        let before = Counters::parse(["a 1", "b 2", "rest.c 9"]);
        let after = Counters::parse(["a 1", "b 300", "new 1", "rest.c 7"]);
        let text = changes(&before, &after);
        let rows: Vec<Vec<_>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        let expected: [&[&str]; 4] = [
            &["before", "after", "difference"],
            &["b", "2", "300", "+298"],
            &["new", "0", "1", "+1"],
            &["rest.c", "9", "7", "-2"],
        ];
        assert_eq!(rows, expected);
    }

    const NETPERF: Trial = Trial::Netperf(Test::TcpRr);

    /// A report of `server`, by its text, and what failed.
    fn reported(server: SocketAddr, trials: &[Trial]) -> (String, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        let options = Options {
            server,
            serial: None,
            out: Some(folder.path().join("report")),
            seconds: 1,
        };
        let reported = report(&options, trials).unwrap();
        let text = std::fs::read_to_string(&reported.path).unwrap();
        assert!(text.ends_with("\nend of report\n"), "{text}");
        (text, reported.failures)
    }

    #[test]
    fn a_report_of_nobody_says_what_is_missing_and_why() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        drop(listener);
        let (text, failures) = reported(server, &[Trial::Ping(17), NETPERF]);
        assert!(text.contains("run this again with --serial"), "{text}");
        assert!(text.contains("FAILED: netserver: nobody listens at 127.0.0.1:"));
        assert!(text.contains("\nTCP_RR: not tried\n"), "{text}");
        let [failure] = &failures[..] else {
            panic!("{failures:?}");
        };
        assert!(failure.starts_with("netserver: nobody"));
        assert!(text.contains(&format!("\n- {failure}\n")), "{text}");
    }

    #[test]
    fn what_fails_does_not_end_the_report() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        // It hangs up on everyone.
        std::thread::spawn(move || listener.incoming().for_each(drop));
        let streams = [Trial::StreamFrom, Trial::StreamTo, Trial::Messages];
        let trials = [&[NETPERF, Trial::UdpInFrames], &streams[..]].concat();
        let (text, failures) = reported(server, &trials);
        assert_eq!(failures.len(), trials.len(), "{failures:?}");
        for trial in trials {
            let line = format!("\nFAILED: {}: ", trial.name());
            assert!(text.contains(&line), "{line} in {text}");
        }
    }

    #[test]
    fn a_console_that_is_not_there_ends_it_before_anything_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report");
        let options = Options {
            server: ([127, 0, 0, 1], 1).into(),
            serial: Some("/nonexistent/tty".into()),
            out: Some(path.clone()),
            seconds: 1,
        };
        let error = run(&options).unwrap_err().to_string();
        assert!(error.contains("cannot open"), "{error}");
        assert!(!path.exists());
    }
}
