//! Linux as the judge of the myri10ge model: Debian's kernel with its own, unmodified
//! `myri10ge.ko` and Myricom's firmware drives it, and has nothing to complain of.

use uniperf_harness::Test;

use crate::judge::{self, Judge, numbers};

/// Linux waits for one millisecond for the commands of its filters, as it holds a lock then.
/// The model is another process, which may not get a core for so long; it then answers
/// later, and does what it was told all the same.
const IMPATIENCE: [&str; 8] = [
    "command 20 timed out",
    "command 21 timed out",
    "command 26 timed out",
    "command 27 timed out",
    "command 28 timed out",
    "command 30 timed out",
    "Failed to set promisc mode",
    "Failed MXGEFW_",
];

/// Firmware, the link, an address, and pings of all sizes.
fn comes_up(judge: &mut Judge, firmware: &str, boundary: &str) {
    let log = judge.shell("dmesg | grep myri10ge");
    assert!(log.contains("MSI IRQ"), "{log}");
    let wanted = format!("tx bndry {boundary}, fw {firmware}");
    assert!(log.contains(&wanted), "{log}");
    for size in [
        0, 1, 17, 18, 19, 56, 84, 85, 1471, 1472, 1473, 4000, 8972, 30_000, 65_507,
    ] {
        judge.ping(50, size);
    }
}

fn offloads(judge: &mut Judge) {
    let all = [
        "rx on tx on sg on tso on gso on gro on",
        "rxvlan off rx off",
        "rx on tso off",
        "gso off gro off",
        "tx off",
        "sg off",
        "rx off tx off sg off tso off gso off gro off",
    ];
    judge::offloads(judge, &all);
    let totals = judge.totals();
    assert!(totals["tx_super_segments"] > 0, "{totals:?}");
    assert!(totals["tx_checksums"] > 0, "{totals:?}");
    judge.shell("ethtool -K eth0 rx on tx on sg on tso on gso on gro on");
}

/// What Linux shows of the firmware's counters and of its own is what the model has done.
fn statistics_agree(judge: &mut Judge) {
    for kind in ["crc", "phy", "overrun", "overflow", "runt"] {
        judge.model(&format!("fault rx {kind} 3"));
        judge.ping_some(4);
    }
    let agreed = (0..10).any(|_| {
        let linux = numbers(&judge.shell("ethtool -S eth0"), ':');
        let model = judge.totals();
        let mut pairs: Vec<_> = model
            .iter()
            .filter(|(name, _)| name.starts_with("dropped_"))
            .map(|(name, value)| (name.clone(), linux[name], *value))
            .collect();
        for (name, counted) in [("rx_packets", "rx_frames"), ("rx_bytes", "rx_bytes")] {
            pairs.push((name.to_owned(), linux[name], model[counted]));
        }
        println!("{pairs:?}");
        pairs.iter().all(|(_, linux, model)| linux == model)
    });
    assert!(agreed, "the counters do not agree");
}

/// The link goes and comes back, the interface is taken down and up, and the module out
/// and in.
fn link_changes(judge: &mut Judge) {
    for _ in 0..3 {
        judge.model("link down");
        judge.wait_for_carrier(false);
        judge.model("link up");
        judge.wait_for_carrier(true);
        judge.ping(20, 1000);
    }
    judge.shell("ip link set eth0 down; ip link set eth0 up");
    judge.wait_for_carrier(true);
    judge.run(Test::TcpRr);
    judge.shell("ethtool -C eth0 rx-usecs 0");
    judge.run(Test::TcpRr);
    judge.shell("ethtool -A eth0 rx off tx off");
    judge.run(Test::TcpStream);
    judge::module_again(judge);
}

#[test]
fn linux_accepts_the_card() {
    let mut judge = Judge::on("myri10ge", "myri10ge", &IMPATIENCE);
    comes_up(&mut judge, "myri10ge_eth_z8e.dat", "4096");
    offloads(&mut judge);
    statistics_agree(&mut judge);
    judge::multicast(&mut judge, "dropped_multicast_filtered");
    judge::mtus(&mut judge, &[4000, 9000]);
    link_changes(&mut judge);
    judge.is_content();
    assert!(judge.linux.power_off().unwrap().success());
}

/// Linux tries the firmware for aligned completions first, and finds that it is the wrong
/// one here.
#[test]
fn linux_chooses_the_other_firmware_where_completions_are_not_aligned() {
    let mut judge = Judge::on("myri10ge:unaligned", "myri10ge", &IMPATIENCE);
    let complaints = judge.model("complaints");
    assert!(complaints.contains("Unaligned"), "{complaints}");
    assert_eq!(complaints.lines().count(), 1, "{complaints}");
    judge.model("complaints clear");
    comes_up(&mut judge, "myri10ge_ethp_z8e.dat", "2048");
    for test in [Test::TcpRr, Test::TcpStream, Test::TcpMaerts] {
        judge.run(test);
    }
    judge::mtus(&mut judge, &[9000]);
    judge.is_content();
    assert!(judge.linux.power_off().unwrap().success());
}

/// A parity error: Linux finds the card rebooted, and brings it back.
#[test]
fn linux_brings_a_card_back_that_has_rebooted() {
    let mut judge = Judge::on("myri10ge", "myri10ge", &IMPATIENCE);
    judge.run(Test::TcpRr);
    judge.model("fault parity");
    let begin = std::time::Instant::now();
    while judge.totals()["hand_offs"] < 3 {
        assert!(begin.elapsed().as_secs() < 30, "it was not given firmware");
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
    judge.wait_for_carrier(true);
    let log = judge.shell("dmesg | grep 'NIC rebooted'");
    assert!(log.contains("NIC rebooted (0x101)"), "{log}");
    judge.run(Test::TcpRr);
    assert!(judge.linux.power_off().unwrap().success());
}
