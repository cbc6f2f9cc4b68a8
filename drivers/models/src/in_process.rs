//! A model inside a test: no QEMU, no other process, and a clock that the test moves.

use std::cell::RefCell;
use std::fmt;
use std::ptr::NonNull;
use std::rc::Rc;
use std::time::Duration;

use crate::device::{Device, Host};
use crate::interrupts::{InterruptMode, Signal};
use crate::link::Channel;

/// Where the test's memory begins on the bus.
const MEMORY: u64 = 0x1000_0000;
/// How much of it there is.
const MEMORY_LEN: u64 = 64 << 20;

/// A model that is driven on one thread. Copies are handles of the same one.
pub struct InProcess<D>(Rc<RefCell<State<D>>>);

struct State<D> {
    device: D,
    host: Host,
    wire: Channel,
    /// Bytes of memory handed out.
    taken: u64,
    unclaimed: u64,
}

impl<D> Clone for InProcess<D> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<D: Device> fmt::Debug for InProcess<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InProcess")
            .field("host", &self.0.borrow().host)
            .finish_non_exhaustive()
    }
}

impl<D: Device> InProcess<D> {
    /// Plugs `device` in, with memory and bus mastering on, and INTx.
    ///
    /// # Panics
    ///
    /// If there is no memory for it.
    pub fn new(mut device: D) -> Self {
        let wire = Channel::default();
        let mut host = Host::new(Box::new(wire.clone()));
        host.dma
            .map_anonymous(MEMORY, MEMORY_LEN)
            .expect("there is memory for a test");
        let command = device.config().command() | 0b110;
        device.config_mut().set_command(command);
        host.dma.set_master(device.config().is_master());
        host.interrupts
            .set_intx(Some(Signal::Count(0)), Duration::ZERO);
        Self(Rc::new(RefCell::new(State {
            device,
            host,
            wire,
            taken: 0,
            unclaimed: 0,
        })))
    }

    fn with<T>(&self, run: impl FnOnce(&mut D, &mut Host) -> T) -> T {
        let state = &mut *self.0.borrow_mut();
        run(&mut state.device, &mut state.host)
    }

    /// Reads the 32-bit register at byte `offset` of the first base address register.
    pub fn read32(&self, offset: usize) -> u32 {
        let mut data = [0; 4];
        self.with(|device, host| device.read(host, 0, offset as u64, &mut data));
        u32::from_le_bytes(data)
    }

    /// Writes that register.
    pub fn write32(&self, offset: usize, value: u32) {
        let data = value.to_le_bytes();
        self.with(|device, host| device.write(host, 0, offset as u64, &data));
    }

    /// Reads `data.len()` bytes at byte `offset` of the first base address register, at
    /// once.
    pub fn read(&self, offset: usize, data: &mut [u8]) {
        self.with(|device, host| device.read(host, 0, offset as u64, data));
    }

    /// Writes `data` there, at once.
    pub fn write(&self, offset: usize, data: &[u8]) {
        self.with(|device, host| device.write(host, 0, offset as u64, data));
    }

    /// Reads and writes `data.len()` bytes anywhere, as no driver does.
    pub fn odd_access(&self, bar: usize, offset: u64, data: &mut [u8]) {
        self.with(|device, host| {
            device.write(host, bar, offset, data);
            device.read(host, bar, offset, data);
        });
    }

    /// Takes `len` bytes of zeroed memory that the model reaches, aligned to `align`
    /// bytes (a power of two): where the test sees it, and its bus address. It stays
    /// for as long as a handle of the model does.
    pub fn dma_alloc(&self, len: usize, align: usize) -> Option<(NonNull<u8>, u64)> {
        let state = &mut *self.0.borrow_mut();
        let bus = (MEMORY + state.taken).next_multiple_of(align as u64);
        let cpu = state.host.dma.host_address(bus, len)?;
        state.taken = bus + len as u64 - MEMORY;
        Some((NonNull::new(cpu)?, bus))
    }

    /// Lets time pass.
    pub fn advance(&self, time: Duration) {
        self.with(|device, host| {
            let end = host.now + time;
            loop {
                let due = [device.deadline(), host.interrupts.deadline()];
                let due = due.into_iter().flatten().min();
                host.now = due.map_or(end, |due| due.clamp(host.now, end));
                device.advance(host);
                host.interrupts.advance(host.now);
                if host.now == end {
                    return;
                }
            }
        });
    }

    /// Has the function raise messages instead of its line, or the line again.
    pub fn set_interrupt_mode(&self, mode: InterruptMode) {
        self.with(|_, host| {
            for (kind, msix) in [(InterruptMode::Msi, false), (InterruptMode::MsiX, true)] {
                let vectors = if mode == kind { 8 } else { 0 };
                let signals = (0..vectors).map(|_| Some(Signal::Count(0)));
                host.interrupts.set_messages(msix, 0, signals.collect());
            }
        });
    }

    /// Whether an interrupt has arrived since this was asked last. It ends the line's
    /// service as QEMU does at the handler's first access.
    pub fn interrupt_pending(&self) -> bool {
        let state = &mut *self.0.borrow_mut();
        let interrupts = &mut state.host.interrupts;
        state.unclaimed += interrupts.take_counts();
        let pending = std::mem::take(&mut state.unclaimed) > 0;
        if pending && interrupts.mode() == InterruptMode::Intx {
            interrupts.unmask_intx(state.host.now);
        }
        pending
    }

    /// Has `frame` arrive from the wire, without its FCS.
    pub fn receive(&self, frame: &[u8]) {
        self.with(|device, host| device.receive(host, frame));
    }

    /// Takes the frames that the model has put on the wire.
    pub fn take_sent(&self) -> Vec<Vec<u8>> {
        self.0.borrow().wire.take_sent()
    }

    /// The model itself.
    pub fn device<T>(&self, run: impl FnOnce(&mut D) -> T) -> T {
        self.with(|device, _| run(device))
    }

    /// What it reaches.
    pub fn host<T>(&self, run: impl FnOnce(&mut Host) -> T) -> T {
        self.with(|_, host| run(host))
    }

    /// Gives it a line of the control socket's.
    ///
    /// # Errors
    ///
    /// What the model says against it.
    pub fn command(&self, line: &str) -> Result<String, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        self.with(|device, host| device.command(host, &words))
    }

    /// What the model complains of, one a line.
    pub fn complaints(&self) -> String {
        self.with(|_, host| {
            let kinds = host.complaints.kinds();
            kinds
                .map(|(what, count)| format!("{count}: {what}\n"))
                .collect()
        })
    }
}
