//! The statistics block, and the interrupts that come with it.
//!
//! An interrupt takes two tokens from the driver, which gives them back by writing to
//! the claim registers: one for the block, without which nothing is raised, and one for
//! received frames, which a driver keeps while it polls.

use std::time::Duration;

use super::Myri10ge;
use super::layout::CLAIM;
use crate::device::Host;
use crate::interrupts::InterruptMode;

/// Bytes of the block, and of the one that older drivers know: its end.
pub(super) const BLOCK_LEN: usize = 64;
pub(super) const OLD_BLOCK_LEN: usize = 40;

/// RDMA tags that a card has as long as no read was lost.
const RDMA_TAGS: u32 = 15;

/// In the byte `valid`: there is something, and frames were received.
const VALID: u8 = 2;
const VALID_RECEIVE: u8 = 1;

/// What the driver is to be told.
#[derive(Debug, Default)]
pub(super) struct Status {
    /// The two tokens.
    receive_claimed: bool,
    claimed: bool,
    /// Frames were received.
    received: bool,
    /// A frame was sent, or the link or a counter changed.
    changed: bool,
    /// Something other than sent frames did.
    updated: bool,
    /// The interface went down.
    down: bool,
    send_done_count: u32,
    /// Microseconds that an interrupt waits for more to come.
    delay: u32,
    /// Since when there is something to tell.
    since: Option<Duration>,
    /// INTx is asserted.
    pub(super) asserted: bool,
}

impl Status {
    pub(super) fn came_up(&mut self, now: Duration) {
        self.receive_claimed = true;
        self.claimed = true;
        self.news(now);
    }

    pub(super) fn went_down(&mut self, now: Duration) {
        self.down = true;
        self.news(now);
    }

    /// The link or a counter changed.
    pub(super) fn news(&mut self, now: Duration) {
        self.updated = true;
        self.changed = true;
        self.since.get_or_insert(now);
    }

    pub(super) fn sent(&mut self, now: Duration) {
        self.send_done_count = self.send_done_count.wrapping_add(1);
        self.changed = true;
        self.since.get_or_insert(now);
    }

    pub(super) fn received(&mut self, now: Duration) {
        self.received = true;
        self.since.get_or_insert(now);
    }

    pub(super) fn set_delay(&mut self, microseconds: u32) {
        self.delay = microseconds;
    }

    pub(super) fn delay(&self) -> u32 {
        self.delay
    }

    /// Whether the driver may be told, and is to be.
    fn is_pending(&self) -> bool {
        self.claimed && (self.changed || self.received && self.receive_claimed)
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        let since = self.since.filter(|_| self.is_pending())?;
        Some(since + Duration::from_micros(self.delay.into()))
    }
}

impl Myri10ge {
    /// The driver gives the token for received frames back.
    pub(super) fn claim_receive(&mut self, host: &mut Host, value: u32) {
        check_claim(host, value);
        self.status.receive_claimed = true;
    }

    /// The driver gives the token for the block back.
    pub(super) fn claim_status(&mut self, host: &mut Host, value: u32) {
        check_claim(host, value);
        if self.status.asserted {
            host.complaints
                .add("an interrupt was claimed while its line is asserted");
        }
        self.status.claimed = true;
    }

    /// The driver has the INTx line lowered, and waits for `valid` to become zero.
    pub(super) fn deassert(&mut self, host: &mut Host) {
        self.status.asserted = false;
        host.interrupts.set_level(false, host.now);
        let Some(stats) = self.parameters.stats else {
            return;
        };
        let valid = stats.address.wrapping_add(stats.len as u64).wrapping_sub(1);
        if let Err(error) = host.dma.write(valid, &[0]) {
            host.complaints.add(format_args!("valid: {error}"));
        }
    }

    /// Raises an interrupt if one is due.
    pub(super) fn update_interrupts(&mut self, host: &mut Host) {
        // A message goes out once; a line stands until it is deasserted.
        if self.status.deadline().is_none_or(|due| due > host.now) || !host.dma.is_master() {
            return;
        }
        let mut valid = VALID;
        if self.status.received && self.status.receive_claimed {
            self.status.received = false;
            self.status.receive_claimed = false;
            valid |= VALID_RECEIVE;
        }
        self.write_block_of_statistics(host, valid);
        let status = &mut self.status;
        status.claimed = false;
        status.changed = false;
        status.updated = false;
        status.down = false;
        // Frames that wait for the driver's token wait from now on.
        status.since = status.received.then_some(host.now);
        self.totals.interrupts += 1;
        if host.interrupts.mode() == InterruptMode::Intx {
            self.status.asserted = true;
            host.interrupts.set_level(true, host.now);
        } else {
            host.interrupts.message(0, host.now);
        }
    }

    fn write_block_of_statistics(&mut self, host: &mut Host, valid: u8) {
        let Some(stats) = self.parameters.stats else {
            return;
        };
        let dropped = &self.dropped;
        let words = [
            0,
            dropped.pause,
            dropped.unicast_filtered,
            dropped.bad_crc32,
            dropped.bad_phy,
            dropped.multicast_filtered,
            self.status.send_done_count,
            u32::from(self.link_up),
            dropped.link_overflow,
            dropped.link_error_or_filtered,
            dropped.runt,
            dropped.overrun,
            dropped.no_small_buffer,
            dropped.no_big_buffer,
            RDMA_TAGS - self.faults.lost_tags,
        ];
        let mut block: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        let flags = [
            0,
            u8::from(self.status.down),
            u8::from(self.status.updated),
            valid,
        ];
        block.extend(flags);
        // Newer counters stand before the older ones, so that older drivers take the end.
        let known = &block[BLOCK_LEN - stats.len.min(BLOCK_LEN)..];
        let (counters, last) = known.split_at(known.len().saturating_sub(4));
        let at = stats.address.wrapping_add((stats.len - known.len()) as u64);
        let written = host.dma.write(at, counters).and_then(|()| {
            let last = last.try_into().map_or(0, u32::from_le_bytes);
            host.dma
                .store32(at.wrapping_add(counters.len() as u64), last)
        });
        if let Err(error) = written {
            host.complaints
                .add(format_args!("the statistics block: {error}"));
        }
    }
}

fn check_claim(host: &mut Host, value: u32) {
    if value != CLAIM {
        host.complaints
            .add(format_args!("an interrupt was claimed by {value:#x}"));
    }
}
