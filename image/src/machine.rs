//! The bare machine, as drivers and the receive loop want to see it.

use alloc::string::String;
use core::fmt;

use uniperf_drivers::hw::{DmaRegion, OutOfDmaMemory, Platform};
use uniperf_drivers::nic::Causes;
use uniperf_kernel::line::{Line, Typed};
use uniperf_kernel::pci::{ConfigPorts, Function, Saved};
use uniperf_kernel::{clock, console, dma, idle, interrupts, stages};
use uniperf_net::machine::{CpuTime, Machine};

/// What is typed on the console, between calls.
#[derive(Default)]
pub struct BareMachine {
    line: Line,
    complete: String,
    /// The NIC's place on the bus, and what was set there.
    nic: Option<(Function, Saved)>,
}

impl BareMachine {
    /// Looks after what `nic` needs of its bus from now on.
    pub fn watch(&mut self, nic: Function) {
        self.nic = Some((nic, Saved::of(&nic, ConfigPorts)));
    }
}

impl Machine for BareMachine {
    #[inline]
    fn now(&self) -> u64 {
        clock::now()
    }

    fn cpu_time(&self) -> CpuTime {
        CpuTime {
            total: clock::cycles(),
            idle: idle::cycles(),
            frequency: clock::frequency(),
        }
    }

    fn boot_stages(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        stages::each(visit);
    }

    fn tend_bus(&mut self) -> bool {
        let nic = self.nic.as_ref();
        nic.is_some_and(|(_, saved)| saved.restore_if_lost(ConfigPorts))
    }

    fn bus_configuration(&self, visit: &mut dyn FnMut(u16, u32)) {
        if let Some((nic, _)) = &self.nic {
            nic.configuration(ConfigPorts, visit);
        }
    }

    #[inline]
    fn take_interrupt(&mut self) -> Option<Causes> {
        // Without its interrupt line, the NIC is looked at on every wake-up.
        interrupts::take().or_else(|| idle::polls().then_some(Causes::LOOK))
    }

    fn wait(&mut self, deadline: Option<u64>) {
        idle::wait(deadline);
    }

    fn read_line(&mut self) -> Option<&str> {
        while let Some(byte) = console::read_byte() {
            match self.line.typed(byte) {
                Typed::Nothing => {}
                Typed::Echo(character) => self.print(format_args!("{character}")),
                Typed::RubOut(count) => {
                    for _ in 0..count {
                        self.print(format_args!("\x08 \x08"));
                    }
                }
                Typed::Complete(text) => {
                    self.print(format_args!("\n"));
                    self.complete = text;
                    return Some(&self.complete);
                }
            }
        }
        None
    }

    fn print(&mut self, text: fmt::Arguments<'_>) {
        console::print(text);
    }
}

impl Platform for BareMachine {
    fn dma_alloc(&mut self, len: usize, align: usize) -> Result<DmaRegion, OutOfDmaMemory> {
        dma::alloc(len, align)
    }

    fn delay_us(&mut self, microseconds: u32) {
        clock::delay_us(microseconds);
    }
}
