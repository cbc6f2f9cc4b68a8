//! A Linux guest that judges a device model: Debian's kernel with its own, unmodified driver
//! runs on it, and has nothing to complain of.

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
/// A Linux guest on a model.
pub struct Judge {
    /// The model's name.
    name: String,
    /// The driver's, in the kernel's log.
    driver: &'static str,
    /// What its log may say though it is a complaint.
    tolerated: &'static [&'static str],
    pub linux: Appliance,
    pub ready: Ready,
    commands: u32,
}

impl Judge {
    /// One on the model `name`.
    pub fn on(name: &str, driver: &'static str, tolerated: &'static [&'static str]) -> Self {
        let machine = Machine {
            nics: vec![name.parse().unwrap()],
            memory: linux_guest::MEMORY,
            ..Machine::default()
        };
        let (image, machine) = linux_guest::prepare(machine).unwrap();
        let (linux, ready) = Appliance::boot(&image, &machine, Network::tap().unwrap()).unwrap();
        Self {
            name: name.to_owned(),
            driver,
            tolerated,
            linux,
            ready,
            commands: 0,
        }
    }

    /// Runs `command` in the guest. Returns what it says, and whether it ended well.
    pub fn try_shell(&mut self, command: &str) -> (String, bool) {
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
    pub fn shell(&mut self, command: &str) -> String {
        let (said, well) = self.try_shell(command);
        assert!(well, "{command}: {said}");
        said
    }

    /// Asks the model.
    pub fn model(&mut self, line: &str) -> String {
        self.linux.nic_model(0).unwrap().ask(line).unwrap()
    }

    pub fn totals(&mut self) -> BTreeMap<String, u64> {
        numbers(&self.model("statistics"), ' ')
    }

    pub fn run(&self, test: Test) {
        let result = Netperf::new(&self.linux, self.ready).run(test).unwrap();
        result.check().unwrap();
        println!("{}: {test}: {:.2}", self.name, result.throughput);
    }

    /// Sends so many pings of `size` bytes, all of which are answered. A busy machine may
    /// have ping send one more before it sees the last answer, so it has three attempts.
    pub fn ping(&self, count: u32, size: u32) {
        let attempts: Vec<_> = (0..3)
            .map(|_| ping_flood(self.linux.network(), self.ready.address, count, size).unwrap())
            .map(|result| (result.sent, result.received))
            .take_while(|sent_and_received| *sent_and_received != (count.into(), count.into()))
            .collect();
        assert!(attempts.len() < 3, "{size} bytes: {attempts:?}");
    }

    /// Sends so many, which need not all be answered.
    pub fn ping_some(&self, count: u32) {
        ping_flood(self.linux.network(), self.ready.address, count, 56).unwrap();
    }

    /// Sends so many bytes through the guest and back, and compares them.
    pub fn echo(&mut self, len: usize) {
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
    pub fn wait_for_carrier(&mut self, up: bool) {
        for replugs in 0..=REPLUGS {
            if self.sees_carrier(up) {
                return;
            }
            println!("{}: plugged {replugs} times", self.name);
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
    pub fn is_content(&mut self) {
        let log = self.shell("dmesg -r");
        let bad: Vec<_> = log
            .lines()
            .filter(|line| {
                let ours = [self.driver, "eth0", "NETDEV"]
                    .iter()
                    .any(|w| line.contains(w));
                let serious = ["<0>", "<1>", "<2>", "<3>"]
                    .iter()
                    .any(|l| line.starts_with(l));
                let named = COMPLAINTS.iter().any(|what| line.contains(what));
                ours && named || serious || line.contains("Call Trace")
            })
            .filter(|line| !self.tolerated.iter().any(|what| line.contains(what)))
            .collect();
        assert!(bad.is_empty(), "{bad:#?}");
        assert_eq!(self.model("complaints"), "");
    }
}

/// Lines of a name and a number.
pub fn numbers(text: &str, separator: char) -> BTreeMap<String, u64> {
    let pairs = text
        .lines()
        .filter_map(|line| line.trim().split_once(separator));
    pairs
        .filter_map(|(name, value)| Some((name.trim().to_owned(), value.trim().parse().ok()?)))
        .collect()
}

/// Frames to groups that the guest has joined come in, and others do not, unless it asks
/// for them: the model counts them by the name `filtered`.
pub fn multicast(judge: &mut Judge, filtered: &str) {
    const FRAMES: u64 = 5;
    const TRIES: u32 = 5;
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
    for (from, to, group, accepted) in [
        ("allmulti", "-allmulti", other, false),
        ("promisc", "-promisc", all_hosts, true),
        ("-allmulti", "allmulti", other, true),
        ("allmulti", "-allmulti", other, false),
        ("-promisc", "promisc", other, true),
        ("promisc", "-promisc", other, false),
    ] {
        let name = if accepted { "rx_frames" } else { filtered };
        // A driver that has lost its patience with a busy machine is told again.
        let done = (0..TRIES).any(|_| {
            judge.shell(&format!("ifconfig eth0 {from}; ifconfig eth0 {to}"));
            let before = judge.totals();
            send(judge, group);
            judge.totals()[name] >= before[name] + FRAMES
        });
        assert!(done, "{to}: {group}");
    }
}

/// Data both ways with each of these settings of the offloads. What is on the wire is
/// well-formed, and what comes back is what was sent.
pub fn offloads(judge: &mut Judge, settings: &[&str]) {
    judge.shell("nc -ll -p 9000 -e cat >/dev/null 2>&1 &");
    for features in settings {
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
}

/// The guest's MTU changes while the NIC runs.
pub fn mtus(judge: &mut Judge, mtus: &[usize]) {
    for mtu in mtus {
        let network = judge.linux.network().as_tap().unwrap();
        let text = mtu.to_string();
        network
            .namespace()
            .ip(&["link", "set", "tap0", "mtu", &text])
            .unwrap();
        judge.shell(&format!("ip link set eth0 mtu {mtu}"));
        judge.wait_for_carrier(true);
        judge.ping(50, *mtu as u32 - 28);
        judge.run(Test::TcpStream);
        judge.run(Test::TcpMaerts);
    }
    judge.shell("ip link set eth0 mtu 1500");
    judge.wait_for_carrier(true);
}

/// The module is taken out and put in again: the address stays what it is.
pub fn module_again(judge: &mut Judge) {
    let driver = judge.driver;
    judge.shell(&format!(
        "ip link set eth0 down; rmmod {driver}; modprobe {driver}"
    ));
    let address = judge.ready.address;
    judge.shell(&format!(
        "ip link set eth0 mtu 1500; ip link set eth0 up; ip addr add {address}/24 dev eth0"
    ));
    judge.wait_for_carrier(true);
    let said = judge.shell("cat /sys/class/net/eth0/address");
    assert!(said.contains(&uniperf_harness::mac_text(mac(0))), "{said}");
    judge.run(Test::TcpRr);
}
