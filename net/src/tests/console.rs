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
