//! The hardware's own counters, which a read clears, and the model's totals.

/// Counters in the order of their registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Counter {
    TxUnicast,
    TxMulticast,
    TxBroadcast,
    TxBytes,
    TxZeroRetransmits,
    TxLateCollision,
    TxUnderflow,
    TxCarrierLost,
    TxRetryError,
    RxFrameError,
    RxRunt,
    RxTooLong,
    RxOverflow,
    RxCrcError,
    RxLengthError,
    RxUnicast,
    RxMulticast,
    RxBroadcast,
    TxFrames,
    RxBytes,
    TxPause,
    RxPause,
    RxDropped,
}

/// How many there are.
const COUNTERS: usize = Counter::RxDropped as usize + 1;

/// Their registers, and in which group of counters each is. Registers of the groups that
/// are not here count what cannot happen in the model: what needs half duplex, and
/// frames that are not whole bytes.
const PLACES: [(usize, Counter, u8); COUNTERS] = [
    (0x1a0, Counter::TxUnicast, 3),
    (0x1a4, Counter::TxMulticast, 3),
    (0x1a8, Counter::TxBroadcast, 3),
    (0x280, Counter::TxBytes, 1),
    (0x284, Counter::TxZeroRetransmits, 1),
    (0x290, Counter::TxLateCollision, 1),
    (0x294, Counter::TxUnderflow, 1),
    (0x298, Counter::TxCarrierLost, 1),
    (0x2a0, Counter::TxRetryError, 1),
    (0x2a4, Counter::RxFrameError, 1),
    (0x2b0, Counter::RxRunt, 1),
    (0x2b4, Counter::RxTooLong, 1),
    (0x2b8, Counter::RxOverflow, 1),
    (0x2bc, Counter::RxCrcError, 1),
    (0x2c4, Counter::RxLengthError, 1),
    (0x2c8, Counter::RxUnicast, 1),
    (0x2cc, Counter::RxMulticast, 1),
    (0x2d0, Counter::RxBroadcast, 1),
    (0x2d8, Counter::TxFrames, 2),
    (0x2dc, Counter::RxBytes, 2),
    (0x2e0, Counter::TxPause, 2),
    (0x2e4, Counter::RxPause, 2),
    (0x2e8, Counter::RxDropped, 2),
];

/// The counter behind `register`, and its group.
pub(super) fn counter_at(register: usize) -> Option<(Counter, u8)> {
    let place = PLACES
        .binary_search_by_key(&register, |place| place.0)
        .ok()?;
    Some((PLACES[place].1, PLACES[place].2))
}

#[derive(Debug, Default)]
pub(super) struct Counters([u32; COUNTERS]);

impl Counters {
    pub(super) fn add(&mut self, counter: Counter, count: u32) {
        let value = &mut self.0[counter as usize];
        *value = value.wrapping_add(count);
    }

    /// Reads and clears.
    pub(super) fn take(&mut self, counter: Counter) -> u32 {
        std::mem::take(&mut self.0[counter as usize])
    }
}

/// What a model has done since it was made. Bytes are without FCS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Frames put on the wire.
    pub tx_frames: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Super-segments cut.
    pub tx_super_segments: u64,
    /// Frames flagged with an error instead of being sent.
    pub tx_errors: u64,
    /// Frames sent while no link could carry them.
    pub tx_unheard: u64,
    /// Pause frames sent.
    pub tx_pause: u64,
    /// Frames given to the host.
    pub rx_frames: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Frames that the filter did not let in.
    pub rx_filtered: u64,
    /// Frames that came while the receiver or the link was off.
    pub rx_unheard: u64,
    /// Frames flagged with an error.
    pub rx_errors: u64,
    /// Frames for which there was no room.
    pub rx_dropped: u64,
    /// Pause frames received.
    pub rx_pause: u64,
    /// Times that a frame found no buffer and waited.
    pub rx_waits: u64,
    /// Changes of the link.
    pub link_changes: u64,
}

impl Totals {
    /// Names and values.
    pub fn list(&self) -> [(&'static str, u64); 15] {
        [
            ("tx_frames", self.tx_frames),
            ("tx_bytes", self.tx_bytes),
            ("tx_super_segments", self.tx_super_segments),
            ("tx_errors", self.tx_errors),
            ("tx_unheard", self.tx_unheard),
            ("tx_pause", self.tx_pause),
            ("rx_frames", self.rx_frames),
            ("rx_bytes", self.rx_bytes),
            ("rx_filtered", self.rx_filtered),
            ("rx_unheard", self.rx_unheard),
            ("rx_errors", self.rx_errors),
            ("rx_dropped", self.rx_dropped),
            ("rx_pause", self.rx_pause),
            ("rx_waits", self.rx_waits),
            ("link_changes", self.link_changes),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_counter_has_one_register() {
        assert!(PLACES.is_sorted_by_key(|place| place.0));
        assert!(PLACES.is_sorted_by_key(|place| place.1));
        assert_eq!(counter_at(0x2d8), Some((Counter::TxFrames, 2)));
        assert_eq!(counter_at(0x2d4), None);
    }

    #[test]
    fn a_read_clears() {
        let mut counters = Counters::default();
        counters.add(Counter::RxBytes, 5);
        counters.add(Counter::RxBytes, u32::MAX);
        assert_eq!(counters.take(Counter::RxBytes), 4);
        assert_eq!(counters.take(Counter::RxBytes), 0);
    }
}
