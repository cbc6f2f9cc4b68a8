//! The hardware's counters, gathered into 64-bit totals.

use super::ids::{Features, Model};
use super::receive::RxRing;
use super::regs::counter::*;
use super::transmit::TxRing;
use crate::hw::Registers;
use crate::nic::{Receive, Statistics};

/// Which total a register adds to.
type Total = fn(&mut Statistics) -> &mut u64;

/// The first group of counters. Frames sent are those that needed no second try and
/// those that did.
const FIRST: [(usize, Total); 20] = [
    (TX_BYTES, |s| &mut s.tx_bytes),
    (TX_ZERO_RETRANSMIT, |s| &mut s.tx_frames),
    (TX_ONE_RETRANSMIT, |s| &mut s.tx_frames),
    (TX_MANY_RETRANSMIT, |s| &mut s.tx_frames),
    (TX_LATE_COLLISION, |s| &mut s.tx_errors),
    (TX_UNDERFLOW, |s| &mut s.tx_errors),
    (TX_LOSS_CARRIER, |s| &mut s.tx_errors),
    (TX_EXCESS_DEFERRAL, |s| &mut s.tx_errors),
    (TX_RETRY_ERROR, |s| &mut s.tx_errors),
    (RX_FRAME_ERROR, |s| &mut s.rx_other_errors),
    (RX_LATE_COLLISION, |s| &mut s.rx_other_errors),
    (RX_RUNT, |s| &mut s.rx_length_errors),
    (RX_FRAME_TOO_LONG, |s| &mut s.rx_length_errors),
    (RX_OVERFLOW, |s| &mut s.rx_missed),
    (RX_FCS_ERROR, |s| &mut s.rx_crc_errors),
    (RX_FRAME_ALIGN_ERROR, |s| &mut s.rx_other_errors),
    (RX_LENGTH_ERROR, |s| &mut s.rx_length_errors),
    (RX_UNICAST, |s| &mut s.rx_frames),
    (RX_MULTICAST, |s| &mut s.rx_frames),
    (RX_BROADCAST, |s| &mut s.rx_frames),
];

/// The second group, as far as it tells more.
const SECOND: [(usize, Total); 2] = [
    (RX_BYTES, |s| &mut s.rx_bytes),
    (RX_DROP_FRAME, |s| &mut s.rx_no_buffer),
];

/// Those that overflow first: 32 bits are 34 s at 1000 Mbit/s.
const FAST: [(usize, Total, Features); 2] = [
    (TX_BYTES, |s| &mut s.tx_bytes, Features::STATISTICS_V1),
    (RX_BYTES, |s| &mut s.rx_bytes, Features::STATISTICS_V2),
];

/// The totals.
pub struct Totals {
    features: Features,
    sums: Statistics,
    pauses: u64,
}

impl Totals {
    /// Those of `model`, from now on.
    pub fn new<R: Registers>(model: &Model, regs: &R) -> Self {
        let mut totals = Self {
            features: model.features,
            sums: Statistics::default(),
            pauses: 0,
        };
        totals.read_all(regs);
        totals.sums = Statistics::default();
        totals.pauses = 0;
        totals
    }

    fn has(&self, group: Features) -> bool {
        self.features.contains(group)
    }

    /// Adds what the registers have counted since they were last read.
    pub fn read_all<R: Registers>(&mut self, regs: &R) {
        if self.has(Features::STATISTICS_V1) {
            for (register, total) in FIRST {
                *total(&mut self.sums) += u64::from(regs.read32(register));
            }
        }
        if self.has(Features::STATISTICS_V2) {
            for (register, total) in SECOND {
                *total(&mut self.sums) += u64::from(regs.read32(register));
            }
        }
    }

    /// Reads the registers that would overflow if nobody asked for long.
    pub fn tend<R: Registers>(&mut self, regs: &R) {
        for (register, total, group) in FAST {
            if self.has(group) {
                *total(&mut self.sums) += u64::from(regs.read32(register));
            }
        }
    }

    /// Pause frames received so far; 0 where they are not counted.
    pub fn pauses<R: Registers>(&mut self, regs: &R) -> u64 {
        if self.has(Features::STATISTICS_V2) {
            self.pauses += u64::from(regs.read32(RX_PAUSE));
        }
        self.pauses
    }

    /// Reads all registers and returns the totals. What a member does not count, the
    /// rings have.
    pub fn collect<R: Registers>(&mut self, regs: &R, rx: &RxRing, tx: &TxRing<R>) -> Statistics {
        self.read_all(regs);
        let mut sums = self.sums;
        let (frames, bytes) = rx.delivered();
        let (sent, sent_bytes, failed) = tx.sent();
        if !self.has(Features::STATISTICS_V1) {
            sums.rx_frames = frames;
            sums.tx_frames = sent;
            sums.tx_bytes = sent_bytes;
            sums.tx_errors = failed;
            sums.rx_other_errors = rx.dropped().errors;
            sums.rx_length_errors = rx.dropped().length;
        }
        if !self.has(Features::STATISTICS_V2) {
            sums.rx_bytes = bytes;
        }
        sums
    }
}
