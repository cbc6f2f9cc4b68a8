//! What NICs do to packets by themselves: checksums, and the cutting of TCP
//! super-segments.
//!
//! Written apart from the stack's and the drivers' own, so that a mistake in theirs is
//! not repeated here.

mod checksum;
mod cut;
mod packet;

pub(crate) use checksum::{fill_checksums, verdict};
pub(crate) use cut::cut;
