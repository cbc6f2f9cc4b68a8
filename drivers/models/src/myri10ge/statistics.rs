//! What a card has done.

/// Totals since the model was made. Bytes are without FCS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Frames put on the wire.
    pub tx_frames: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Super-segments cut.
    pub tx_super_segments: u64,
    /// Frames that the card filled a checksum into.
    pub tx_checksums: u64,
    /// Requests that were wrong, and whose frame was not sent.
    pub tx_refused: u64,
    /// Frames sent while the link was down.
    pub tx_unheard: u64,
    /// Frames given to the host.
    pub rx_frames: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Frames that came while the interface or the link was down.
    pub rx_unheard: u64,
    /// Interrupts raised.
    pub interrupts: u64,
    /// Firmware images started.
    pub hand_offs: u64,
    /// Commands answered.
    pub commands: u64,
    /// Times that the card started anew by itself.
    pub reboots: u64,
    /// Changes of the link.
    pub link_changes: u64,
}

impl Totals {
    /// Names and values.
    pub fn list(&self) -> [(&'static str, u64); 14] {
        [
            ("tx_frames", self.tx_frames),
            ("tx_bytes", self.tx_bytes),
            ("tx_super_segments", self.tx_super_segments),
            ("tx_checksums", self.tx_checksums),
            ("tx_refused", self.tx_refused),
            ("tx_unheard", self.tx_unheard),
            ("rx_frames", self.rx_frames),
            ("rx_bytes", self.rx_bytes),
            ("rx_unheard", self.rx_unheard),
            ("interrupts", self.interrupts),
            ("hand_offs", self.hand_offs),
            ("commands", self.commands),
            ("reboots", self.reboots),
            ("link_changes", self.link_changes),
        ]
    }
}

/// The firmware's counters of frames that it did not deliver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Pause frames, which are obeyed and go no further.
    pub pause: u32,
    /// Frames for another station.
    pub unicast_filtered: u32,
    /// With a wrong FCS.
    pub bad_crc32: u32,
    /// With errors on the line.
    pub bad_phy: u32,
    /// To a group that nobody has joined.
    pub multicast_filtered: u32,
    /// That came faster than they could be taken.
    pub link_overflow: u32,
    /// Too long, or filtered by older firmware.
    pub link_error_or_filtered: u32,
    /// Too short.
    pub runt: u32,
    /// For which the SRAM had no room.
    pub overrun: u32,
    /// For which no small buffer was there.
    pub no_small_buffer: u32,
    /// For which no big buffer was there.
    pub no_big_buffer: u32,
}

impl Dropped {
    /// Names and values.
    pub fn list(&self) -> [(&'static str, u32); 11] {
        [
            ("dropped_pause", self.pause),
            ("dropped_unicast_filtered", self.unicast_filtered),
            ("dropped_bad_crc32", self.bad_crc32),
            ("dropped_bad_phy", self.bad_phy),
            ("dropped_multicast_filtered", self.multicast_filtered),
            ("dropped_link_overflow", self.link_overflow),
            (
                "dropped_link_error_or_filtered",
                self.link_error_or_filtered,
            ),
            ("dropped_runt", self.runt),
            ("dropped_overrun", self.overrun),
            ("dropped_no_small_buffer", self.no_small_buffer),
            ("dropped_no_big_buffer", self.no_big_buffer),
        ]
    }
}
