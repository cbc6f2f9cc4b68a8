//! A linked image to test with.

use crate::linked::{Linked, Segment};

pub fn linked() -> Linked {
    let segment = |offset, len, memory_len, executable, writable| Segment {
        offset,
        len,
        memory_len,
        executable,
        writable,
    };
    Linked {
        base: 0x20_0000,
        flat: (0..0x2345_u32).map(|n| n as u8).collect(),
        memory_len: 0x5000,
        segments: vec![
            segment(0, 0xfff, 0xfff, true, false),
            segment(0x1000, 0x800, 0x800, false, false),
            segment(0x2000, 0x345, 0x3000, false, true),
        ],
        setup: vec![0xfc, 1, 2, 3, 4],
        note: (0x1000, 20),
        pvh_entry: 0x1a,
        efi_entry: 0x220,
        multiboot2_entry: 0x33,
    }
}
