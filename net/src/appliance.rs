//! The appliance: one NIC, one stack, some services, and the loop that keeps
//! them going until somebody switches it off.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use smoltcp::wire::Ipv4Address;
use uniperf_drivers::nic::{Causes, Event as NicEvent, Link, Nic, Transmit};

use crate::address::Notice;
use crate::boot_time::BootTime;
use crate::config::Config;
use crate::console::{self, Command, say};
use crate::device::NoCarrier;
use crate::machine::Machine;
use crate::receive::Receiver;
use crate::services::{Context, Event, Service};
use crate::stack::{Stack, earlier};

/// How often services are asked again before the next frames are looked at,
/// when what they send tells them that they can send more.
const ROUNDS: usize = 4;
/// How often timers and the console are looked at while the loop does not sleep,
/// in nanoseconds.
const LOOK_EVERY: u64 = 1_000_000;

/// Bytes that are kept for a line of the console, so that typing allocates nothing.
const LINE: usize = 256;

/// Why the appliance has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The machine is to be switched off.
    PowerOff,
    /// The machine is to be started again.
    Reboot,
}

/// Runs services on a NIC until somebody types `poweroff` or `reboot`.
///
/// Says on the console when the link comes up or goes down, when the address
/// changes, and once, when the address is there and all services are ready, how the
/// time since the machine started was spent, and `uniperf: ready IP MS` with the
/// milliseconds of it.
///
/// # Panics
///
/// If the configured address is not one that a station can have.
pub fn run<N: Nic, M: Machine>(
    nic: N,
    machine: M,
    config: &Config,
    services: Vec<Box<dyn Service>>,
) -> Exit {
    let mut appliance = Appliance::new(nic, machine, config, services);
    loop {
        if let Some(exit) = appliance.step() {
            return exit;
        }
    }
}

/// The state of the loop.
pub(crate) struct Appliance<N, M> {
    pub(crate) nic: N,
    pub(crate) machine: M,
    pub(crate) stack: Stack,
    pub(crate) receiver: Receiver,
    pub(crate) services: Vec<Box<dyn Service>>,
    link: Link,
    boot_time: BootTime,
    no_carrier: NoCarrier,
    /// When timers and the console are looked at again.
    look_at: u64,
    ready: bool,
    /// The line that was typed last.
    line: String,
}

impl<N: Nic, M: Machine> Appliance<N, M> {
    pub(crate) fn new(
        mut nic: N,
        mut machine: M,
        config: &Config,
        services: Vec<Box<dyn Service>>,
    ) -> Self {
        let now = machine.now();
        let capabilities = *nic.capabilities();
        let mac = nic.identity().mac;
        let receiver = Receiver::new(config, &mut nic);
        let ring = nic.halves().1.capacity();
        let stack = Stack::new(config, mac, &capabilities, ring, now);
        let (asked, used) = (config.mtu, stack.mtu());
        if asked != used {
            say(
                &mut machine,
                format_args!("mtu {asked} cannot be used with this NIC; using {used}"),
            );
        }
        let boot_time = BootTime::of(&machine);
        let mut appliance = Self {
            nic,
            machine,
            stack,
            receiver,
            services,
            link: Link::Down,
            boot_time,
            no_carrier: NoCarrier::default(),
            look_at: 0,
            ready: false,
            line: String::with_capacity(LINE),
        };
        appliance.with_services(|service, cx| service.start(cx));
        appliance.see_to_nic(Causes::LOOK);
        appliance
    }

    /// One turn of the loop: interrupts, frames, timers, services, frames, and
    /// then sleep if there is nothing left to do.
    pub(crate) fn step(&mut self) -> Option<Exit> {
        let now = self.machine.now();
        self.stack.set_now(now);
        if let Some(causes) = self.receiver.take_interrupt(&mut self.machine, now) {
            self.see_to_nic(causes);
        }
        let sent = self.stack.frames_sent();
        let polled = self.receiver.poll(&mut self.nic, &mut self.stack, now);
        if now >= self.look_at {
            self.run_timers(now);
        }
        let ring_full = self.serve();
        if self.stack.frames_sent() != sent {
            self.nic.halves().1.flush();
        }
        self.tell();

        let goes_on = self.receiver.goes_on(polled, now) || self.stack.has_events();
        if goes_on {
            if now < self.look_at {
                self.look_at = self.look_at.min(now + LOOK_EVERY);
                return None;
            }
            self.look_at = now + LOOK_EVERY;
        }
        if let Some(line) = self.machine.read_line() {
            let mut typed = core::mem::take(&mut self.line);
            typed.clear();
            typed.push_str(line);
            let exit = self.obey(&typed);
            self.line = typed;
            return exit;
        }
        if !goes_on {
            let deadline = self.deadline();
            self.look_at = deadline.unwrap_or(u64::MAX);
            self.receiver
                .wait(&mut self.nic, &mut self.machine, deadline, ring_full, now);
        }
        None
    }

    fn deadline(&self) -> Option<u64> {
        let mut first = self.stack.deadline();
        for service in &self.services {
            first = earlier(first, service.deadline());
        }
        first
    }

    fn run_timers(&mut self, now: u64) {
        self.stack.run_timers();
        self.with_services(|service, cx| {
            if service.deadline().is_some_and(|deadline| deadline <= now) {
                service.on_timer(cx);
            }
        });
    }

    /// Tells services what happened, and sends what they and the stack have to
    /// send. Returns whether the transmit ring was too full for all of it.
    fn serve(&mut self) -> bool {
        let mut ring_full = false;
        for _ in 0..ROUNDS {
            while let Some((service, event)) = self.stack.next_event() {
                self.dispatch(service, event);
            }
            ring_full = match self.link {
                Link::Down => self.stack.egress(&mut self.no_carrier),
                Link::Up { .. } => self.stack.egress(&mut self.nic.halves().1),
            };
            if ring_full {
                self.receiver.counters.tx_ring_full += 1;
            }
            if ring_full || !self.stack.has_events() {
                break;
            }
        }
        ring_full
    }

    fn dispatch(&mut self, number: u8, event: Event) {
        let Some(service) = self.services.get_mut(usize::from(number)) else {
            return;
        };
        let mut cx = Context {
            now: self.stack.now(),
            stack: &mut self.stack,
            machine: &mut self.machine,
            service: number,
        };
        service.on_event(&mut cx, event);
    }

    fn with_services(&mut self, mut call: impl FnMut(&mut dyn Service, &mut Context<'_>)) {
        for (number, service) in (0u8..).zip(&mut self.services) {
            let mut cx = Context {
                now: self.stack.now(),
                stack: &mut self.stack,
                machine: &mut self.machine,
                service: number,
            };
            call(service.as_mut(), &mut cx);
        }
    }

    /// Lets the driver deal with what is neither a frame nor a free descriptor.
    fn see_to_nic(&mut self, causes: Causes) {
        let mut lost = Causes::empty();
        if causes.contains(Causes::LOOK) && self.machine.tend_bus() {
            lost = Causes::BUS;
            self.receiver.counters.nic_cut_off += 1;
            say(
                &mut self.machine,
                format_args!("the NIC had lost its access to memory, and has it back"),
            );
        }
        match self.nic.service(causes | lost) {
            Some(NicEvent::Reset) => {
                self.receiver.counters.nic_resets += 1;
                say(&mut self.machine, format_args!("the NIC had to be reset"));
            }
            Some(NicEvent::LostInterrupt) => self.receiver.counters.nic_lost_interrupts += 1,
            Some(NicEvent::Link(_)) | None => {}
        }
        let link = self.nic.link();
        if link == self.link {
            return;
        }
        let was_down = self.link == Link::Down;
        self.link = link;
        say(&mut self.machine, format_args!("link {link}"));
        if was_down {
            if !self.ready {
                self.boot_time.end("link", self.machine.now());
            }
            self.stack.link_up();
        }
    }

    /// Says on the console what a person wants to know.
    fn tell(&mut self) {
        while let Some(notice) = self.stack.next_notice() {
            match notice {
                Notice::NoAnswer { seconds } if self.link == Link::Down => say(
                    &mut self.machine,
                    format_args!("no link for {seconds} s; is the cable in?"),
                ),
                _ => say(&mut self.machine, format_args!("{notice}")),
            }
        }
        if self.ready {
            return;
        }
        if let Some(address) = self.stack.address()
            && self.services.iter().all(|service| service.is_ready())
        {
            self.ready = true;
            self.say_ready(address.address());
        }
    }

    fn say_ready(&mut self, address: Ipv4Address) {
        let now = self.machine.now();
        self.boot_time.end("address", now);
        self.boot_time.say(&mut self.machine);
        let milliseconds = now / 1_000_000;
        say(
            &mut self.machine,
            format_args!("ready {address} {milliseconds}"),
        );
    }

    /// Does what a line from the console says.
    fn obey(&mut self, line: &str) -> Option<Exit> {
        if line.trim().is_empty() {
            return None;
        }
        match Command::parse(line) {
            Some(Command::Help) => console::help(&mut self.machine),
            Some(Command::Counters) => self.print_counters(),
            Some(Command::Sockets) => console::sockets(&mut self.machine, &self.stack),
            Some(Command::Hardware) => console::hardware(&mut self.machine, &mut self.nic),
            Some(Command::PowerOff) => return Some(self.end(Exit::PowerOff)),
            Some(Command::Reboot) => return Some(self.end(Exit::Reboot)),
            Some(Command::Panic) => panic!("asked for on the console"),
            None => {
                let mut known = false;
                self.with_services(|service, cx| known |= service.command(cx, line));
                if !known {
                    console::unknown(&mut self.machine, line.trim());
                }
            }
        }
        None
    }

    /// Prints all counters, a `NAME VALUE` a line.
    fn print_counters(&mut self) {
        let cpu = self.machine.cpu_time();
        self.machine.print(format_args!("counters:\n"));
        let machine = &mut self.machine;
        let mut visit = |name: &str, value: u64| machine.print(format_args!("{name} {value}\n"));
        visit("cpu.cycles", cpu.total);
        visit("cpu.idle_cycles", cpu.idle);
        visit("cpu.cycles_per_second", cpu.frequency);
        self.receiver.counters.each(&mut visit);
        self.stack.counters().each(&mut visit);
        visit("drop.no_carrier", self.no_carrier.dropped());
        console::nic_counters(&mut self.nic, &mut visit);
        for service in &self.services {
            service.counters(&mut visit);
        }
        self.stack.resting(&mut visit);
        self.machine.print(format_args!("end of counters\n"));
    }

    fn end(&mut self, exit: Exit) -> Exit {
        self.nic.stop();
        exit
    }
}
