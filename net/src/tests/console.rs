use crate::appliance::Exit;
use crate::testing::bench::SECOND;
use crate::testing::services::PORT;
use crate::testing::*;

#[test]
fn commands_answer() {
    let mut bench = Bench::new();
    let handle = bench.peer.connect(PORT);
    bench.run(SECOND);
    assert!(bench.peer.tcp(handle).may_send());
    for line in ["help", "sockets", "  counters ", "frobnicate 3", "", "help"] {
        bench.type_line(line);
        bench.run(SECOND / 10);
    }
    let printed = bench.printed();
    assert_eq!(printed.matches("end of commands\n").count(), 2);
    assert!(printed.contains(
        "sockets:\ntcp *:7 LISTEN\ntcp *:8 LISTEN\ntcp *:12865 LISTEN\ntcp 10.0.0.2:7 10.0.0.1:"
    ));
    assert!(printed.contains(
        " ESTABLISHED received 0 to send 0\nudp *:7 received 0 to send 0\nend of sockets\n"
    ));
    assert!(printed.contains("unknown command `frobnicate 3`; `help` lists the commands\n"));
    let counters = printed.split("counters:\n").nth(1).unwrap();
    let (counters, _) = counters.split_once("end of counters\n").unwrap();
    for line in counters.lines() {
        let (name, value) = line.split_once(' ').unwrap();
        assert!(!name.is_empty() && value.parse::<u64>().is_ok(), "{line}");
    }
    for name in [
        "rest.rx_buffers_free 256",
        "rest.flows 1",
        "rest.listeners 3",
    ] {
        assert!(counters.contains(name), "{name} in {counters}");
    }
    assert!(bench.exit.is_none());
}

#[test]
fn the_hardware_is_shown_in_rows() {
    let mut bench = Bench::new();
    bench.run(SECOND / 10);
    bench.type_line("hardware");
    bench.run(SECOND / 10);
    let printed = bench.printed();
    let shown = printed.split("hardware:\n").nth(1).unwrap();
    let (shown, _) = shown.split_once("end of hardware\n").unwrap();
    let lines: std::vec::Vec<_> = shown.lines().skip(1).collect();
    let row = |kind: &str, place: usize, words: usize| {
        let begins = std::format!("{kind} {place:03x}: ");
        let line = lines.iter().find(|line| line.starts_with(&begins)).unwrap();
        assert_eq!(line.split_whitespace().count(), words + 2, "{line}");
    };
    assert_eq!(lines.len(), 7);
    row("pci", 0x20, 8);
    row("pci", 0x40, 4);
    row("nic", 0, 3);
    row("nic", 0x100, 1);
    row("phy", 8, 2);
}

/// Something on the bus can switch off what the NIC needs of it.
#[test]
fn a_nic_that_has_lost_its_bus_gets_it_back() {
    let mut bench = Bench::new();
    bench.run(SECOND);
    bench.hardware.cut_off.set(true);
    bench.run(3 * SECOND);
    assert!(!bench.hardware.cut_off.get());
    bench.type_line("counters");
    bench.run(SECOND / 10);
    let printed = bench.printed();
    assert!(printed.contains("the NIC had lost its access to memory"));
    assert!(printed.contains("nic.cut_off 1\n"));
}

#[test]
fn poweroff_and_reboot_end_the_loop() {
    for (line, exit) in [("poweroff", Exit::PowerOff), ("reboot", Exit::Reboot)] {
        let mut bench = Bench::new();
        bench.run(SECOND / 10);
        bench.type_line(line);
        bench.run_until(SECOND, |bench| bench.exit.is_some());
        assert_eq!(bench.exit, Some(exit));
        assert!(bench.hardware.stopped.get());
    }
}

/// The console is heard while frames keep coming.
#[test]
fn a_flood_does_not_deafen_the_console() {
    let mut bench = Bench::new();
    bench.type_line("poweroff");
    let done = bench.run_until(SECOND / 10, |bench| {
        for seq in 0..64 {
            bench.inject(ping(seq, b"x"));
        }
        bench.exit.is_some()
    });
    assert!(done);
}
