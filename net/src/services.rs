//! What runs on the stack, as the receive loop sees it.

use core::fmt;

use smoltcp::wire::IpEndpoint;

use crate::machine::{CpuTime, Machine};
use crate::stack::{FlowId, ListenerId, Owner, Stack, UdpId};

/// A service: netperf's server is one.
///
/// The loop calls a service when something happened to what it owns, or when
/// its deadline has come; in between it costs nothing. Whatever a service
/// queues while it is called goes out before the loop looks at the next frames.
pub trait Service {
    /// Opens what the service listens on. Called once, before the first frame.
    fn start(&mut self, cx: &mut Context<'_>);

    /// Whether the service can be used; the appliance says that it is ready
    /// when all services are.
    fn is_ready(&self) -> bool {
        true
    }

    /// Something happened to a socket of the service.
    fn on_event(&mut self, cx: &mut Context<'_>, event: Event);

    /// When [`on_timer`](Service::on_timer) is to be called, in nanoseconds as
    /// [`Machine::now`] counts them. Asked before every wait: keep it cheap.
    fn deadline(&self) -> Option<u64> {
        None
    }

    /// The deadline has come.
    fn on_timer(&mut self, cx: &mut Context<'_>) {
        let _ = cx;
    }

    /// Names the service's counters, in a fixed order. Values that are to be
    /// the same after each piece of work start with `rest.`.
    fn counters(&self, visit: &mut dyn FnMut(&str, u64)) {
        let _ = visit;
    }

    /// A line from the console that the appliance does not know. Returns
    /// whether the service did.
    fn command(&mut self, cx: &mut Context<'_>, line: &str) -> bool {
        let _ = (cx, line);
        false
    }
}

/// What happened to a socket. Each carries the `token` that its owner gave.
///
/// The order for a connection is `Accepted`, then `Touched` any number of
/// times, then at most one `PeerClosed`, then exactly one `Closed` unless the
/// service has released or aborted the connection before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A connection was made to a listener. Its token is the listener's until
    /// [`Stack::set_owner`] gives another.
    Accepted {
        /// The new connection.
        flow: FlowId,
        /// What it was made to.
        listener: ListenerId,
        /// Where it comes from.
        peer: IpEndpoint,
        /// The owner's token.
        token: u32,
    },
    /// Data came, or sent data was acknowledged so that there is room for
    /// more where there was none. Comes at most once a batch of frames.
    Touched {
        /// The connection.
        flow: FlowId,
        /// The owner's token.
        token: u32,
    },
    /// The peer will send nothing more. What it sent can still be read, and
    /// data can still be sent to it.
    PeerClosed {
        /// The connection.
        flow: FlowId,
        /// The owner's token.
        token: u32,
    },
    /// The connection has ended. What had come before can be read while this
    /// event is handled; after that the id is void.
    Closed {
        /// The connection.
        flow: FlowId,
        /// The owner's token.
        token: u32,
        /// How it ended.
        how: Ending,
    },
    /// Datagrams came, or, after [`Stack::udp_want_room`], left.
    Datagrams {
        /// The socket.
        socket: UdpId,
        /// The owner's token.
        token: u32,
    },
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Both sides closed it.
    Orderly,
    /// The peer reset it, it fell silent, or our address went away.
    Broken,
}

/// What a service can use while it is called.
pub struct Context<'a> {
    /// The sockets.
    pub stack: &'a mut Stack,
    /// The clock, the console, the CPU's time.
    pub machine: &'a mut dyn Machine,
    /// Nanoseconds, as [`Machine::now`] counts them, when the present batch of
    /// frames was taken. Cheaper than asking the machine.
    pub now: u64,
    /// The service's own number, for [`Owner`].
    pub service: u8,
}

impl Context<'_> {
    /// The called service as the owner of what it opens.
    pub fn owner(&self, token: u32) -> Owner {
        Owner {
            service: self.service,
            token,
        }
    }

    /// How the CPU's cycles were spent so far.
    pub fn cpu_time(&self) -> CpuTime {
        self.machine.cpu_time()
    }

    /// Writes to the console.
    pub fn print(&mut self, text: fmt::Arguments<'_>) {
        self.machine.print(text);
    }
}
