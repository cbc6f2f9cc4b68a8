//! A report as tables for people.

use std::fmt::Write;

use super::case::{Case, Contestant};
use super::goals::{BOOT, Bound, GOALS};
use super::report::{Metric, Report};
use crate::measure::Summary;
use crate::measure::table::{Table, alone, number, with_spread};
use crate::netperf::Test;

const UNIPERF: Contestant = Contestant::Uniperf;
const LINUX: Contestant = Contestant::Linux;
const REFLECT: Contestant = Contestant::Reflect;
const HOST: Contestant = Contestant::Host;

const FLOWS: &str = "Many open connections: TCP_RR 1,1 over all of them in turn";

/// All tables of `report`.
pub fn render(report: &Report) -> String {
    let mut text = heading(report);
    let sections = if report.settings.icount {
        vec![
            ("Guest instructions", instructions(report)),
            (FLOWS, flows(report, Metric::Instructions)),
        ]
    } else {
        vec![
            ("Throughput and rate", rates(report)),
            ("Remote CPU and service demand", demand(report)),
            (
                "The ceiling, rx=reflect: the same image without its stack, trans/s",
                ceiling(report),
            ),
            ("Latency of the pings, us", latencies(report)),
            (
                "The clients alone, with this machine's netserver",
                clients(report),
            ),
            (FLOWS, flows(report, Metric::Rate)),
            ("Power-on to ready", boots(report)),
        ]
    };
    for (title, table) in sections {
        if !table.is_empty() {
            let _ = write!(text, "\n{title}\n\n{table}");
        }
    }
    text
}

fn heading(report: &Report) -> String {
    let (about, settings) = (&report.about, &report.settings);
    let linux = about.linux.as_deref().unwrap_or("no other guest");
    let way = match settings.icount {
        true => ", -icount shift=0".to_owned(),
        false => format!(", {} s a test", settings.seconds),
    };
    let append = match settings.append.as_str() {
        "" => String::new(),
        append => format!(" with '{append}'"),
    };
    let spread = match settings.rounds {
        1 => "1 round".to_owned(),
        rounds => format!("medians of {rounds} rounds, ± half of the range"),
    };
    let noise = match settings.icount {
        true => String::new(),
        false => about.noise(),
    };
    format!(
        "uniperf {}{append} and {linux}\nQEMU {}, {}, {}; netperf {}; {} x {}\n\
         {}{way}; {spread}\n{noise}",
        about.uniperf,
        about.qemu,
        settings.nic,
        settings.accelerator,
        about.netperf,
        about.cpus,
        about.cpu,
        about.date,
    )
}

/// One figure of both guests with its ratio and goals, a row a test.
fn compare(report: &Report, metric: Metric) -> Table {
    let mut table = Table::new(["test", "<", "uniperf", "linux", "ratio", "<goal"]);
    for case in Case::NETPERF.map(Case::Netperf) {
        let own = report.summary(UNIPERF, case, metric);
        let other = report.summary(LINUX, case, metric);
        if own.is_none() && other.is_none() {
            continue;
        }
        table.push(vec![
            case.to_string(),
            metric.unit(case.work()).into(),
            with_spread(own.as_ref()),
            with_spread(other.as_ref()),
            ratio(report, (UNIPERF, case), (LINUX, case), metric),
            verdicts(report, case, metric, |against| against != Some(REFLECT)),
        ]);
    }
    table
}

fn rates(report: &Report) -> Table {
    compare(report, Metric::Rate)
}

fn demand(report: &Report) -> Table {
    let mut table = Table::new([
        "test",
        "CPU: uniperf",
        "linux",
        "<",
        "demand: uniperf",
        "linux",
        "ratio",
    ]);
    for case in Case::NETPERF.map(Case::Netperf) {
        let of = |contestant, metric| report.summary(contestant, case, metric);
        let percent = |contestant| match of(contestant, Metric::RemoteCpu) {
            Some(cpu) => format!("{} %", number(cpu.median)),
            None => "-".into(),
        };
        let demand = |contestant| with_spread(of(contestant, Metric::ServiceDemand).as_ref());
        if of(UNIPERF, Metric::ServiceDemand).is_none() {
            continue;
        }
        table.push(vec![
            case.to_string(),
            percent(UNIPERF),
            percent(LINUX),
            Metric::ServiceDemand.unit(case.work()).into(),
            demand(UNIPERF),
            demand(LINUX),
            ratio(
                report,
                (UNIPERF, case),
                (LINUX, case),
                Metric::ServiceDemand,
            ),
        ]);
    }
    table
}

/// Each test beside the ping at the reflector that it is held against.
fn ceiling(report: &Report) -> Table {
    let mut table = Table::new([
        "test", "<against", "reflect", "uniperf", "ratio", "linux", "ratio", "<goal",
    ]);
    let pairs = [
        (Case::PING, Case::PING),
        (Case::Netperf(Test::UdpRr), Case::PING),
        (Case::Netperf(Test::TcpRr), Case::PING_BYTE),
        (Case::PING_FRAME, Case::PING_FRAME),
    ];
    for (case, of) in pairs {
        let rate = |contestant| report.summary(contestant, case, Metric::Rate);
        let (own, other) = (rate(UNIPERF), rate(LINUX));
        let Some(top) = report.summary(REFLECT, of, Metric::Rate) else {
            continue;
        };
        if own.is_none() && case != of {
            continue;
        }
        table.push(vec![
            case.to_string(),
            of.to_string(),
            with_spread(Some(&top)),
            with_spread(own.as_ref()),
            ratio(report, (UNIPERF, case), (REFLECT, of), Metric::Rate),
            with_spread(other.as_ref()),
            ratio(report, (LINUX, case), (REFLECT, of), Metric::Rate),
            verdicts(report, case, Metric::Rate, |against| {
                against == Some(REFLECT)
            }),
        ]);
    }
    table
}

/// What a transaction costs with ever more connections open.
fn flows(report: &Report, metric: Metric) -> Table {
    let mut table = Table::new([
        "open connections",
        "<",
        "uniperf",
        "of 1",
        "frames in",
        "<goal",
        "linux",
        "of 1",
        "frames in",
    ]);
    let cell = |contestant, case, metric| match report.summary(contestant, case, metric) {
        Some(summary) => with_spread(Some(&summary)),
        None => match report.failures.get(&(contestant, case)) {
            Some(why) => why.split(':').next().unwrap_or("failed").to_owned(),
            None => "-".into(),
        },
    };
    let base = Case::FLOWS[0];
    for case in Case::FLOWS {
        let Some(count) = case.connections() else {
            continue;
        };
        let count = match case {
            Case::Scattered(_) => format!("{count}, scattered"),
            _ => count.to_string(),
        };
        let of = |contestant| ratio(report, (contestant, case), (contestant, base), metric);
        let frames = |contestant| alone(report.summary(contestant, case, Metric::Frames).as_ref());
        let row = vec![
            count,
            metric.unit(case.work()).into(),
            cell(UNIPERF, case, metric),
            of(UNIPERF),
            frames(UNIPERF),
            verdicts(report, case, metric, |_| true),
            cell(LINUX, case, metric),
            of(LINUX),
            frames(LINUX),
        ];
        let is_known = |contestant| {
            let key = (contestant, case);
            report.samples.contains_key(&key) || report.failures.contains_key(&key)
        };
        if is_known(UNIPERF) || is_known(LINUX) {
            table.push(row);
        }
    }
    table
}

/// How long each answer to a ping took.
fn latencies(report: &Report) -> Table {
    let mut table = Table::new(["contestant", "<client", "min", "median", "p99"]);
    for (contestant, case) in report.samples.keys() {
        let time = |metric| report.summary(*contestant, *case, metric);
        let Some(median) = time(Metric::LatencyMedian) else {
            continue;
        };
        table.push(vec![
            contestant.to_string(),
            case.to_string(),
            alone(time(Metric::LatencyMin).as_ref()),
            with_spread(Some(&median)),
            with_spread(time(Metric::LatencyP99).as_ref()),
        ]);
    }
    table
}

fn clients(report: &Report) -> Table {
    let mut table = Table::new(["client", "<", "rate", "time each"]);
    for case in HOST.cases(false) {
        let Some(rate) = report.summary(HOST, case, Metric::Rate) else {
            continue;
        };
        table.push(vec![
            case.to_string(),
            Metric::Rate.unit(case.work()).into(),
            with_spread(Some(&rate)),
            format!("{} us", number(1e6 / rate.median)),
        ]);
    }
    table
}

fn boots(report: &Report) -> Table {
    let mut table = Table::new(["contestant", "seconds", "of these in the guest", "<goal"]);
    for contestant in Contestant::ALL {
        let (Some(boot), Some(all)) = (report.boot(contestant), report.boots.get(&contestant))
        else {
            continue;
        };
        let own = all
            .iter()
            .map(|boot| boot.guest_milliseconds as f64 / 1000.0);
        let own = Summary::of(own);
        let verdict = match contestant {
            UNIPERF => BOOT.verdict(boot.median),
            _ => String::new(),
        };
        table.push(vec![
            contestant.to_string(),
            with_spread(Some(&boot)),
            alone(own.as_ref()),
            verdict,
        ]);
    }
    table
}

/// What netperf's tests cost, and the reflector as the floor below them.
fn instructions(report: &Report) -> Table {
    let metric = Metric::Instructions;
    let mut table = compare(report, metric);
    for case in REFLECT.cases(true) {
        let Some(own) = report.summary(REFLECT, case, metric) else {
            continue;
        };
        table.push(vec![
            format!("{case}, rx=reflect"),
            metric.unit(case.work()).into(),
            with_spread(Some(&own)),
        ]);
    }
    table
}

/// How many times the figure of `other` that of `own` is.
fn ratio(
    report: &Report,
    own: (Contestant, Case),
    other: (Contestant, Case),
    metric: Metric,
) -> String {
    let summary = |(contestant, case)| report.summary(contestant, case, metric);
    match (summary(own), summary(other)) {
        (Some(own), Some(other)) if other.median > 0.0 => number(own.median / other.median),
        _ => "-".into(),
    }
}

/// The goals of a test, of those against whom `wanted` accepts.
fn verdicts(
    report: &Report,
    case: Case,
    metric: Metric,
    wanted: impl Fn(Option<Contestant>) -> bool,
) -> String {
    let goals = GOALS.iter().filter(|goal| {
        goal.case == case && goal.metric == metric && wanted(goal.against.map(|(who, _)| who))
    });
    let texts = goals.filter_map(|goal| {
        let figure = goal.figure(report)?;
        let of = match (goal.bound, goal.against) {
            (Bound::AtMost(_), Some((who, _))) if who != UNIPERF => format!(" of {who}"),
            _ => String::new(),
        };
        let verdict = goal.bound.verdict(figure);
        Some(verdict.replacen(':', &format!("{of}:"), 1))
    });
    texts.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::tests::report;
    use crate::bench::target::Sample;

    #[test]
    fn rates_stand_side_by_side_with_their_ratio() {
        let text = render(&report());
        let line = |begin: &str| text.lines().find(|line| line.starts_with(begin)).unwrap();
        let words: Vec<_> = line("TCP_RR").split_whitespace().collect();
        assert_eq!(
            words,
            [
                "TCP_RR", "1,1", "trans/s", "6,000", "±2%", "4,000", "±2%", "1.50"
            ]
        );
        let share = line("TCP_RR 1,1  ping UDP 1");
        assert!(share.ends_with("≥ 0.95: missed"), "{text}");
        assert!(share.contains(" 0.75 "), "{text}");
        assert!(line("uniperf  ").ends_with("≤ 0.30: met"), "{text}");
        assert!(!text.contains("Guest instructions"));
        assert!(
            !text.contains("The clients alone"),
            "nothing of it was measured"
        );
    }

    #[test]
    fn instructions_come_with_all_their_goals() {
        let mut report = report();
        report.settings.icount = true;
        report.samples.clear();
        let mut add = |contestant, case, count: f64| {
            let sample = Sample {
                instructions: Some(count),
                ..Sample::default()
            };
            report.samples.insert((contestant, case), vec![sample]);
        };
        let case = Case::Netperf(Test::TcpRr);
        add(UNIPERF, case, 4100.0);
        add(LINUX, case, 42_000.0);
        add(REFLECT, Case::PING, 900.0);
        let text = render(&report);
        assert!(
            text.contains("≤ 4,000: missed, ≤ 0.10 of linux: met"),
            "{text}"
        );
        assert!(
            text.contains("ping UDP 100, rx=reflect  instr/trans      900"),
            "{text}"
        );
        assert!(
            !text.contains("Power-on"),
            "by a clock that is not the guest's"
        );
    }

    #[test]
    fn many_connections_are_held_against_one_and_what_does_not_fit_is_said() {
        let mut report = report();
        report.samples.clear();
        let mut add = |contestant, case, rate: f64| {
            let sample = Sample {
                rate: Some(rate),
                frames: Some(1.125),
                ..Sample::default()
            };
            report.samples.insert((contestant, case), vec![sample]);
        };
        add(UNIPERF, Case::Flows(1), 6000.0);
        add(UNIPERF, Case::Flows(10_000), 5700.0);
        add(LINUX, Case::Flows(1), 3000.0);
        let why = "1691 fit: client 1692 is turned away".to_owned();
        report.failures.insert((LINUX, Case::Flows(10_000)), why);
        let text = render(&report);
        let line = text
            .lines()
            .find(|line| line.starts_with("10000 "))
            .unwrap();
        let words: Vec<_> = line.split_whitespace().collect();
        assert_eq!(
            words,
            [
                "10000", "trans/s", "5,700", "0.95", "1.12", "≥", "0.90:", "met", "1691", "fit",
                "-", "-"
            ],
            "{text}"
        );
        let failures = &report.json()["failures"];
        assert_eq!(failures[0]["test"], "TCP_RR over 10000 connections");
    }
}
