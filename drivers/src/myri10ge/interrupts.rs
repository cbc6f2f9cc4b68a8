//! Interrupts, and the statistics block that comes with each.
//!
//! The card raises one only while it has the token for the block, and one for received
//! frames only while it has that token too. Each interrupt takes them; the driver gives
//! them back by writing to the claim registers. So to mask is to keep the tokens, which
//! takes no access at all. What the block says (sent frames, the link, counters) is as
//! old as the last interrupt: who wants to know while interrupts are masked gives the
//! token for the block alone.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use super::dma::Words;
use super::regs::CLAIM;
use crate::hw::{OutOfDmaMemory, Platform, Window};
use crate::nic::{Causes, Interrupt, InterruptKind};

/// Bytes of the block.
pub const BLOCK_LEN: usize = 64;
/// Bytes of the block that old firmware knows: its end.
pub const OLD_BLOCK_LEN: usize = 40;

/// Where words of the block are.
pub mod field {
    /// Pause frames received.
    pub const DROPPED_PAUSE: usize = 4;
    /// Frames with a wrong FCS.
    pub const DROPPED_BAD_CRC32: usize = 12;
    /// Frames with errors on the line.
    pub const DROPPED_BAD_PHY: usize = 16;
    /// Frames sent since the firmware was reset.
    pub const SEND_DONE_COUNT: usize = 24;
    /// The link.
    pub const LINK_UP: usize = 28;
    /// Frames that came faster than they could be taken.
    pub const DROPPED_LINK_OVERFLOW: usize = 32;
    /// Frames that were too long, or that old firmware has filtered.
    pub const DROPPED_LINK_ERROR: usize = 36;
    /// Frames that were too short.
    pub const DROPPED_RUNT: usize = 40;
    /// Frames that the card had no room for.
    pub const DROPPED_OVERRUN: usize = 44;
    /// Frames that found no small buffer.
    pub const DROPPED_NO_SMALL_BUFFER: usize = 48;
    /// Frames that found no big buffer.
    pub const DROPPED_NO_BIG_BUFFER: usize = 52;
    /// Reads of the host's memory that can be under way.
    pub const RDMA_TAGS: usize = 56;
    /// The interface went down, and nothing is on its way any more, in a byte.
    pub const LINK_DOWN: usize = 61;
    /// The link or counters changed, in a byte.
    pub const STATS_UPDATED: usize = 62;
    /// What an interrupt is for, in a byte; 0 once the driver has seen it.
    pub const VALID: usize = 63;
}

/// In the byte `valid`: frames were received.
const VALID_RECEIVE: u8 = 1;

/// What the loop, the rings and the interrupt handler share.
struct Shared {
    block: Words,
    /// Where the claim and deassert registers are in the window.
    ack: AtomicUsize,
    deassert: AtomicUsize,
    /// The tokens that the driver holds.
    holds_receive: AtomicBool,
    holds_block: AtomicBool,
    /// Interrupts come by the line, which has to be let go.
    by_line: AtomicBool,
    /// Whether the loop wants none.
    masked: AtomicBool,
    claims: AtomicU32,
    /// Causes that were seen by other than the handler, and that nobody was told of.
    untold: AtomicU32,
}

/// The driver's hold on them, which the rings have too.
pub struct Interrupts<W> {
    window: W,
    shared: Arc<Shared>,
}

impl<W: Clone> Clone for Interrupts<W> {
    fn clone(&self) -> Self {
        Self {
            window: self.window.clone(),
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<W: Window> Interrupts<W> {
    /// Takes memory for the block.
    ///
    /// # Errors
    ///
    /// No DMA memory is left.
    pub fn new(window: W, platform: &mut impl Platform) -> Result<Self, OutOfDmaMemory> {
        let shared = Shared {
            block: Words::new(platform, BLOCK_LEN, 64)?,
            ack: AtomicUsize::new(0),
            deassert: AtomicUsize::new(0),
            holds_receive: AtomicBool::new(false),
            holds_block: AtomicBool::new(false),
            by_line: AtomicBool::new(true),
            masked: AtomicBool::new(true),
            claims: AtomicU32::new(0),
            untold: AtomicU32::new(0),
        };
        Ok(Self {
            window,
            shared: Arc::new(shared),
        })
    }

    /// Where the card is to write the block.
    pub fn bus(&self) -> u64 {
        self.shared.block.bus()
    }

    /// Begins anew with the registers at these offsets: the card is about to come up,
    /// with both tokens.
    pub fn restart(&self, ack: usize, deassert: usize) {
        for at in (0..BLOCK_LEN).step_by(4) {
            self.shared.block.write(at, 0);
        }
        self.shared.ack.store(ack, Ordering::Relaxed);
        self.shared.deassert.store(deassert, Ordering::Relaxed);
        self.shared.holds_receive.store(false, Ordering::Relaxed);
        self.shared.holds_block.store(false, Ordering::Relaxed);
    }

    /// A word of the block.
    #[inline]
    pub fn word(&self, field: usize) -> u32 {
        self.shared.block.read(field)
    }

    /// Whether an interrupt was raised that nobody has seen to.
    pub fn is_raised(&self) -> bool {
        self.shared.block.read_byte(field::VALID) != 0
    }

    /// Interrupts that the handler has claimed.
    pub fn claims(&self) -> u32 {
        self.shared.claims.load(Ordering::Relaxed)
    }

    /// How the machine listens from now on.
    pub fn listen(&self, kind: InterruptKind) {
        let by_line = kind == InterruptKind::Line;
        self.shared.by_line.store(by_line, Ordering::Relaxed);
    }

    /// Keeps the tokens from now on.
    pub fn mask(&self) {
        self.shared.masked.store(true, Ordering::Relaxed);
    }

    /// Whether they are kept.
    pub fn is_masked(&self) -> bool {
        self.shared.masked.load(Ordering::Relaxed)
    }

    /// Gives both tokens back.
    pub fn unmask(&self) {
        self.shared.masked.store(false, Ordering::Relaxed);
        self.see();
        // The handler may run as soon as the last is written, and take both again.
        if self.shared.holds_receive.swap(false, Ordering::Relaxed) {
            self.claim_at(0);
        }
        self.give_block();
    }

    /// Has the card tell how far it is, though interrupts may be masked.
    pub fn ask(&self) {
        self.see();
        self.give_block();
    }

    /// Forgets that the interface ever went down.
    pub fn expect_down(&self) {
        self.shared.block.write_byte(field::LINK_DOWN, 0);
    }

    /// Whether the card has said since that the interface is down; else it may.
    pub fn is_down(&self) -> bool {
        self.see();
        let is_down = self.shared.block.read_byte(field::LINK_DOWN) != 0;
        if !is_down {
            self.give_block();
        }
        is_down
    }

    /// Gives the token for the block back.
    fn give_block(&self) {
        if self.shared.holds_block.swap(false, Ordering::Relaxed) {
            self.claim_at(4);
        }
    }

    fn claim_at(&self, offset: usize) {
        let register = self.shared.ack.load(Ordering::Relaxed) + offset;
        self.window.write32(register, CLAIM.to_be());
    }

    /// Sees to an interrupt that has been raised and whose handler did not run.
    pub fn see(&self) {
        if let Some(causes) = self.shared.take(&self.window) {
            self.shared
                .untold
                .fetch_or(causes.bits(), Ordering::Relaxed);
        }
    }

    /// The causes that nobody was told of.
    pub fn take_untold(&self) -> Causes {
        Causes::from_bits_truncate(self.shared.untold.swap(0, Ordering::Relaxed))
    }

    /// The handler's hold on them.
    pub fn handle(&self) -> Handle<W> {
        Handle {
            window: self.window.clone(),
            shared: Arc::clone(&self.shared),
        }
    }
}

impl Shared {
    /// Takes what was raised, and the tokens with it.
    fn take(&self, window: &impl Window) -> Option<Causes> {
        let valid = self.block.read_byte(field::VALID);
        if valid == 0 {
            return None;
        }
        if self.by_line.load(Ordering::Relaxed) {
            window.write32(self.deassert.load(Ordering::Relaxed), 0);
        }
        // With the line the card does that too, before it raises the next one.
        self.block.write_byte(field::VALID, 0);
        self.holds_block.store(true, Ordering::Relaxed);
        let mut causes = Causes::TRANSMIT;
        if valid & VALID_RECEIVE != 0 {
            self.holds_receive.store(true, Ordering::Relaxed);
            causes |= Causes::RECEIVE;
        }
        if self.block.read_byte(field::STATS_UPDATED) != 0 {
            causes |= Causes::LINK;
        }
        Some(causes)
    }
}

/// The interrupt handler's hold on the card.
pub struct Handle<W> {
    window: W,
    shared: Arc<Shared>,
}

impl<W: Window + Send> Interrupt for Handle<W> {
    fn claim(&self) -> Option<Causes> {
        let causes = self.shared.take(&self.window)?;
        self.shared.masked.store(true, Ordering::Relaxed);
        self.shared.claims.fetch_add(1, Ordering::Relaxed);
        Some(causes)
    }
}
