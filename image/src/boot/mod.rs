//! Boot entries: one file a protocol. Each brings the machine to 64-bit mode,
//! says what it was told through [`uniperf_kernel::boot::Info`], and starts
//! Hermit; nothing after that cares which one it was.

mod long_mode;
mod pvh;

use core::ops::Range;

unsafe extern "C" {
    static image_start: u8;
    static image_end: u8;
}

/// Where the image lies in memory, its zeroed part included.
fn image() -> Range<u64> {
    (&raw const image_start) as u64..(&raw const image_end) as u64
}
