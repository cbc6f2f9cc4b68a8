//! The receiving side of the books: what has come of the peer's data.

use super::segment::{before, later};
use super::{Hint, Recovery};
use crate::frame::TcpFrame;
use crate::sack::Blocks;

impl Recovery {
    /// RFC 9293 section 3.10.7.4: whether smoltcp will take a segment.
    pub(super) fn is_acceptable(&self, segment: &TcpFrame) -> bool {
        let end = segment.end.wrapping_sub(u32::from(segment.flags.closes()));
        if end != segment.seq {
            return before(segment.seq, self.rcv_end) && before(self.rcv_nxt, end);
        }
        if self.rcv_nxt == self.rcv_end {
            return segment.seq == self.rcv_nxt;
        }
        !before(segment.seq, self.rcv_nxt) && before(segment.seq, self.rcv_end)
    }

    /// Follows what the peer sends.
    pub(super) fn take_data(&mut self, segment: &TcpFrame) {
        if !before(self.rcv_nxt, segment.seq) {
            let fits = !before(
                self.rcv_end,
                segment.end.wrapping_sub(u32::from(segment.flags.closes())),
            );
            let end = if fits { segment.end } else { self.rcv_end };
            self.rcv_nxt = later(self.rcv_nxt, end);
        } else {
            let end = segment.end.wrapping_sub(u32::from(segment.flags.closes()));
            if segment.flags.closes() {
                self.early_fin = Some(end);
            }
            self.ahead
                .came(segment.seq, end, self.rcv_nxt, self.rcv_end);
        }
    }

    /// What the peer is to be told that came beyond the first missing byte.
    pub fn report(&mut self) -> Option<Blocks> {
        self.ahead.blocks(self.rcv_nxt).filter(|_| self.sack)
    }

    /// The FIN that came too early, if it is its turn now.
    pub fn take_early_fin(&mut self) -> Option<Hint> {
        let fin = self.early_fin?;
        if before(self.rcv_nxt, fin) {
            return None;
        }
        self.early_fin = None;
        (fin == self.rcv_nxt).then(|| {
            let hint = self.hint(self.told);
            self.rcv_nxt = self.rcv_nxt.wrapping_add(1);
            hint
        })
    }
}
