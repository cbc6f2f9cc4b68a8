//! What a person, or a test, types on the console.

use core::fmt;

use uniperf_drivers::nic::{Nic, Receive, Statistics, Transmit};

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
