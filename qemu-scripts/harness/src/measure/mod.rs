//! What the bench and the scenarios have in common: how guests are booted to be
//! measured, how figures are summed up and shown, and how progress is told.

mod about;
mod guest;
mod netserver;
mod progress;
mod saved;
mod statistics;
pub mod table;

pub use about::About;
pub(crate) use about::{netperf_version, now};
pub use guest::{Boot, Guest};
pub use netserver::Netserver;
pub use progress::Progress;
pub use saved::Saved;
pub use statistics::{Summary, percentile};
