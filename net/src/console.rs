//! What a person, or a test, types on the console.

use core::fmt;

use uniperf_drivers::nic::{Nic, Receive, Register, Statistics, Transmit};

use crate::machine::Machine;
use crate::stack::Stack;

/// The appliance's own commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Says what can be typed.
    Help,
    /// Prints all counters.
    Counters,
    /// Lists all sockets.
    Sockets,
    /// Prints what the NIC's registers hold.
    Hardware,
    /// Ends the appliance and switches the machine off.
    PowerOff,
    /// Ends the appliance and starts the machine again.
    Reboot,
    /// Fails, to show how a failure is reported.
    Panic,
}

impl Command {
    /// The command that a line is.
    pub fn parse(line: &str) -> Option<Self> {
        Some(match line.trim() {
            "help" | "?" => Self::Help,
            "counters" => Self::Counters,
            "sockets" => Self::Sockets,
            "hardware" => Self::Hardware,
            "poweroff" => Self::PowerOff,
            "reboot" => Self::Reboot,
            "panic" => Self::Panic,
            _ => return None,
        })
    }
}

/// Says what can be typed.
pub fn help<M: Machine>(machine: &mut M) {
    machine.print(format_args!(
        "commands:\n\
         help      this text\n\
         counters  what happened since the start, and what is in use (rest.*)\n\
         sockets   listeners, connections and UDP sockets\n\
         hardware  the NIC's registers, for a report of a fault\n\
         poweroff  switch the machine off\n\
         reboot    start the machine again\n\
         panic     fail on purpose, to see how that is reported\n\
         end of commands\n"
    ));
}

/// Says that a line is no command.
pub fn unknown<M: Machine>(machine: &mut M, line: &str) {
    machine.print(format_args!(
        "unknown command `{line}`; `help` lists the commands\n"
    ));
}

/// Lists all sockets.
pub fn sockets<M: Machine>(machine: &mut M, stack: &Stack) {
    machine.print(format_args!("sockets:\n"));
    stack.sockets(&mut |line| machine.print(format_args!("{line}\n")));
    machine.print(format_args!("end of sockets\n"));
}

/// Words that stand in a line.
const WORDS_A_LINE: usize = 8;

/// Words with consecutive places, printed several in a line.
struct Words<'a, M> {
    machine: &'a mut M,
    kind: &'static str,
    /// From the place of one word to that of the next.
    step: usize,
    next: usize,
    in_line: usize,
}

impl<'a, M: Machine> Words<'a, M> {
    fn new(machine: &'a mut M, kind: &'static str, step: usize) -> Self {
        Self {
            machine,
            kind,
            step,
            next: 0,
            in_line: 0,
        }
    }

    fn add(&mut self, place: usize, word: u32) {
        if place != self.next || self.in_line == WORDS_A_LINE {
            self.end_line();
        }
        if self.in_line == 0 {
            self.machine
                .print(format_args!("{} {place:03x}:", self.kind));
        }
        self.machine.print(format_args!(" {word:08x}"));
        self.in_line += 1;
        self.next = place + self.step;
    }

    fn end_line(&mut self) {
        if self.in_line > 0 {
            self.machine.print(format_args!("\n"));
        }
        self.in_line = 0;
    }
}

/// Prints what the NIC is, and what its registers and those of its PHY and bus hold.
pub fn hardware<N: Nic, M: Machine>(machine: &mut M, nic: &mut N) {
    let identity = nic.identity();
    let (vendor, device) = identity.pci_id;
    machine.print(format_args!(
        "hardware:\n{} {vendor:04x}:{device:04x} {} {}, link {}\n",
        identity.driver,
        identity.model,
        identity.mac,
        nic.link()
    ));
    let mut configuration = alloc::vec::Vec::new();
    machine.bus_configuration(&mut |offset, word| configuration.push((offset, word)));
    let mut words = Words::new(machine, "pci", 4);
    for (offset, word) in configuration {
        words.add(offset.into(), word);
    }
    words.end_line();
    let mut words = Words::new(machine, "nic", 4);
    let mut phy = alloc::vec::Vec::new();
    nic.registers(&mut |register, value| match register {
        Register::Nic(offset) => words.add(offset, value),
        Register::Phy(number) => phy.push((number, value)),
    });
    words.end_line();
    let mut words = Words::new(machine, "phy", 1);
    for (number, value) in phy {
        words.add(number as usize, value);
    }
    words.end_line();
    machine.print(format_args!("end of hardware\n"));
}

/// Visits a NIC's counters, and what it has in use.
pub fn nic_counters<N: Nic>(nic: &mut N, visit: &mut dyn FnMut(&str, u64)) {
    nic_statistics(&nic.statistics(), visit);
    let (rx, tx) = nic.halves();
    let dropped = rx.dropped();
    visit("drop.nic_error", dropped.errors);
    visit("drop.nic_length", dropped.length);
    visit("rest.rx_buffers_free", rx.free_buffers() as u64);
    visit("rest.tx_descriptors_free", tx.free() as u64);
}

fn nic_statistics(statistics: &Statistics, visit: &mut dyn FnMut(&str, u64)) {
    let values = [
        ("nic.rx_frames", statistics.rx_frames),
        ("nic.rx_bytes", statistics.rx_bytes),
        ("nic.rx_missed", statistics.rx_missed),
        ("nic.rx_no_buffer", statistics.rx_no_buffer),
        ("nic.rx_crc_errors", statistics.rx_crc_errors),
        ("nic.rx_length_errors", statistics.rx_length_errors),
        ("nic.rx_other_errors", statistics.rx_other_errors),
        ("nic.tx_frames", statistics.tx_frames),
        ("nic.tx_bytes", statistics.tx_bytes),
        ("nic.tx_errors", statistics.tx_errors),
    ];
    for (name, value) in values {
        visit(name, value);
    }
}

/// Writes a line the way the appliance speaks of itself.
pub fn say<M: Machine>(machine: &mut M, text: fmt::Arguments<'_>) {
    machine.print(format_args!("uniperf: {text}\n"));
}
