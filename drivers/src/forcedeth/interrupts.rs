//! Interrupts: which causes may raise one, and how many.
//!
//! There is no register that limits their rate, but an interval timer. Without a limit
//! every frame may raise an interrupt. With one, the first frame after a silence does,
//! and from then on only the timer, for as long as it finds that frames have come
//! (Linux's dynamic mode does the same with a threshold).

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::regs::{
    INTERVAL_STEP_NS, IRQ_MASK, IRQ_STATUS, Irq, MSI_IRQ_MASK, MSI_VECTOR_0, POLLING_INTERVAL,
    SETUP6_TIMER, UNKNOWN_SETUP_REG6,
};
use crate::hw::Registers;
use crate::nic::{Causes, Interrupt};

/// What always may raise one.
const EVENTS: Irq = Irq::LINK.union(Irq::RECOVER_ERROR);
/// What may besides while each frame does. Sent frames do not, unless others wait for
/// them: the loop reclaims them when it polls.
const FRAMES: Irq = Irq::RX_ALL;
/// The timer's period where there is no limit: Linux's, in its steps.
const IDLE_INTERVAL: u32 = 13;

/// What the interrupt handler shares with the driver.
#[derive(Default)]
struct Shared {
    /// What IRQ_MASK holds.
    mask: AtomicU32,
    /// Frames had come at the last interrupt.
    busy: AtomicBool,
    /// The rings went wrong, and nobody has seen to it yet.
    ring_error: AtomicBool,
    /// Interrupts claimed.
    claims: AtomicU32,
}

/// The driver's hold on its interrupts.
pub struct Interrupts<R> {
    regs: R,
    msi: bool,
    shared: Arc<Shared>,
    /// The timer's period in its steps; 0 without a limit.
    interval: u32,
    /// The timer runs at a pace of its own, to raise an interrupt soon.
    is_hasty: bool,
    /// How many interrupts had been claimed when one was found overdue.
    overdue: Option<u32>,
}

impl<R: Registers> Interrupts<R> {
    /// Those of a NIC that may have MSI.
    pub fn new(regs: R, msi: bool) -> Self {
        Self {
            regs,
            msi,
            shared: Arc::default(),
            interval: 0,
            is_hasty: false,
            overdue: None,
        }
    }

    /// Causes that stand. A NIC that is gone has none.
    pub fn status(&self) -> Irq {
        match self.regs.read32(IRQ_STATUS) {
            u32::MAX => Irq::empty(),
            status => Irq::from_bits_truncate(status),
        }
    }

    /// Takes causes away.
    pub fn acknowledge(&self, causes: Irq) {
        self.regs.write32(IRQ_STATUS, causes.bits());
    }

    /// Whether an interrupt for a cause in `status` is lost: it was overdue at the last
    /// look, and none has been claimed since. Then the NIC is made to raise another.
    pub fn has_lost_one(&mut self, status: Irq) -> bool {
        let allowed = self.shared.mask.load(Ordering::Relaxed);
        let claims = self.shared.claims.load(Ordering::Relaxed);
        let overdue = (status.bits() & allowed != 0).then_some(claims);
        let lost = overdue.is_some() && overdue == self.overdue;
        self.overdue = overdue.filter(|_| !lost);
        if lost {
            self.mask();
            self.restore(allowed);
        }
        lost
    }

    /// The handler's hold on them.
    pub fn handle(&self) -> Handle<R> {
        Handle {
            regs: self.regs.clone(),
            msi: self.msi,
            shared: Arc::clone(&self.shared),
        }
    }

    /// Limits them to about `per_second`; 0 takes the limit away.
    pub fn throttle(&mut self, per_second: u32) {
        const STEPS_A_SECOND: u32 = 1_000_000_000 / INTERVAL_STEP_NS;
        self.interval = match STEPS_A_SECOND.checked_div(per_second) {
            None => 0,
            Some(steps) => steps.clamp(1, 0xffff),
        };
        self.shared.busy.store(false, Ordering::Relaxed);
        self.start_timer();
    }

    /// Starts the timer, as after a reset.
    pub fn start_timer(&mut self) {
        let interval = match self.interval {
            0 => IDLE_INTERVAL,
            steps => steps,
        };
        self.run_timer(interval);
        self.is_hasty = false;
    }

    fn run_timer(&self, interval: u32) {
        self.regs.write32(POLLING_INTERVAL, interval);
        self.regs.write32(UNKNOWN_SETUP_REG6, SETUP6_TIMER);
    }

    /// Masks all.
    pub fn mask(&self) {
        mask(&self.regs, self.msi, &self.shared);
    }

    /// What is masked now, to be put back by [`restore`](Self::restore).
    pub fn save(&self) -> u32 {
        self.shared.mask.load(Ordering::Relaxed)
    }

    /// Puts the mask back.
    pub fn restore(&self, mask: u32) {
        if mask != 0 {
            self.allow(Irq::from_bits_truncate(mask));
        }
    }

    /// Lets what is wanted raise interrupts, and, with `sent`, frames that were sent.
    pub fn unmask(&mut self, sent: bool) {
        if self.is_hasty {
            self.start_timer();
        }
        let by_timer = self.interval > 0 && self.shared.busy.load(Ordering::Relaxed);
        let frames = if by_timer { Irq::TIMER } else { FRAMES };
        let sent = if sent { Irq::TX_ALL } else { Irq::empty() };
        self.allow(EVENTS | frames | sent);
    }

    /// Whether the rings went wrong since this was asked last: the handler has seen it, or
    /// it stands in `status`, as while interrupts are masked.
    pub fn take_ring_error(&self, status: Irq) -> bool {
        let seen = self.shared.ring_error.swap(false, Ordering::Relaxed);
        seen || status.intersects(Irq::RECOVER_ERROR)
    }

    /// Raises one soon.
    pub fn raise(&mut self) {
        self.is_hasty = true;
        self.run_timer(1);
        self.allow(Irq::TIMER);
    }

    fn allow(&self, causes: Irq) {
        // The handler may run as soon as the register is written.
        self.shared.mask.store(causes.bits(), Ordering::Relaxed);
        if self.msi {
            self.regs.write32(MSI_IRQ_MASK, MSI_VECTOR_0);
        }
        self.regs.write32(IRQ_MASK, causes.bits());
    }
}

fn mask<R: Registers>(regs: &R, msi: bool, shared: &Shared) {
    // A message is sent when causes arise where none stood. Those that arise behind an
    // acknowledgement would not be seen, unless the bit here is taken away and given back.
    // With INTx it does nothing.
    if msi {
        regs.write32(MSI_IRQ_MASK, 0);
    }
    regs.write32(IRQ_MASK, 0);
    shared.mask.store(0, Ordering::Relaxed);
}

/// The interrupt handler's hold on the NIC.
pub struct Handle<R> {
    regs: R,
    msi: bool,
    shared: Arc<Shared>,
}

impl<R: Registers + Send> Interrupt for Handle<R> {
    fn claim(&self) -> Option<Causes> {
        let allowed = self.shared.mask.load(Ordering::Relaxed);
        let status = self.regs.read32(IRQ_STATUS);
        // What is masked stays for later, and all ones are a NIC that is gone.
        if status & allowed == 0 || status == !0 {
            return None;
        }
        self.regs.write32(IRQ_STATUS, status);
        self.shared.claims.fetch_add(1, Ordering::Relaxed);
        mask(&self.regs, self.msi, &self.shared);
        let status = Irq::from_bits_truncate(status);
        let busy = status.intersects(Irq::RX_ALL | Irq::TX_ALL);
        self.shared.busy.store(busy, Ordering::Relaxed);
        if status.intersects(Irq::RECOVER_ERROR) {
            // Who asks for the causes may have a look of its own due, and forget them.
            self.shared.ring_error.store(true, Ordering::Relaxed);
        }
        Some(causes(status))
    }
}

fn causes(status: Irq) -> Causes {
    let mut causes = Causes::empty();
    let received = Irq::RX_ALL | Irq::TIMER;
    causes.set(Causes::RECEIVE, status.intersects(received));
    causes.set(Causes::TRANSMIT, status.intersects(Irq::TX_ALL));
    causes.set(Causes::LINK, status.contains(Irq::LINK));
    causes.set(Causes::OVERRUN, status.contains(Irq::RX_NOBUF));
    causes.set(Causes::FAULT, status.intersects(Irq::RECOVER_ERROR));
    causes
}
