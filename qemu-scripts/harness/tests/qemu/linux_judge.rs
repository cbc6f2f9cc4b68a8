//! Linux as the judge of the forcedeth model: Debian's kernel with its own, unmodified
//! `forcedeth.ko` drives every generation, and has nothing to complain of.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use uniperf_harness::peers::{Capture, ping_flood};
use uniperf_harness::{Appliance, Machine, Netperf, Network, Ready, Test, linux_guest, mac};

/// How long a command on the guest's console may take.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);
/// How long Linux may take to see a change of the link.
const LINK_TIMEOUT: Duration = Duration::from_secs(4);
/// How often the cable may be plugged in again until it has.
const REPLUGS: u32 = 3;
/// What its kernel log must not say of the NIC, nor of anything at its more serious
/// levels.
const COMPLAINTS: [&str; 14] = [
    "WARNING",
    "WATCHDOG",
    "Call Trace",
    "BUG:",
    "Oops",
    "nobody cared",
    "Disabling IRQ",
    "remained",
    "recoverable",
    "tx_timeout",
    "timed out",
    "failed",
    "Invalid MAC",
    "unable to",
];
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

/// A Linux guest on a model.
struct Judge {
    generation: &'static Generation,
    linux: Appliance,
    ready: Ready,
    commands: u32,
}

impl Judge {
    fn new(generation: &'static Generation) -> Self {
        let machine = Machine {
            nics: vec![format!("forcedeth:{}", generation.name).parse().unwrap()],
            memory: linux_guest::MEMORY,
            ..Machine::default()
        };
        let (image, machine) = linux_guest::prepare(machine).unwrap();
        let (linux, ready) = Appliance::boot(&image, &machine, Network::tap().unwrap()).unwrap();
        Self {
            generation,
            linux,
            ready,
            commands: 0,
        }
    }

    /// Runs `command` in the guest. Returns what it says, and whether it ended well.
    fn try_shell(&mut self, command: &str) -> (String, bool) {
        self.commands += 1;
        let number = self.commands;
        let from = self.linux.console().len();
        // The command itself is echoed, with the quotes.
        let line = format!("({command}) 2>&1; echo '' ended-{number}''-$?");
        self.linux.type_line(&line).unwrap();
        let mark = format!("ended-{number}-");
        let end = self
            .linux
            .wait_for_line_after(from, &mark, COMMAND_TIMEOUT)
            .unwrap();
        let lines = self.linux.console().since(from);
        let said: Vec<_> = lines
            .iter()
            .take(end.0 - from)
            .skip_while(|line| !line.contains("echo ''"))
            .skip(1)
            .take_while(|line| !line.contains(&mark))
            .cloned()
            .collect();
        let status = end.1.split(&mark).nth(1).unwrap_or_default();
        (said.join("\n"), status.trim() == "0")
    }

    /// The same for one that has to end well.
    fn shell(&mut self, command: &str) -> String {
        let (said, well) = self.try_shell(command);
        assert!(well, "{command}: {said}");
        said
    }

    /// Asks the model.
    fn model(&mut self, line: &str) -> String {
        self.linux.nic_model(0).unwrap().ask(line).unwrap()
    }

    fn totals(&mut self) -> BTreeMap<String, u64> {
        numbers(&self.model("statistics"), ' ')
    }

    fn run(&self, test: Test) {
        let result = Netperf::new(&self.linux, self.ready).run(test).unwrap();
        result.check().unwrap();
        println!("{}: {test}: {:.2}", self.generation.name, result.throughput);
    }

    fn ping(&self, count: u32, size: u32) {
        let result = ping_flood(self.linux.network(), self.ready.address, count, size).unwrap();
        assert_eq!(
            (result.sent, result.received),
            (count.into(), count.into()),
            "{size}"
        );
    }

    /// Sends so many bytes through the guest and back, and compares them.
    fn echo(&mut self, len: usize) {
        let address = SocketAddr::new(self.ready.address, 9000);
        let sent: Vec<u8> = (0..len).map(|at| (at * 31 + (at >> 8) * 7) as u8).collect();
        let back = self
            .linux
            .network()
            .enter(|| {
                let mut stream = TcpStream::connect(address)?;
                stream.set_read_timeout(Some(COMMAND_TIMEOUT))?;
                let mut writer = stream.try_clone()?;
                std::thread::scope(|scope| {
                    scope.spawn(|| writer.write_all(&sent));
                    let mut back = vec![0; sent.len()];
                    stream.read_exact(&mut back)?;
                    std::io::Result::Ok(back)
                })
            })
            .unwrap()
            .unwrap();
        assert!(back == sent, "the bytes are not the same");
    }

    /// Waits until the guest's carrier is `up`.
    ///
    /// Its driver keeps an interrupt's causes until it polls, and the next interrupt's take
    /// their place: a change of the link can be lost so, with nothing to make it look
    /// again. A person would plug the cable in once more.
    fn wait_for_carrier(&mut self, up: bool) {
        for replugs in 0..=REPLUGS {
            if self.sees_carrier(up) {
                return;
            }
            println!("{}: plugged {replugs} times", self.generation.name);
            if up {
                self.model("flap 100");
            } else {
                self.model("link up");
                std::thread::sleep(Duration::from_millis(500));
                self.model("link down");
            }
        }
        panic!("the carrier does not become {up}");
    }

    fn sees_carrier(&mut self, up: bool) -> bool {
        let wanted = if up { "1" } else { "0" };
        let begin = Instant::now();
        while begin.elapsed() < LINK_TIMEOUT {
            if self.try_shell("cat /sys/class/net/eth0/carrier").0.trim() == wanted {
                return true;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        false
    }

    /// Nothing in the kernel's log is a complaint, nor does the model have one.
    fn is_content(&mut self) {
        let log = self.shell("dmesg -r");
        let bad: Vec<_> = log
            .lines()
            .filter(|line| {
                let ours = ["forcedeth", "eth0", "NETDEV"]
                    .iter()
                    .any(|w| line.contains(w));
                let serious = ["<0>", "<1>", "<2>", "<3>"]
                    .iter()
                    .any(|l| line.starts_with(l));
                let named = COMPLAINTS.iter().any(|what| line.contains(what));
                ours && named || serious || line.contains("Call Trace")
            })
            .collect();
        assert!(bad.is_empty(), "{bad:#?}");
        assert_eq!(self.model("complaints"), "");
    }
}

/// Lines of a name and a number.
fn numbers(text: &str, separator: char) -> BTreeMap<String, u64> {
    let pairs = text
        .lines()
        .filter_map(|line| line.trim().split_once(separator));
    pairs
        .filter_map(|(name, value)| Some((name.trim().to_owned(), value.trim().parse().ok()?)))
        .collect()
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

/// Data both ways with every offload on and off. What is on the wire is well-formed, and
/// what comes back is what was sent.
fn offloads(judge: &mut Judge) {
    judge.shell("nc -ll -p 9000 -e cat >/dev/null 2>&1 &");
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
    for features in all {
        judge.shell(&format!("ethtool -K eth0 {features}"));
        let capture = Capture::start(judge.linux.network()).unwrap();
        judge.echo(1 << 20);
        let report = capture.finish().unwrap().report(mac(0)).unwrap();
        assert!(report.frames > 100, "{features}");
        assert_eq!(report.bad, Vec::<String>::new(), "{features}");
        for test in [Test::TcpStream, Test::TcpMaerts] {
            judge.run(test);
        }
    }
    for test in [Test::TcpRr, Test::UdpRr] {
        judge.run(test);
    }
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

/// Frames to groups that the guest has joined come in, and others do not, unless it asks
/// for them.
fn multicast(judge: &mut Judge) {
    const FRAMES: u64 = 5;
    let send = |judge: &Judge, group: Ipv4Addr| {
        let sent = judge.linux.network().enter(|| {
            let socket = UdpSocket::bind((Ipv4Addr::new(10, 77, 0, 1), 0))?;
            for _ in 0..FRAMES {
                socket.send_to(b"to a group", (group, 9))?;
            }
            std::io::Result::Ok(())
        });
        sent.unwrap().unwrap();
        std::thread::sleep(Duration::from_millis(200));
    };
    let all_hosts = Ipv4Addr::new(224, 0, 0, 1);
    let other = Ipv4Addr::new(239, 1, 2, 3);
    let mut before = judge.totals();
    for (setting, group, accepted) in [
        ("true", other, false),
        ("true", all_hosts, true),
        ("ifconfig eth0 allmulti", other, true),
        ("ifconfig eth0 -allmulti", other, false),
        ("ifconfig eth0 promisc", other, true),
        ("ifconfig eth0 -promisc", other, false),
    ] {
        judge.shell(setting);
        send(judge, group);
        let now = judge.totals();
        let name = if accepted { "rx_frames" } else { "rx_filtered" };
        assert!(now[name] >= before[name] + FRAMES, "{setting}: {group}");
        before = now;
    }
}

/// Rings and MTU change while the NIC runs.
fn rings_and_mtu(judge: &mut Judge) {
    for (rx, tx) in [(128, 64), (1024, 512), (512, 256)] {
        judge.shell(&format!("ethtool -G eth0 rx {rx} tx {tx}"));
        judge.run(Test::TcpStream);
        judge.run(Test::TcpMaerts);
    }
    if judge.generation.mtu > 1500 {
        for mtu in [4000, judge.generation.mtu] {
            let network = judge.linux.network().as_tap().unwrap();
            let text = mtu.to_string();
            network
                .namespace()
                .ip(&["link", "set", "tap0", "mtu", &text])
                .unwrap();
            judge.shell(&format!("ip link set eth0 mtu {mtu}"));
            judge.ping(50, mtu as u32 - 28);
            judge.run(Test::TcpStream);
            judge.run(Test::TcpMaerts);
        }
        judge.shell("ip link set eth0 mtu 1500");
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
    // Its module can be taken out and put in again: the address stays what it is.
    judge.shell("ip link set eth0 down; rmmod forcedeth; modprobe forcedeth");
    let address = judge.ready.address;
    judge.shell(&format!(
        "ip link set eth0 up; ip addr add {address}/24 dev eth0"
    ));
    judge.wait_for_carrier(true);
    let said = judge.shell("cat /sys/class/net/eth0/address");
    assert!(said.contains(&uniperf_harness::mac_text(mac(0))), "{said}");
    judge.run(Test::TcpRr);
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
        Judge::is_content,
    ] {
        part(&mut judge);
    }
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
