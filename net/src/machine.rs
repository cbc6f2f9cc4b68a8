//! What the receive loop asks of the machine it runs on.

use core::fmt;

use uniperf_drivers::nic::Causes;

/// The machine below the receive loop: clock, idle wait, interrupt mailbox and
/// console. The image has the real one, tests have one made of memory.
pub trait Machine {
    /// Nanoseconds since the machine started; never goes back.
    fn now(&self) -> u64;

    /// How the CPU's cycles were spent so far.
    fn cpu_time(&self) -> CpuTime;

    /// Visits the stages of the boot that lie behind: the name of each, and when it
    /// ended, as [`now`](Machine::now) counts.
    fn boot_stages(&self, visit: &mut dyn FnMut(&'static str, u64));

    /// Looks whether the NIC still has what it needs of its bus, to be asked now and then.
    /// What something has taken away is given back; whether that was so.
    fn tend_bus(&mut self) -> bool;

    /// Visits the NIC's configuration space on its bus: byte offset and word.
    fn bus_configuration(&self, visit: &mut dyn FnMut(u16, u32));

    /// Takes what the NIC's interrupt handler left since the last call. The
    /// handler has masked the NIC when this is not `None`.
    fn take_interrupt(&mut self) -> Option<Causes>;

    /// Sleeps until an interrupt, until console input, or until `deadline`
    /// (nanoseconds, as [`now`](Machine::now) counts). Returns at once when one
    /// of them is already there: a wake-up between the caller's last look and
    /// the sleep is never lost. May return early for no reason.
    fn wait(&mut self, deadline: Option<u64>);

    /// The next whole line typed on the console, without its line end.
    fn read_line(&mut self) -> Option<&str>;

    /// Writes to the console.
    fn print(&mut self, text: fmt::Arguments<'_>);
}

/// CPU cycles since the machine started. Both counters are exact: a cycle is
/// either spent in the idle wait, or it is not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// All cycles.
    pub total: u64,
    /// Cycles spent waiting for an interrupt.
    pub idle: u64,
    /// Cycles a second.
    pub frequency: u64,
}
