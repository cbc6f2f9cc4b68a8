//! When the NIC is looked at, and when the CPU sleeps.
//!
//! The interrupt handler masks the NIC and nothing more. The loop then polls it
//! with a budget, as Linux's NAPI does; a poll that finds less than its budget
//! ends the round: the interrupt is unmasked, and the ring is looked at once
//! more, because a frame that came just before the unmasking may never raise
//! an interrupt. What differs from mode to mode is only when a round ends.

use uniperf_drivers::nic::{Causes, Nic, Receive, Transmit};

use crate::config::{Config, RxMode};
use crate::counters::LoopCounters;
use crate::machine::Machine;
use crate::stack::Stack;

const MILLISECOND: u64 = 1_000_000;
/// How long to sleep when the transmit ring is full: about twenty full frames
/// at a gigabit a second.
const RING_FULL_WAIT: u64 = MILLISECOND / 4;
/// How often the driver looks for what no interrupt tells: a transmitter that
/// hangs, a link that was lost without a sign (see [`Nic::service`]).
const SERVICE_EVERY: u64 = 1000 * MILLISECOND;

/// What a poll did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Polled {
    /// Frames found.
    pub frames: usize,
    /// Whether more may be there.
    pub exhausted: bool,
}

/// Decides when to poll and when to wait.
pub struct Receiver {
    mode: RxMode,
    weight: usize,
    /// Whether the NIC's interrupts are masked.
    masked: bool,
    /// When a frame was last found.
    last_traffic: u64,
    /// How long the one before had been found before that.
    last_gap: u64,
    service_at: u64,
    /// What happened so far.
    pub counters: LoopCounters,
}

impl Receiver {
    /// Sets the NIC up as configured, with its interrupts masked.
    pub fn new<N: Nic>(config: &Config, nic: &mut N) -> Self {
        nic.mask();
        nic.throttle(config.interrupts_per_second);
        if let Some(frames) = config.replenish {
            nic.halves().0.set_replenish(frames.max(1));
        }
        Self {
            mode: config.rx_mode,
            weight: config.weight.max(1),
            masked: true,
            last_traffic: 0,
            last_gap: u64::MAX,
            service_at: 0,
            counters: LoopCounters::default(),
        }
    }

    /// Takes what the interrupt handler left. Returns what the driver must see
    /// to, if anything.
    pub fn take_interrupt<M: Machine>(&mut self, machine: &mut M, now: u64) -> Option<Causes> {
        let causes = machine.take_interrupt();
        if causes.is_some() {
            self.counters.interrupts += 1;
            self.masked = true;
        }
        if now >= self.service_at {
            self.service_at = now + SERVICE_EVERY;
            return Some(Causes::LOOK);
        }
        causes.filter(|causes| !(Causes::RECEIVE | Causes::TRANSMIT).contains(*causes))
    }

    /// Polls the NIC once and hands what it finds to the stack.
    pub fn poll<N: Nic>(&mut self, nic: &mut N, stack: &mut Stack, now: u64) -> Polled {
        let (mut rx, mut tx) = nic.halves();
        self.counters.tx_reclaimed += tx.reclaim() as u64;
        // Each frame may need one descriptor for its answer.
        let budget = self.weight.min(tx.free());
        let frames = rx.poll(budget, |frame| stack.receive(frame, &mut tx));
        stack.end_batch(&mut tx);
        self.counters.polls += 1;
        match frames {
            0 => self.counters.empty_polls += 1,
            _ => {
                self.last_gap = now.saturating_sub(self.last_traffic);
                self.last_traffic = now;
            }
        }
        let exhausted = frames == budget;
        if exhausted && budget > 0 {
            self.counters.exhausted_polls += 1;
        }
        Polled { frames, exhausted }
    }

    /// Whether the next poll comes at once.
    pub fn goes_on(&self, polled: Polled, now: u64) -> bool {
        let more_is_there = polled.exhausted && polled.frames > 0;
        match self.mode {
            RxMode::Poll => true,
            RxMode::Napi => more_is_there,
            RxMode::Adaptive { hold_ns } => {
                let silence = now.saturating_sub(self.last_traffic);
                more_is_there || self.last_gap < hold_ns && silence < hold_ns
            }
        }
    }

    /// Ends a round of polling: sleeps until an interrupt, until `deadline`, or
    /// until there is console input. `ring_full` says that frames wait for
    /// room in the transmit ring.
    pub fn wait<N: Nic, M: Machine>(
        &mut self,
        nic: &mut N,
        machine: &mut M,
        deadline: Option<u64>,
        ring_full: bool,
        now: u64,
    ) {
        if core::mem::replace(&mut self.masked, false) {
            nic.unmask();
        }
        let can_answer = nic.halves().1.free() > 0;
        if can_answer && nic.halves().0.pending() {
            nic.mask();
            self.masked = true;
            self.counters.rechecks_hit += 1;
            return;
        }
        let mut until = self.service_at;
        if let Some(deadline) = deadline {
            until = until.min(deadline);
        }
        if ring_full || !can_answer {
            // Not every NIC says when a descriptor comes back.
            until = until.min(now + RING_FULL_WAIT);
        }
        self.counters.waits += 1;
        machine.wait(Some(until));
    }
}
