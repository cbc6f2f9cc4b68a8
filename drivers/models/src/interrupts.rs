//! Interrupts to the guest: the INTx line, MSI and MSI-X messages.

use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io::Write;
use std::time::Duration;

/// How a function raises interrupts, as its guest has set it up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InterruptMode {
    /// The INTx line.
    #[default]
    Intx,
    /// MSI messages.
    Msi,
    /// MSI-X messages.
    MsiX,
}

/// How long a line that was just lowered by the guest's access to the device stays low
/// though its condition still stands. QEMU lowers a line at any access to the device,
/// which is mostly the read of the cause, before the guest had time to take it away.
const REST: Duration = Duration::from_micros(500);

/// Where interrupts go.
#[derive(Default)]
pub struct Interrupts {
    intx: Option<Signal>,
    msi: Vec<Option<Signal>>,
    msix: Vec<Option<Signal>>,
    level: bool,
    /// The line was raised, and QEMU has not lowered it since.
    in_service: bool,
    raise_at: Option<Duration>,
    late: VecDeque<(Duration, usize)>,
    lose: u32,
    delay: Option<(Duration, u32)>,
    raised: u64,
    lost: u64,
}

/// A signal's other end.
pub enum Signal {
    /// An eventfd.
    Event(File),
    /// A count in a test.
    Count(u64),
}

impl Signal {
    fn fire(&mut self) {
        match self {
            // An eventfd takes 8 bytes in the machine's order. One that is full is
            // signalled already, and one that QEMU has closed has nobody to wait for.
            Self::Event(file) => drop(file.write(&1_u64.to_ne_bytes())),
            Self::Count(count) => *count += 1,
        }
    }
}

impl fmt::Debug for Interrupts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interrupts")
            .field("mode", &self.mode())
            .field("level", &self.level)
            .field("in_service", &self.in_service)
            .field("raised", &self.raised)
            .finish_non_exhaustive()
    }
}

impl Interrupts {
    /// How the guest has set them up.
    pub fn mode(&self) -> InterruptMode {
        let any = |signals: &[Option<Signal>]| signals.iter().any(Option::is_some);
        if any(&self.msix) {
            InterruptMode::MsiX
        } else if any(&self.msi) {
            InterruptMode::Msi
        } else {
            InterruptMode::Intx
        }
    }

    /// Interrupts that went out.
    pub fn raised(&self) -> u64 {
        self.raised
    }

    /// Interrupts that a fault kept back.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Sets where the INTx line goes.
    pub fn set_intx(&mut self, signal: Option<Signal>, now: Duration) {
        self.intx = signal;
        self.in_service = false;
        self.raise_at = self.level.then_some(now);
    }

    /// Sets where the messages from `first` on go: of MSI-X or of MSI. No signals at
    /// all turn that kind off.
    pub fn set_messages(&mut self, msix: bool, first: usize, signals: Vec<Option<Signal>>) {
        let kind = if msix { &mut self.msix } else { &mut self.msi };
        if signals.is_empty() {
            kind.clear();
        }
        for (index, signal) in (first..).zip(signals) {
            if kind.len() <= index {
                kind.resize_with(index + 1, || None);
            }
            kind[index] = signal;
        }
    }

    /// The condition for the INTx line now stands, or no longer does. The line goes up
    /// at once.
    pub fn set_level(&mut self, level: bool, now: Duration) {
        let rises = level && !self.level;
        self.level = level;
        if !level {
            self.raise_at = None;
        } else if rises && !self.in_service {
            self.raise_at = Some(now);
            self.advance(now);
        }
    }

    /// QEMU has lowered the INTx line, as the guest has reached the device.
    pub fn unmask_intx(&mut self, now: Duration) {
        self.in_service = false;
        self.raise_at = self.level.then(|| now + REST);
    }

    /// Sends message `vector` of the kind that is set up, if it is.
    pub fn message(&mut self, vector: usize, now: Duration) {
        if self.lose > 0 {
            self.lose -= 1;
            self.lost += 1;
            return;
        }
        if let Some((delay, count)) = &mut self.delay {
            self.late.push_back((now + *delay, vector));
            *count -= 1;
            if *count == 0 {
                self.delay = None;
            }
            return;
        }
        self.send(vector);
    }

    fn send(&mut self, vector: usize) {
        let kind = match self.mode() {
            InterruptMode::MsiX => &mut self.msix,
            InterruptMode::Msi => &mut self.msi,
            InterruptMode::Intx => return,
        };
        if let Some(Some(signal)) = kind.get_mut(vector) {
            signal.fire();
            self.raised += 1;
        }
    }

    /// Raises what is due.
    pub fn advance(&mut self, now: Duration) {
        while let Some((_, vector)) = self.late.pop_front_if(|(due, _)| *due <= now) {
            self.send(vector);
        }
        if self.raise_at.is_none_or(|due| due > now) {
            return;
        }
        if self.lose > 0 {
            // As if the line had gone up and nobody had seen it: it does not go up
            // again before its condition has gone away.
            self.lose -= 1;
            self.lost += 1;
            self.raise_at = None;
            return;
        }
        if let Some((delay, count)) = &mut self.delay {
            self.raise_at = Some(now + *delay);
            *count -= 1;
            if *count == 0 {
                self.delay = None;
            }
            return;
        }
        self.raise_at = None;
        if let (InterruptMode::Intx, Some(signal)) = (self.mode(), &mut self.intx) {
            self.in_service = true;
            self.raised += 1;
            signal.fire();
        }
    }

    /// When [`advance`](Self::advance) is to be called.
    pub fn deadline(&self) -> Option<Duration> {
        let late = self.late.front().map(|(due, _)| *due);
        [self.raise_at, late].into_iter().flatten().min()
    }

    /// Has the next `count` interrupts lost.
    pub fn lose(&mut self, count: u32) {
        self.lose = count;
    }

    /// Has the next `count` interrupts come `delay` late.
    pub fn delay(&mut self, delay: Duration, count: u32) {
        self.delay = (count > 0).then_some((delay, count));
    }

    /// How often a test's signal of the mode that is set up has fired since it was last
    /// asked.
    pub(crate) fn take_counts(&mut self) -> u64 {
        let signals = match self.mode() {
            InterruptMode::Intx => std::slice::from_mut(&mut self.intx),
            InterruptMode::Msi => &mut self.msi,
            InterruptMode::MsiX => &mut self.msix,
        };
        let mut total = 0;
        for signal in signals.iter_mut().flatten() {
            if let Signal::Count(count) = signal {
                total += std::mem::take(count);
            }
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Duration = Duration::from_micros(1);

    fn intx() -> Interrupts {
        let mut interrupts = Interrupts::default();
        interrupts.set_intx(Some(Signal::Count(0)), Duration::ZERO);
        interrupts
    }

    #[test]
    fn a_line_goes_up_once_until_qemu_lowers_it() {
        let mut interrupts = intx();
        interrupts.set_level(true, T);
        interrupts.set_level(false, T);
        interrupts.set_level(true, T);
        assert_eq!(interrupts.take_counts(), 1);
        interrupts.unmask_intx(T);
        assert_eq!(interrupts.deadline(), Some(T + REST));
        interrupts.advance(T + REST);
        assert_eq!(interrupts.take_counts(), 1, "the condition still stands");
    }

    #[test]
    fn a_cause_that_the_guest_takes_away_at_once_does_not_raise_the_line_again() {
        let mut interrupts = intx();
        interrupts.set_level(true, T);
        interrupts.unmask_intx(T);
        interrupts.set_level(false, 2 * T);
        interrupts.advance(T + REST);
        assert_eq!(interrupts.take_counts(), 1);
        assert_eq!(interrupts.deadline(), None);
    }

    #[test]
    fn messages_go_where_they_are_set_up() {
        let mut interrupts = intx();
        interrupts.message(0, T);
        assert_eq!(interrupts.take_counts(), 0, "MSI is off");
        interrupts.set_messages(false, 0, vec![Some(Signal::Count(0))]);
        assert_eq!(interrupts.mode(), InterruptMode::Msi);
        interrupts.message(0, T);
        interrupts.message(5, T);
        assert_eq!(interrupts.take_counts(), 1);
        interrupts.set_messages(true, 2, vec![Some(Signal::Count(0))]);
        interrupts.message(2, T);
        assert_eq!(interrupts.mode(), InterruptMode::MsiX);
        assert_eq!(interrupts.take_counts(), 1);
        interrupts.set_messages(true, 0, vec![]);
        interrupts.set_messages(false, 0, vec![]);
        assert_eq!(interrupts.mode(), InterruptMode::Intx);
    }

    #[test]
    fn lost_and_late_interrupts_are_lost_and_late() {
        let mut interrupts = intx();
        interrupts.set_messages(false, 0, vec![Some(Signal::Count(0))]);
        interrupts.lose(1);
        interrupts.message(0, T);
        assert_eq!((interrupts.take_counts(), interrupts.lost()), (0, 1));
        interrupts.delay(5 * T, 1);
        interrupts.message(0, T);
        interrupts.message(0, T);
        assert_eq!(interrupts.take_counts(), 1);
        interrupts.advance(6 * T);
        assert_eq!(interrupts.take_counts(), 1);
    }

    #[test]
    fn a_lost_line_does_not_come_back_by_itself() {
        let mut interrupts = intx();
        interrupts.lose(1);
        interrupts.set_level(true, T);
        interrupts.advance(1000 * T);
        assert_eq!((interrupts.take_counts(), interrupts.lost()), (0, 1));
        interrupts.set_level(false, T);
        interrupts.set_level(true, T);
        assert_eq!(interrupts.take_counts(), 1);
    }
}
