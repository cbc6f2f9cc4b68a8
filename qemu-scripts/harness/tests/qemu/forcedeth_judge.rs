//! Linux as the judge of the forcedeth model: Debian's kernel with its own, unmodified
//! `forcedeth.ko` drives every generation, and has nothing to complain of.

use std::ops::{Deref, DerefMut};

use uniperf_harness::{Test, mac};

use crate::judge::{self, numbers};

/// What a generation has, as far as the tests differ by it.
struct Generation {
    name: &'static str,
    /// What Linux says of it when it has probed it.
    features: &'static str,
    /// Link speeds, in Mbit/s.
    speeds: &'static [u32],
    /// Checksums and segmentation can be switched.
    offloads: bool,
    /// The largest MTU.
    mtu: usize,
    /// Which groups of hardware counters there are.
    statistics: u8,
    /// It has a loopback test, and tags.
    extended_test: bool,
    /// It can send pause frames.
    pause: bool,
}

const GIGABIT: &[u32] = &[10, 100, 1000];

const NFORCE2: Generation = Generation {
    name: "nforce2",
    features: "timirq lnktim desc-v1",
    speeds: &[10, 100],
    offloads: false,
    mtu: 1500,
    statistics: 0,
    extended_test: false,
    pause: false,
};
const NFORCE3: Generation = Generation {
    name: "nforce3",
    features: "csum timirq gbit lnktim desc-v2",
    speeds: GIGABIT,
    offloads: true,
    mtu: 9100,
    ..NFORCE2
};
const CK804: Generation = Generation {
    name: "ck804",
    features: "highdma csum gbit lnktim desc-v3",
    statistics: 1,
    ..NFORCE3
};
const MCP51: Generation = Generation {
    name: "mcp51",
    features: "highdma pwrctl gbit lnktim desc-v3",
    offloads: false,
    mtu: 1500,
    ..CK804
};
const MCP55: Generation = Generation {
    name: "mcp55",
    features: "highdma csum vlan pwrctl mgmt gbit lnktim msi desc-v3",
    statistics: 2,
    extended_test: true,
    pause: true,
    ..CK804
};
const MCP61: Generation = Generation {
    name: "mcp61",
    features: "highdma pwrctl mgmt gbit lnktim msi desc-v3",
    offloads: false,
    mtu: 1500,
    ..MCP55
};
const MCP79: Generation = Generation {
    name: "mcp79",
    features: "highdma csum pwrctl gbit lnktim msi desc-v3",
    statistics: 3,
    ..MCP55
};

/// A Linux guest on a generation.
struct Judge {
    guest: judge::Judge,
    generation: &'static Generation,
}

impl Deref for Judge {
    type Target = judge::Judge;

    fn deref(&self) -> &Self::Target {
        &self.guest
    }
}

impl DerefMut for Judge {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.guest
    }
}

impl Judge {
    fn new(generation: &'static Generation) -> Self {
        let name = format!("forcedeth:{}", generation.name);
        Self {
            guest: judge::Judge::on(&name, "forcedeth", &[]),
            generation,
        }
    }
}

/// Probed, the link up, an address, and pings of all sizes.
fn comes_up(judge: &mut Judge) {
    let log = judge.shell("dmesg | grep forcedeth");
    assert!(log.contains(judge.generation.features), "{log}");
    let wanted = format!("addr {}", uniperf_harness::mac_text(mac(0)));
    assert!(log.contains(&wanted), "{log}");
    for size in [
        0, 1, 17, 18, 19, 56, 1471, 1472, 1473, 4000, 8972, 30_000, 65_507,
    ] {
        judge.ping(50, size);
    }
}

/// The self-test: link, registers, interrupt and, where there is one, loopback.
fn passes_its_self_test(judge: &mut Judge) {
    let said = judge.shell("ethtool -t eth0 offline");
    assert!(said.contains("The test result is PASS"), "{said}");
    assert_eq!(
        said.contains("loopback"),
        judge.generation.extended_test,
        "{said}"
    );
    judge.wait_for_carrier(true);
}

/// Data both ways with every offload on and off.
fn offloads(judge: &mut Judge) {
    let all: &[&str] = if judge.generation.offloads {
        &[
            "rx on tx on sg on tso on gso on gro on",
            "rxvlan off txvlan off rx off",
            "rx on tso off",
            "gso off gro off",
            "tx off",
            "sg off",
            "rx off tx off sg off tso off gso off gro off",
        ]
    } else {
        &["gso on gro on", "gso off gro off"]
    };
    judge::offloads(judge, all);
    if judge.generation.offloads {
        let totals = judge.totals();
        assert!(totals["tx_super_segments"] > 0, "{totals:?}");
        judge.shell("ethtool -K eth0 rx on tx on sg on tso on gso on gro on");
    }
}

/// What Linux has added up of the hardware's counters is what the model has done.
fn statistics_agree(judge: &mut Judge) {
    if judge.generation.statistics == 0 {
        return;
    }
    // A frame may come between the two looks.
    let agreed = (0..10).any(|_| {
        let linux = numbers(&judge.shell("ethtool -S eth0"), ':');
        let model = judge.totals();
        let mut pairs = vec![
            (linux["tx_zero_rexmt"], model["tx_frames"]),
            (
                linux["tx_bytes"],
                model["tx_bytes"] + 4 * model["tx_frames"],
            ),
            (linux["rx_packets"], model["rx_frames"]),
        ];
        if judge.generation.statistics > 1 {
            pairs.push((linux["tx_packets"], model["tx_frames"]));
            pairs.push((
                linux["rx_bytes"],
                model["rx_bytes"] + 4 * model["rx_frames"],
            ));
            pairs.push((linux["tx_pause"], model["tx_pause"]));
            pairs.push((linux["rx_drop_frame"], model["rx_dropped"]));
        }
        if judge.generation.statistics > 2 {
            let casts = ["tx_unicast", "tx_multicast", "tx_broadcast"];
            let sum = casts.iter().map(|name| linux[*name]).sum();
            pairs.push((sum, model["tx_frames"]));
        }
        println!("{}: {pairs:?}", judge.generation.name);
        pairs.iter().all(|(linux, model)| linux == model)
    });
    assert!(agreed, "the counters do not agree");
}

/// Rings and MTU change while the NIC runs.
fn rings_and_mtu(judge: &mut Judge) {
    for (rx, tx) in [(128, 64), (1024, 512), (512, 256)] {
        judge.shell(&format!("ethtool -G eth0 rx {rx} tx {tx}"));
        judge.run(Test::TcpStream);
        judge.run(Test::TcpMaerts);
    }
    if judge.generation.mtu > 1500 {
        let largest = judge.generation.mtu;
        judge::mtus(judge, &[4000, largest]);
    }
}

/// The link goes and comes back, also at other speeds, and the NIC is taken down and up.
fn link_changes(judge: &mut Judge) {
    judge.model("link down");
    judge.wait_for_carrier(false);
    let speeds = judge.generation.speeds.iter();
    for (speed, duplex) in speeds.flat_map(|mbps| [(mbps, "full"), (mbps, "half")]) {
        if *speed == 1000 && duplex == "half" {
            // Linux does not offer it.
            continue;
        }
        judge.model(&format!("link {speed} {duplex}"));
        judge.wait_for_carrier(true);
        let said = judge.shell("ethtool eth0");
        assert!(said.contains(&format!("Speed: {speed}Mb/s")), "{said}");
        assert!(
            said.to_lowercase().contains(&format!("duplex: {duplex}")),
            "{said}"
        );
        judge.ping(20, 1000);
        judge.model("link down");
        judge.wait_for_carrier(false);
    }
    judge.model("link up");
    judge.wait_for_carrier(true);
    judge.shell("ip link set eth0 down; ip link set eth0 up");
    judge.wait_for_carrier(true);
    judge.run(Test::TcpRr);
    if judge.generation.pause {
        judge.shell("ethtool -A eth0 autoneg off rx off tx off");
        judge.wait_for_carrier(true);
        judge.run(Test::TcpStream);
    }
    judge::module_again(judge);
}

/// Groups' frames, and the filter.
fn multicast(judge: &mut Judge) {
    judge::multicast(judge, "rx_filtered");
}

fn judges(generation: &'static Generation) {
    let mut judge = Judge::new(generation);
    for part in [
        comes_up,
        passes_its_self_test,
        offloads,
        statistics_agree,
        multicast,
        rings_and_mtu,
        link_changes,
    ] {
        part(&mut judge);
    }
    judge.is_content();
    assert!(judge.linux.power_off().unwrap().success());
}

#[test]
fn linux_accepts_the_nforce2() {
    judges(&NFORCE2);
}

#[test]
fn linux_accepts_the_nforce3() {
    judges(&NFORCE3);
}

#[test]
fn linux_accepts_the_ck804() {
    judges(&CK804);
}

#[test]
fn linux_accepts_the_mcp51() {
    judges(&MCP51);
}

#[test]
fn linux_accepts_the_mcp55() {
    judges(&MCP55);
}

#[test]
fn linux_accepts_the_mcp61() {
    judges(&MCP61);
}

#[test]
fn linux_accepts_the_mcp79() {
    judges(&MCP79);
}
