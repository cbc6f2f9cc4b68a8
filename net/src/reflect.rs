//! The ceiling: frames are answered at layer 2, in the receive loop, without a
//! stack.
//!
//! What a request and response test reaches here is what the NIC, its interrupt
//! and the wire allow; what the appliance proper loses against it is the cost of
//! its stack and services. Answered are datagrams to port [`UDP_PORT`], frames of
//! [`ETHERTYPE`], and ARP requests for the own address, so that an ordinary UDP
//! client finds the way. Nothing else is.

use alloc::string::String;

use smoltcp::wire::{EthernetProtocol, IpProtocol, Ipv4Address};
use uniperf_drivers::nic::{Causes, Link, MacAddress, Nic, Offload, Receive, RxChecksum, RxFrame};
use uniperf_drivers::nic::{Transmit, TxError};

use crate::appliance::Exit;
use crate::boot_time::BootTime;
use crate::config::{Config, RxMode};
use crate::console::{self, Command, say};
use crate::frame::{ETHERNET_HEADER, IPV4_HEADER};
use crate::machine::Machine;

/// The port whose datagrams go back to where they came from (RFC 862).
pub const UDP_PORT: u16 = 7;
/// The type of the frames that go back: IEEE 802's first for local experiments.
pub const ETHERTYPE: u16 = 0x88b5;

const MILLISECOND: u64 = 1_000_000;
/// How often the driver looks around for itself (see [`Nic::service`]).
const SERVICE_EVERY: u64 = 1000 * MILLISECOND;
/// How often the console is looked at while the loop does not sleep.
const CONSOLE_EVERY: u64 = 10 * MILLISECOND;
/// How long to sleep when the transmit ring is full.
const RING_FULL_WAIT: u64 = MILLISECOND / 4;

/// An ARP packet for Ethernet and IPv4 (RFC 826) up to its operation.
const ARP_HEADER: [u8; 6] = [0, 1, 8, 0, 6, 4];
const ARP_PACKET: usize = 28;
const ARP_REQUEST: [u8; 2] = [0, 1];
const ARP_REPLY: [u8; 2] = [0, 2];

/// Reflects frames until somebody types `poweroff` or `reboot`.
///
/// Of `config` it takes what is about the NIC; the receive mode is as `napi`, or
/// `poll`. Says the same lines as [`appliance::run`](crate::appliance::run).
pub fn run<N: Nic, M: Machine>(nic: N, machine: M, config: &Config, address: Ipv4Address) -> Exit {
    let mut reflector = Reflector::new(nic, machine, config, address);
    loop {
        if let Some(exit) = reflector.step() {
            return exit;
        }
    }
}

struct Reflector<N, M> {
    nic: N,
    machine: M,
    mirror: Mirror,
    never_waits: bool,
    weight: usize,
    masked: bool,
    link: Link,
    service_at: u64,
    console_at: u64,
    interrupts: u64,
    polls: u64,
    waits: u64,
}

impl<N: Nic, M: Machine> Reflector<N, M> {
    fn new(mut nic: N, machine: M, config: &Config, address: Ipv4Address) -> Self {
        nic.mask();
        nic.throttle(config.interrupts_per_second);
        if let Some(frames) = config.replenish {
            nic.halves().0.set_replenish(frames.max(1));
        }
        let mirror = Mirror::new(nic.identity().mac, address);
        let mut reflector = Self {
            nic,
            machine,
            mirror,
            never_waits: config.rx_mode == RxMode::Poll,
            weight: config.weight.max(1),
            masked: true,
            link: Link::Down,
            service_at: 0,
            console_at: 0,
            interrupts: 0,
            polls: 0,
            waits: 0,
        };
        reflector.see_to_nic(Causes::LOOK);
        let now = reflector.machine.now();
        let mut boot_time = BootTime::of(&reflector.machine);
        boot_time.end("reflector", now);
        boot_time.say(&mut reflector.machine);
        let milliseconds = now / MILLISECOND;
        say(
            &mut reflector.machine,
            format_args!(
                "reflecting datagrams to port {UDP_PORT} and frames of type {ETHERTYPE:#06x}"
            ),
        );
        say(
            &mut reflector.machine,
            format_args!("ready {address} {milliseconds}"),
        );
        reflector
    }

    /// One turn of the loop: the interrupt, frames and their answers, the console,
    /// and then sleep if there is nothing left to do.
    fn step(&mut self) -> Option<Exit> {
        let now = self.machine.now();
        let causes = self.machine.take_interrupt();
        if causes.is_some() {
            self.interrupts += 1;
            self.masked = true;
        }
        if now >= self.service_at {
            self.service_at = now + SERVICE_EVERY;
            self.see_to_nic(Causes::LOOK);
        } else if let Some(causes) = causes
            && !(Causes::RECEIVE | Causes::TRANSMIT).contains(causes)
        {
            self.see_to_nic(causes);
        }

        let more = self.poll();
        let goes_on = self.never_waits || more;
        if goes_on && now < self.console_at {
            return None;
        }
        self.console_at = now + CONSOLE_EVERY;
        if let Some(line) = self.machine.read_line().map(String::from) {
            return self.obey(&line);
        }
        if !goes_on {
            self.wait(now);
        }
        None
    }

    /// Answers up to a weight of frames. Returns whether there may be more.
    fn poll(&mut self) -> bool {
        let (mut rx, mut tx) = self.nic.halves();
        tx.reclaim();
        let mirror = &mut self.mirror;
        let sent = mirror.sent;
        let budget = self.weight.min(tx.free());
        let frames = rx.poll(budget, |frame| mirror.receive(&frame, &mut tx));
        if mirror.sent != sent {
            tx.flush();
        }
        self.polls += 1;
        frames > 0 && frames == budget
    }

    /// Unmasks the interrupt and looks at the ring once more, as a frame that came
    /// just before may raise none; then sleeps.
    fn wait(&mut self, now: u64) {
        if core::mem::replace(&mut self.masked, false) {
            self.nic.unmask();
        }
        let can_answer = self.nic.halves().1.free() > 0;
        if can_answer && self.nic.halves().0.pending() {
            self.nic.mask();
            self.masked = true;
            return;
        }
        let until = match can_answer {
            true => self.service_at,
            false => self.service_at.min(now + RING_FULL_WAIT),
        };
        self.waits += 1;
        self.machine.wait(Some(until));
    }

    fn see_to_nic(&mut self, causes: Causes) {
        self.nic.service(causes);
        let link = self.nic.link();
        if link != self.link {
            self.link = link;
            say(&mut self.machine, format_args!("link {link}"));
        }
    }

    fn obey(&mut self, line: &str) -> Option<Exit> {
        let exit = match Command::parse(line) {
            Some(Command::PowerOff) => Exit::PowerOff,
            Some(Command::Reboot) => Exit::Reboot,
            other => {
                match other {
                    Some(Command::Help) => console::help(&mut self.machine),
                    Some(Command::Counters) => self.print_counters(),
                    Some(Command::Sockets) => self
                        .machine
                        .print(format_args!("sockets:\nend of sockets\n")),
                    Some(Command::Hardware) => {
                        console::hardware(&mut self.machine, &mut self.nic);
                    }
                    Some(Command::Panic) => panic!("asked for on the console"),
                    _ if line.trim().is_empty() => {}
                    _ => console::unknown(&mut self.machine, line.trim()),
                }
                return None;
            }
        };
        self.nic.stop();
        Some(exit)
    }

    fn print_counters(&mut self) {
        let cpu = self.machine.cpu_time();
        let machine = &mut self.machine;
        machine.print(format_args!("counters:\n"));
        let mut visit = |name: &str, value: u64| machine.print(format_args!("{name} {value}\n"));
        visit("cpu.cycles", cpu.total);
        visit("cpu.idle_cycles", cpu.idle);
        visit("cpu.cycles_per_second", cpu.frequency);
        visit("interrupts", self.interrupts);
        visit("polls", self.polls);
        visit("waits", self.waits);
        visit("reflect.sent", self.mirror.sent);
        visit("drop.not_reflected", self.mirror.ignored);
        visit("drop.tx_full", self.mirror.tx_full);
        console::nic_counters(&mut self.nic, &mut visit);
        self.machine.print(format_args!("end of counters\n"));
    }
}

/// What a frame's answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// The frame itself, with its station addresses swapped.
    Frame,
    /// The same with its IP addresses and ports swapped, which leaves every
    /// checksum as it is.
    Datagram,
    /// A reply to an ARP request.
    Arp,
}

struct Mirror {
    mac: MacAddress,
    address: [u8; 4],
    sent: u64,
    ignored: u64,
    tx_full: u64,
}

impl Mirror {
    fn new(mac: MacAddress, address: Ipv4Address) -> Self {
        Self {
            mac,
            address: address.octets(),
            sent: 0,
            ignored: 0,
            tx_full: 0,
        }
    }

    /// Queues the answer to `frame`, if it has one.
    fn receive<T: Transmit>(&mut self, frame: &RxFrame<'_>, tx: &mut T) {
        let Some(answer) = self.look(frame) else {
            self.ignored += 1;
            return;
        };
        let request = match answer {
            Answer::Arp => &frame.bytes[..ETHERNET_HEADER + ARP_PACKET],
            Answer::Frame | Answer::Datagram => frame.bytes,
        };
        let sent = tx.send(request.len(), &[], Offload::None, |buffer| {
            buffer.copy_from_slice(request);
            self.turn(answer, buffer);
        });
        match sent {
            Ok(()) => self.sent += 1,
            Err(TxError::RingFull) => self.tx_full += 1,
            Err(TxError::Unsupported) => self.ignored += 1,
        }
    }

    fn look(&self, frame: &RxFrame<'_>) -> Option<Answer> {
        let (ethernet, packet) = frame.bytes.split_first_chunk::<ETHERNET_HEADER>()?;
        let is_ours = ethernet[..6] == self.mac.0;
        let ethertype = u16::from_be_bytes([ethernet[12], ethernet[13]]);
        if ethertype == ETHERTYPE {
            return is_ours.then_some(Answer::Frame);
        }
        match EthernetProtocol::from(ethertype) {
            EthernetProtocol::Ipv4 if is_ours && frame.checksum != RxChecksum::Bad => {
                self.is_echo(packet).then_some(Answer::Datagram)
            }
            EthernetProtocol::Arp => self.is_arp_request(packet).then_some(Answer::Arp),
            _ => None,
        }
    }

    /// Whether it is a whole datagram to the echo port, without IP options.
    fn is_echo(&self, packet: &[u8]) -> bool {
        let Some(headers) = packet.first_chunk::<{ IPV4_HEADER + 8 }>() else {
            return false;
        };
        // The fragment offset, and the flag that more fragments follow.
        let is_fragment = u16::from_be_bytes([headers[6], headers[7]]) & 0x3fff != 0;
        headers[0] == 0x45
            && !is_fragment
            && headers[9] == u8::from(IpProtocol::Udp)
            && headers[16..20] == self.address
            && headers[22..24] == UDP_PORT.to_be_bytes()
    }

    fn is_arp_request(&self, packet: &[u8]) -> bool {
        packet.first_chunk::<ARP_PACKET>().is_some_and(|arp| {
            arp[..6] == ARP_HEADER && arp[6..8] == ARP_REQUEST && arp[24..28] == self.address
        })
    }

    /// Makes a request into its answer.
    fn turn(&self, answer: Answer, frame: &mut [u8]) {
        swap(&mut frame[..12], 6);
        match answer {
            Answer::Frame => {}
            Answer::Datagram => {
                swap(&mut frame[ETHERNET_HEADER + 12..][..8], 4);
                swap(&mut frame[ETHERNET_HEADER + IPV4_HEADER..][..4], 2);
            }
            Answer::Arp => {
                // The request may have been a broadcast.
                frame[6..12].copy_from_slice(&self.mac.0);
                let arp = &mut frame[ETHERNET_HEADER..];
                arp[6..8].copy_from_slice(&ARP_REPLY);
                swap(&mut arp[8..28], 10);
                arp[8..14].copy_from_slice(&self.mac.0);
            }
        }
    }
}

/// Swaps two neighbours of `len` bytes each.
fn swap(both: &mut [u8], len: usize) {
    let (first, second) = both.split_at_mut(len);
    first.swap_with_slice(second);
}

#[cfg(test)]
mod tests {
    use alloc::rc::Rc;
    use alloc::string::ToString;
    use alloc::vec::Vec;

    use super::*;
    use crate::testing::bench::SECOND;
    use crate::testing::machine::{Clockwork, MemoryMachine};
    use crate::testing::nic::{Hardware, MemoryNic, OUR_MAC};
    use crate::testing::{OUR_IP, PEER_IP, PEER_MAC, ipv4};
    use smoltcp::phy::ChecksumCapabilities;
    use smoltcp::wire::{Ipv4Packet, UdpPacket, UdpRepr};

    struct Rig {
        reflector: Reflector<MemoryNic, MemoryMachine>,
        hardware: Rc<Hardware>,
        clockwork: Rc<Clockwork>,
    }

    impl Rig {
        fn new() -> Self {
            let hardware = Hardware::new(16, 16);
            let clockwork = Rc::new(Clockwork::default());
            clockwork.now.set(7 * MILLISECOND);
            let machine = MemoryMachine {
                hardware: hardware.clone(),
                clockwork: clockwork.clone(),
                line: String::new(),
            };
            let nic = MemoryNic::new(&hardware, 1500);
            Self {
                reflector: Reflector::new(nic, machine, &Config::default(), OUR_IP),
                hardware,
                clockwork,
            }
        }

        /// The answers to `frame`.
        fn answers(&mut self, frame: Vec<u8>) -> Vec<Vec<u8>> {
            self.hardware.arrive(frame);
            self.reflector.step();
            self.hardware.sent.take().into()
        }

        fn type_line(&mut self, line: &str) -> Option<Exit> {
            self.clockwork.typed.borrow_mut().push_back(line.into());
            self.reflector.step()
        }
    }

    fn datagram(port: u16) -> Vec<u8> {
        let udp = UdpRepr {
            src_port: 5000,
            dst_port: port,
        };
        ipv4(PEER_IP, IpProtocol::Udp, 8 + 5, |buffer| {
            udp.emit(
                &mut UdpPacket::new_unchecked(buffer),
                &PEER_IP.into(),
                &OUR_IP.into(),
                5,
                |payload| payload.copy_from_slice(b"hello"),
                &ChecksumCapabilities::default(),
            );
        })
    }

    fn arp_request(target: Ipv4Address) -> Vec<u8> {
        let mut frame = [[0xff; 6], PEER_MAC].concat();
        frame.extend([8, 6]);
        frame.extend(ARP_HEADER);
        frame.extend(ARP_REQUEST);
        frame.extend(PEER_MAC);
        frame.extend(PEER_IP.octets());
        frame.extend([0; 6]);
        frame.extend(target.octets());
        frame
    }

    #[test]
    fn a_datagram_goes_back_with_its_checksums_right() {
        let mut rig = Rig::new();
        let answers = rig.answers(datagram(UDP_PORT));
        assert_eq!(answers.len(), 1);
        let answer = &answers[0];
        assert_eq!(answer[..6], PEER_MAC);
        assert_eq!(answer[6..12], OUR_MAC.0);
        let ip = Ipv4Packet::new_checked(&answer[ETHERNET_HEADER..]).unwrap();
        assert!(ip.verify_checksum());
        assert_eq!((ip.src_addr(), ip.dst_addr()), (OUR_IP, PEER_IP));
        let udp = UdpPacket::new_checked(ip.payload()).unwrap();
        assert!(udp.verify_checksum(&OUR_IP.into(), &PEER_IP.into()));
        assert_eq!((udp.src_port(), udp.dst_port()), (UDP_PORT, 5000));
        assert_eq!(udp.payload(), b"hello");
    }

    #[test]
    fn a_frame_of_the_test_type_goes_back() {
        let mut rig = Rig::new();
        let mut frame = [OUR_MAC.0, PEER_MAC].concat();
        frame.extend(ETHERTYPE.to_be_bytes());
        frame.extend([9; 46]);
        let answers = rig.answers(frame.clone());
        swap(&mut frame[..12], 6);
        assert_eq!(answers, [frame]);
    }

    #[test]
    fn arp_is_answered_for_the_own_address_only() {
        let mut rig = Rig::new();
        let answers = rig.answers(arp_request(OUR_IP));
        assert_eq!(answers.len(), 1);
        let answer = &answers[0];
        assert_eq!(answer[..6], PEER_MAC);
        assert_eq!(answer[6..12], OUR_MAC.0);
        assert_eq!(answer[20..22], ARP_REPLY);
        assert_eq!(answer[22..28], OUR_MAC.0);
        assert_eq!(answer[28..32], OUR_IP.octets());
        assert_eq!(answer[32..38], PEER_MAC);
        assert_eq!(answer[38..42], PEER_IP.octets());
        assert!(rig.answers(arp_request(PEER_IP)).is_empty());
    }

    #[test]
    fn nothing_else_is_answered_and_all_of_it_is_counted() {
        let mut rig = Rig::new();
        let mut fragment = datagram(UDP_PORT);
        fragment[ETHERNET_HEADER + 6] = 0x20;
        let mut with_options = datagram(UDP_PORT);
        with_options[ETHERNET_HEADER] = 0x46;
        let mut elsewhere = datagram(UDP_PORT);
        elsewhere[0] ^= 4;
        let mut short = datagram(UDP_PORT);
        short.truncate(ETHERNET_HEADER + IPV4_HEADER + 7);
        let others = [
            fragment,
            with_options,
            elsewhere,
            short,
            datagram(9),
            Vec::new(),
        ];
        let count = others.len() as u64;
        for frame in others {
            assert!(rig.answers(frame.clone()).is_empty(), "{frame:x?}");
        }
        assert_eq!(rig.reflector.mirror.ignored, count);

        rig.hardware.verdict.set(RxChecksum::Bad);
        assert!(rig.answers(datagram(UDP_PORT)).is_empty());
    }

    #[test]
    fn a_full_ring_loses_nothing_that_the_nic_can_hold() {
        let mut rig = Rig::new();
        rig.hardware.tx_credit.set(0);
        for _ in 0..32 {
            rig.hardware.arrive(datagram(UDP_PORT));
            rig.reflector.step();
        }
        assert_eq!(rig.reflector.mirror.tx_full, 0);
        assert!(rig.hardware.sent.take().is_empty());
        rig.hardware.tx_credit.set(usize::MAX);
        rig.hardware.transmit();
        for _ in 0..4 {
            rig.reflector.step();
        }
        assert_eq!(rig.hardware.sent.take().len(), 32);
    }

    #[test]
    fn the_console_is_the_appliances() {
        let mut rig = Rig::new();
        assert_eq!(rig.type_line("counters"), None);
        assert_eq!(rig.type_line("what"), None);
        let printed = rig.clockwork.printed.borrow().to_string();
        assert!(printed.contains("uniperf: ready 10.0.0.2 7\n"), "{printed}");
        assert!(printed.contains("\nreflect.sent 0\n"));
        assert!(printed.contains("\nend of counters\n"));
        assert!(printed.contains("unknown command `what`"));
        assert_eq!(rig.type_line("poweroff"), Some(Exit::PowerOff));
        assert!(rig.hardware.stopped.get());
    }

    #[test]
    fn an_idle_reflector_sleeps_until_the_driver_is_to_look_around() {
        let mut rig = Rig::new();
        rig.reflector.step();
        let until = rig.clockwork.asleep.get();
        assert_eq!(until, Some(7 * MILLISECOND + SECOND));
    }
}
