//! The appliance and its peer, and the wire between them.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use smoltcp::time::Instant;
use smoltcp::wire::Ipv4Cidr;

use super::dhcp::DhcpServer;
use super::machine::{Clockwork, MemoryMachine};
use super::nic::{Hardware, MemoryNic};
use super::{Echo, Log, OUR_IP, Peer};
use crate::appliance::{Appliance, Exit};
use crate::config::{AddressConfig, Config};
use crate::netperf::{Host, Server};
use crate::services::Service;

pub const SECOND: u64 = 1_000_000_000;

/// What a bad wire does to frames, each with a chance in 1000.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    pub lose: u32,
    pub repeat: u32,
    pub swap: u32,
    pub corrupt: u32,
}

/// Says whether a frame is lost; the flag says that it goes to the peer.
pub type Loss = Box<dyn FnMut(bool, &[u8]) -> bool>;

/// Frames under way, with when they arrive.
type UnderWay = VecDeque<(u64, Vec<u8>)>;

pub struct Bench {
    pub appliance: Appliance<MemoryNic, MemoryMachine>,
    pub hardware: Rc<Hardware>,
    pub clockwork: Rc<Clockwork>,
    pub log: Rc<Log>,
    pub peer: Peer,
    pub dhcp: Option<DhcpServer>,
    pub faults: Faults,
    /// What is lost on purpose.
    pub loss: Option<Loss>,
    /// How long frames are under way, in nanoseconds.
    pub delay: u64,
    to_peer: UnderWay,
    to_us: UnderWay,
    /// Whether the cable is out.
    pub cut: bool,
    /// All that the appliance has sent.
    pub capture: Vec<Vec<u8>>,
    pub exit: Option<Exit>,
    random: u64,
}

pub fn static_config() -> Config {
    Config {
        address: AddressConfig::Static {
            cidr: Ipv4Cidr::new(OUR_IP, 24),
            gateway: None,
        },
        seed: 42,
        ..Config::default()
    }
}

impl Bench {
    pub fn new() -> Self {
        Self::with(&static_config())
    }

    pub fn with(config: &Config) -> Self {
        Self::on(config, Hardware::new(256, 256))
    }

    pub fn on(config: &Config, hardware: Rc<Hardware>) -> Self {
        let clockwork = Rc::new(Clockwork::default());
        let log = Rc::new(Log::default());
        let machine = MemoryMachine {
            hardware: hardware.clone(),
            clockwork: clockwork.clone(),
            line: String::new(),
        };
        let nic = MemoryNic::new(&hardware, 9000);
        let netperf = Server::new(Host::default(), config);
        let services: Vec<Box<dyn Service>> = vec![Box::new(Echo::new(&log)), Box::new(netperf)];
        let appliance = Appliance::new(nic, machine, config, services);
        Self {
            appliance,
            hardware,
            clockwork,
            log,
            peer: Peer::new(config.mtu),
            dhcp: None,
            faults: Faults::default(),
            loss: None,
            delay: 0,
            to_peer: VecDeque::new(),
            to_us: VecDeque::new(),
            cut: false,
            capture: Vec::new(),
            exit: None,
            random: 0x1234_5678,
        }
    }

    pub fn now(&self) -> u64 {
        self.clockwork.now.get()
    }

    fn instant(&self) -> Instant {
        Instant::from_micros((self.now() / 1000) as i64)
    }

    /// Lets both sides run until `done` or for so many nanoseconds. Returns
    /// whether it was done.
    pub fn run_until(&mut self, nanoseconds: u64, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        let end = self.now() + nanoseconds;
        loop {
            if done(self) {
                return true;
            }
            if self.now() >= end {
                return false;
            }
            self.turn(end);
        }
    }

    pub fn run(&mut self, nanoseconds: u64) {
        self.run_until(nanoseconds, |_| false);
    }

    /// One turn of the appliance, one of the peer; then the clock moves on.
    pub fn turn(&mut self, end: u64) {
        if self.clockwork.asleep.get().is_none() {
            self.exit = self.exit.or(self.appliance.step());
        }
        self.hardware.transmit();
        let mut busy = self.carry();
        self.peer.poll(self.instant());
        busy |= self.carry();

        let interrupted = self.hardware.pending.get().is_some();
        match self.clockwork.asleep.get() {
            Some(_) if interrupted => self.clockwork.asleep.set(None),
            Some(until) if !busy => {
                let peer = self.peer.poll_at(self.instant());
                let peer = peer.map_or(u64::MAX, |at| at.total_micros() as u64 * 1000);
                let arrival = [&self.to_peer, &self.to_us]
                    .into_iter()
                    .filter_map(|way| way.front().map(|&(at, _)| at))
                    .fold(end, u64::min);
                let next = until.min(peer).min(arrival).max(self.now() + 1000);
                self.clockwork.now.set(next);
                if next >= until {
                    self.clockwork.asleep.set(None);
                }
            }
            _ => self.clockwork.now.set(self.now() + 1000),
        }
    }

    /// Carries frames both ways.
    fn carry(&mut self) -> bool {
        let mut to_peer = Vec::from(self.hardware.sent.take());
        let mut to_us: Vec<Vec<u8>> = self.peer.wire.outbound.drain(..).collect();
        let busy = !to_peer.is_empty() || !to_us.is_empty();
        self.capture.extend(to_peer.iter().cloned());
        if let Some(dhcp) = &mut self.dhcp {
            to_us.extend(to_peer.iter().filter_map(|frame| dhcp.look(frame)));
        }
        if self.cut {
            return busy;
        }
        self.spoil(&mut to_peer);
        self.spoil(&mut to_us);
        if let Some(lose) = &mut self.loss {
            to_peer.retain(|frame| !lose(true, frame));
            to_us.retain(|frame| !lose(false, frame));
        }
        let now = self.now();
        let at = now + self.delay;
        self.to_peer
            .extend(to_peer.into_iter().map(|frame| (at, frame)));
        self.to_us
            .extend(to_us.into_iter().map(|frame| (at, frame)));
        while let Some((_, frame)) = self.to_peer.pop_front_if(|(at, _)| *at <= now) {
            self.peer.wire.inbound.push_back(frame);
        }
        while let Some((_, frame)) = self.to_us.pop_front_if(|(at, _)| *at <= now) {
            self.hardware.arrive(frame);
        }
        busy
    }

    fn spoil(&mut self, frames: &mut Vec<Vec<u8>>) {
        let faults = self.faults;
        let mut spoilt = Vec::new();
        for mut frame in frames.drain(..) {
            if self.chance(faults.lose) {
                continue;
            }
            if self.chance(faults.corrupt) {
                let at = self.below(frame.len() as u64) as usize;
                frame[at] ^= 1 << self.below(8);
            }
            if self.chance(faults.repeat) {
                spoilt.push(frame.clone());
            }
            spoilt.push(frame);
            let len = spoilt.len();
            if len > 1 && self.chance(faults.swap) {
                spoilt.swap(len - 1, len - 2);
            }
        }
        *frames = spoilt;
    }

    fn chance(&mut self, in_a_thousand: u32) -> bool {
        in_a_thousand > 0 && self.below(1000) < u64::from(in_a_thousand)
    }

    /// A number below `limit` (xorshift).
    pub fn below(&mut self, limit: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % limit
    }

    /// Lets both sides learn the other's station address, and forgets what was
    /// captured.
    pub fn introduce(&mut self) {
        let handle = self.peer.udp_socket();
        let to = super::peer::appliance(super::services::PORT);
        self.peer.udp(handle).send_slice(b"x", to).unwrap();
        assert!(self.run_until(SECOND, |bench| bench.peer.udp(handle).can_recv()));
        self.peer.sockets.remove(handle);
        self.log.take();
        self.capture.clear();
    }

    /// Hands a frame to the appliance.
    pub fn inject(&mut self, frame: Vec<u8>) {
        self.hardware.arrive(frame);
    }

    pub fn type_line(&mut self, line: &str) {
        self.clockwork.typed.borrow_mut().push_back(line.into());
        self.clockwork.asleep.set(None);
    }

    pub fn printed(&self) -> String {
        self.clockwork.printed.borrow().clone()
    }

    /// A counter's value, as the console prints it.
    pub fn counter(&mut self, name: &str) -> u64 {
        let before = self.printed().len();
        self.type_line("counters");
        while !self.printed()[before..].contains("end of counters") {
            self.clockwork.asleep.set(None);
            self.clockwork.now.set(self.now() + 10_000_000);
            self.exit = self.exit.or(self.appliance.step());
        }
        let printed = self.printed();
        let line = printed[before..]
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
            .unwrap_or_else(|| panic!("no counter {name}"));
        line.parse().unwrap()
    }

    /// All counters that say what is in use.
    pub fn resting(&mut self) -> Vec<(String, u64)> {
        let mut all = Vec::new();
        self.appliance
            .stack
            .resting(&mut |name, value| all.push((name.into(), value)));
        all
    }
}
