//! One client of the server: its session and the sockets that belong to it.

use alloc::vec::Vec;
use core::net::SocketAddr;

use super::Snapshot;
use super::session::Session;
use super::test::Connection;
use crate::services::Context;
use crate::stack::{FlowId, ListenerId, Stack, UdpId};

/// What a test's data comes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DataSocket {
    Listener(ListenerId),
    Udp(UdpId),
}

/// A client, from its control connection's beginning until all that was
/// opened for it is let go.
pub(super) struct Client {
    pub(super) session: Session,
    /// The control connection, until it has ended.
    pub(super) control: Option<FlowId>,
    /// The session is over; what it had to say is on its way.
    pub(super) is_leaving: bool,
    pub(super) data: Option<DataSocket>,
    /// Data connections now open: one, or a few where each transaction has one.
    pub(super) connections: Vec<(FlowId, Connection)>,
    /// Whether data connections go without Nagle's algorithm.
    pub(super) no_delay: bool,
    /// When it is looked at at the latest, in nanoseconds.
    pub(super) timer: u64,
}

impl Client {
    pub(super) fn new(session: Session, control: FlowId) -> Self {
        Self {
            session,
            control: Some(control),
            is_leaving: false,
            data: None,
            connections: Vec::new(),
            no_delay: false,
            timer: u64::MAX,
        }
    }

    /// Gives the session's answers to the control connection. Returns whether
    /// any went.
    pub(super) fn send_answers(&mut self, cx: &mut Context<'_>) -> bool {
        if self.session.outgoing().is_empty() {
            return false;
        }
        let Some(socket) = self.control.and_then(|control| cx.stack.tcp(control)) else {
            return false;
        };
        let given = socket.send_slice(self.session.outgoing()).unwrap_or(0);
        self.session.sent(given);
        given > 0
    }

    /// Whether something came on the control connection.
    pub(super) fn has_requests(&self, cx: &mut Context<'_>) -> bool {
        let socket = self.control.and_then(|control| cx.stack.tcp(control));
        socket.is_some_and(|socket| socket.can_recv())
    }

    /// Gives what came on the control connection to the session. Returns how
    /// many bytes it took.
    pub(super) fn take_requests(&mut self, cx: &mut Context<'_>, at: Snapshot) -> usize {
        let Some(socket) = self.control.and_then(|control| cx.stack.tcp(control)) else {
            return 0;
        };
        let session = &mut self.session;
        socket
            .recv(|bytes| {
                let taken = session.receive(bytes, at);
                (taken, taken)
            })
            .unwrap_or(0)
    }

    /// Whether nothing is left to be done for the client; lets go of its
    /// control connection then.
    pub(super) fn has_left(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.is_leaving {
            return false;
        }
        if let Some(control) = self.control {
            let can_still_answer = cx
                .stack
                .tcp(control)
                .is_some_and(|socket| socket.may_send());
            if can_still_answer && !self.session.outgoing().is_empty() {
                return false;
            }
            cx.stack.release(control);
        }
        true
    }

    /// Closes the data port and ends the data connections, each by `end`.
    pub(super) fn end_data(&mut self, cx: &mut Context<'_>, end: impl Fn(&mut Stack, FlowId)) {
        match self.data.take() {
            Some(DataSocket::Listener(listener)) => cx.stack.unlisten(listener),
            Some(DataSocket::Udp(socket)) => cx.stack.close_udp(socket),
            None => {}
        }
        for (flow, _) in self.connections.drain(..) {
            end(cx.stack, flow);
        }
    }

    /// Sends empty datagrams from the data port, as far as there is room.
    pub(super) fn send_empty(&mut self, cx: &mut Context<'_>, to: SocketAddr, count: u8) {
        let Some(DataSocket::Udp(id)) = self.data else {
            return;
        };
        let Some(socket) = cx.stack.udp(id) else {
            return;
        };
        let SocketAddr::V4(to) = to else {
            return;
        };
        for _ in 0..count {
            if socket.send(to, 0).is_err() {
                break;
            }
        }
    }
}
