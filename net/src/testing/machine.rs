//! A machine made of memory, whose clock the test turns.

use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::string::String;
use core::cell::{Cell, RefCell};
use core::fmt::{self, Write};

use uniperf_drivers::nic::Causes;

use super::nic::Hardware;
use crate::machine::{CpuTime, Machine};

/// What the machine and the test share.
#[derive(Default)]
pub struct Clockwork {
    pub now: Cell<u64>,
    /// Until when the loop sleeps; `None` if it does not.
    pub asleep: Cell<Option<u64>>,
    pub typed: RefCell<VecDeque<String>>,
    pub printed: RefCell<String>,
}

pub struct MemoryMachine {
    pub hardware: Rc<Hardware>,
    pub clockwork: Rc<Clockwork>,
    pub line: String,
}

impl Machine for MemoryMachine {
    fn now(&self) -> u64 {
        self.clockwork.now.get()
    }

    fn cpu_time(&self) -> CpuTime {
        CpuTime::default()
    }

    fn boot_stages(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        visit("machine", 0);
    }

    fn tend_bus(&mut self) -> bool {
        self.hardware.cut_off.take()
    }

    fn bus_configuration(&self, visit: &mut dyn FnMut(u16, u32)) {
        (0..20).for_each(|word| visit(word * 4, 0x100e_8086));
    }

    fn take_interrupt(&mut self) -> Option<Causes> {
        self.hardware.pending.take()
    }

    fn wait(&mut self, deadline: Option<u64>) {
        let wakes =
            self.hardware.pending.get().is_some() || !self.clockwork.typed.borrow().is_empty();
        if !wakes {
            self.clockwork
                .asleep
                .set(Some(deadline.unwrap_or(u64::MAX)));
        }
    }

    fn read_line(&mut self) -> Option<&str> {
        self.line = self.clockwork.typed.borrow_mut().pop_front()?;
        Some(&self.line)
    }

    fn print(&mut self, text: fmt::Arguments<'_>) {
        self.clockwork
            .printed
            .borrow_mut()
            .write_fmt(text)
            .expect("memory takes all");
    }
}
