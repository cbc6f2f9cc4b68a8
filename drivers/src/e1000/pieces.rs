//! How the memory of a frame is cut into data descriptors: as few as possible,
//! but for what some parts get wrong.

use crate::hw::DmaSlice;

/// Longest data descriptor in bytes (SDM 3.3.7).
pub const LONGEST: usize = 16288;
/// The same in a super-segment. Open drivers use no longer ones on this family.
const LONGEST_TSO: usize = 4096;
/// Longest first descriptor of a frame on PCI-X: 2048 less two bursts. All
/// parts go wrong there over longer ones (erratum 10 in Linux's driver).
const LONGEST_FIRST_PCI_X: usize = 2015;
/// Bytes cut off a piece of memory whose end is a bad one, or of a frame's last
/// piece to be a sentinel.
const TAIL: usize = 4;
/// Longest piece that needs no sentinel behind it.
const SHORT: usize = 8;

/// What has to be kept to on this part and bus.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    /// The NIC is on a PCI-X bus.
    pub pci_x: bool,
    /// Buffers may not end just anywhere: an 82544 on PCI-X.
    pub split_ends: bool,
    /// A super-segment's buffers may hold four segments each. Before it fetches
    /// a buffer, a PCI part makes sure that so many have room in its FIFO, and
    /// one that holds more can run the FIFO over (as the open drivers have it).
    pub four_segments: bool,
}

impl Rules {
    /// Most descriptors for a piece of `len` bytes, at `longest` bytes each.
    pub const fn most(self, len: usize, longest: usize) -> usize {
        if len == 0 {
            0
        } else if len <= longest {
            1 + self.split_ends as usize
        } else {
            len.div_ceil(longest - self.shortened()) + self.split_ends as usize
        }
    }

    /// Most descriptors that a frame of `len` bytes needs on top of that.
    pub const fn extra(self, len: usize, sentinel: bool) -> usize {
        (self.pci_x && len > LONGEST_FIRST_PCI_X) as usize + sentinel as usize
    }

    /// The longest descriptor of a super-segment.
    pub fn longest_tso(self, mss: u16) -> usize {
        if self.four_segments {
            LONGEST_TSO.min(4 * usize::from(mss))
        } else {
            LONGEST_TSO
        }
    }

    /// How many bytes shorter than the longest a descriptor may turn out.
    pub const fn shortened(self) -> usize {
        if self.split_ends { TAIL } else { 0 }
    }
}

/// Cuts one frame, piece by piece.
pub struct Cutter {
    rules: Rules,
    /// Bytes of the frame that have no descriptor yet.
    left: usize,
    longest: usize,
    /// Longest descriptor the next time.
    longest_now: usize,
    sentinel: bool,
}

impl Cutter {
    /// Begins a frame of `len` bytes.
    ///
    /// With `sentinel`, its last bytes get a descriptor of their own: a
    /// super-segment's last descriptor, or that of a frame in one piece behind
    /// one, may be reported done before its data has been fetched (from the
    /// open drivers).
    pub fn new(rules: Rules, len: usize, longest: usize, sentinel: bool) -> Self {
        let first = if rules.pci_x {
            longest.min(LONGEST_FIRST_PCI_X)
        } else {
            longest
        };
        Self {
            rules,
            left: len,
            longest,
            longest_now: first,
            sentinel,
        }
    }

    /// Cuts the next descriptor off `piece`, which has bytes left. Returns its
    /// length, and whether it is the frame's last.
    #[inline]
    pub fn next(&mut self, piece: &mut DmaSlice) -> (usize, bool) {
        let mut len = piece.len.min(self.longest_now);
        self.longest_now = self.longest;
        if self.sentinel && len == self.left && len > SHORT {
            len -= TAIL;
        }
        if self.rules.split_ends && len > TAIL && ends_badly(piece.bus, len) {
            len -= TAIL;
        }
        piece.bus += len as u64;
        piece.len -= len;
        self.left -= len;
        (len, self.left == 0)
    }
}

/// Whether an 82544 on PCI-X hangs over a buffer that ends as this one does.
///
/// It does when the end, counted from the last 8-byte line before the start,
/// falls on bytes 1 to 4 of an 8-byte line (the erratum as the BSD drivers
/// state it). Cutting off [`TAIL`] bytes moves the end to a good place, and
/// a piece as short as that is safe wherever it ends.
fn ends_badly(bus: u64, len: usize) -> bool {
    let end = (bus & 7) + (len as u64 & 15);
    (1..=4).contains(&(end & 7))
}
