//! Boot entries: one file a protocol. Each brings the machine to 64-bit mode,
//! writes down what it was told in a [`Handover`](uniperf_kernel::handover::Handover),
//! and starts Hermit; nothing after that cares which one it was.

mod efi;
#[cfg(target_os = "none")]
mod entry;
mod linux;
#[cfg(target_os = "none")]
mod multiboot2;
#[cfg(target_os = "none")]
mod pvh;
#[cfg(target_os = "none")]
mod tables;

/// Where the image lies in memory, its zeroed part included.
#[cfg(target_os = "none")]
fn image() -> core::ops::Range<u64> {
    unsafe extern "C" {
        static image_start: u8;
        static image_end: u8;
    }
    (&raw const image_start) as u64..(&raw const image_end) as u64
}
