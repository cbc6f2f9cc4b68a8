//! The firmware's counters, gathered into 64-bit totals. They are of 32 bits, and begin
//! at zero whenever the firmware is reset.

use super::interrupts::{Interrupts, field};
use super::receive::RxRing;
use super::transmit::TxRing;
use crate::hw::Window;
use crate::nic::Statistics;

/// Which total a counter adds to.
type Total = fn(&mut Totals) -> &mut u64;

/// The counters of the block, in its order, that say why a frame was lost, and pause
/// frames. Those for other stations, and groups that nobody joined, are no losses.
const COUNTERS: [(usize, Total); 9] = [
    (field::DROPPED_PAUSE, |t| &mut t.pauses),
    (field::DROPPED_BAD_CRC32, |t| &mut t.sums.rx_crc_errors),
    (field::DROPPED_BAD_PHY, |t| &mut t.sums.rx_other_errors),
    (field::DROPPED_LINK_OVERFLOW, |t| &mut t.sums.rx_missed),
    (field::DROPPED_LINK_ERROR, |t| &mut t.sums.rx_other_errors),
    (field::DROPPED_RUNT, |t| &mut t.sums.rx_length_errors),
    (field::DROPPED_OVERRUN, |t| &mut t.sums.rx_missed),
    (field::DROPPED_NO_SMALL_BUFFER, |t| &mut t.sums.rx_no_buffer),
    (field::DROPPED_NO_BIG_BUFFER, |t| &mut t.sums.rx_no_buffer),
];

/// The totals.
#[derive(Default)]
pub struct Totals {
    sums: Statistics,
    pauses: u64,
    last: [u32; COUNTERS.len()],
}

impl Totals {
    /// Adds what was counted since the last time.
    pub fn read<W: Window>(&mut self, interrupts: &Interrupts<W>) {
        for (index, (field, total)) in COUNTERS.into_iter().enumerate() {
            let value = interrupts.word(field);
            let before = core::mem::replace(&mut self.last[index], value);
            *total(self) += u64::from(value.wrapping_sub(before));
        }
    }

    /// The firmware begins at zero.
    pub fn restart(&mut self) {
        self.last = [0; COUNTERS.len()];
    }

    /// Pause frames received.
    pub fn pauses(&self) -> u64 {
        self.pauses
    }

    /// All of it, with what the rings have counted.
    pub fn collect<W: Window>(&self, rx: &RxRing<W>, tx: &TxRing<W>) -> Statistics {
        let (rx_frames, rx_bytes) = rx.delivered();
        let (tx_frames, tx_bytes) = tx.sent();
        Statistics {
            rx_frames,
            rx_bytes,
            tx_frames,
            tx_bytes,
            ..self.sums
        }
    }
}
