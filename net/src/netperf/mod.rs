//! The netperf 2.7 server, as pure state machines: bytes, events and time in;
//! bytes and actions out. Nothing here knows sockets.
//!
//! ```text
//!   control connection ──bytes──▶ Session ──Action──▶ glue (opens, closes ports)
//!                      ◀─bytes──    │
//!                                   ▼
//!   data connections  ──counts──▶  Test  ──how much to send, when to close
//! ```
//!
//! One [`Session`] lives as long as its control connection. While a test is
//! set up it owns a [`Test`], which the data path drives with byte counts only;
//! the contents of netperf's data never matter. `docs/netperf.md` has the wire
//! format and the rules by which tests end.
//!
//! The glue's duties:
//!
//! 1. Give control bytes to [`Session::receive`], send [`Session::outgoing`],
//!    say so with [`Session::sent`], and say [`Session::closed`] when the
//!    connection has ended in any way (end of stream, reset, keep-alive).
//!    The control socket needs TCP keep-alive with a timeout of a minute or
//!    less: it is what frees a test whose client's host has vanished.
//! 2. After each call, drain [`Session::next_action`] and obey.
//! 3. Call [`Session::poll`] at [`Session::poll_at`], and at once when a call
//!    on the [`Test`] answers [`Step::Ended`].

mod answer;
mod client;
pub mod cpu;
pub mod report;
mod role;
mod room;
pub mod server;
pub mod session;
pub mod spec;
pub mod test;
pub mod wire;

pub use cpu::Snapshot;
pub use report::Report;
pub use server::Server;
pub use session::{Action, Host, Interface, PciIds, Session};
pub use spec::{Errno, Limit, Open, Opened, Spec, Transport};
pub use test::{Accept, Connection, Received, Step, Test};
