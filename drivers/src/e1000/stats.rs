//! The statistics registers (SDM 13.7), gathered into 64-bit totals.

use super::regs::{
    ALGNERRC, CRCERRS, ECOL, GORCH, GORCL, GOTCH, GOTCL, GPRC, GPTC, LATECOL, MPC, RFC, RJC, RLEC,
    RNBC, ROC, RUC, RXERRC, SEC, SYMERRS, TNCRS,
};
use crate::hw::Registers;
use crate::nic::Statistics;

/// Which total a 32-bit register adds to.
type Total = fn(&mut Statistics) -> &mut u64;

const COUNTERS: [(usize, Total); 17] = [
    (GPRC, |s| &mut s.rx_frames),
    (GPTC, |s| &mut s.tx_frames),
    (MPC, |s| &mut s.rx_missed),
    (RNBC, |s| &mut s.rx_no_buffer),
    (CRCERRS, |s| &mut s.rx_crc_errors),
    (RUC, |s| &mut s.rx_length_errors),
    (RFC, |s| &mut s.rx_length_errors),
    (ROC, |s| &mut s.rx_length_errors),
    (RJC, |s| &mut s.rx_length_errors),
    (RLEC, |s| &mut s.rx_length_errors),
    (ALGNERRC, |s| &mut s.rx_other_errors),
    (SYMERRS, |s| &mut s.rx_other_errors),
    (RXERRC, |s| &mut s.rx_other_errors),
    (SEC, |s| &mut s.rx_other_errors),
    (ECOL, |s| &mut s.tx_errors),
    (LATECOL, |s| &mut s.tx_errors),
    (TNCRS, |s| &mut s.tx_errors),
];

/// The totals, and what they were made of.
#[derive(Default)]
pub struct Totals {
    sums: Statistics,
    /// What each register still held when it was last read.
    residues: [u32; COUNTERS.len()],
}

impl Totals {
    /// Takes what the registers have counted since the last time.
    ///
    /// The manual says that reading clears. QEMU's emulation does not clear MPC,
    /// RNBC and some others, so a register that has counted is read again: one
    /// that still holds as much was not cleared, and only the difference from
    /// the last time is new.
    pub fn collect<R: Registers>(&mut self, regs: &R) -> Statistics {
        for ((register, total), residue) in COUNTERS.into_iter().zip(&mut self.residues) {
            let first = regs.read32(register);
            let second = if first == 0 { 0 } else { regs.read32(register) };
            let kept = first != 0 && second >= first;
            let new = if kept {
                second.wrapping_sub(*residue)
            } else {
                first.wrapping_add(second)
            };
            *residue = if kept { second } else { 0 };
            *total(&mut self.sums) += u64::from(new);
        }
        self.sums.rx_bytes += octets(regs, GORCL, GORCH);
        self.sums.tx_bytes += octets(regs, GOTCL, GOTCH);
        self.sums
    }

    /// Forgets what was counted before now.
    pub fn clear<R: Registers>(&mut self, regs: &R) {
        self.collect(regs);
        self.sums = Statistics::default();
    }

    /// Says that the registers have been reset.
    pub fn registers_reset<R: Registers>(&mut self, regs: &R) {
        for ((register, _), residue) in COUNTERS.into_iter().zip(&mut self.residues) {
            if *residue != 0 {
                *residue = regs.read32(register).min(*residue);
            }
        }
    }
}

/// Reads a 64-bit counter: low, then high, whose reading clears both.
fn octets<R: Registers>(regs: &R, low: usize, high: usize) -> u64 {
    let low = regs.read32(low);
    u64::from(regs.read32(high)) << 32 | u64::from(low)
}
