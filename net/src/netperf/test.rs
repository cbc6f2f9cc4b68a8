//! A test while its data flows: what to send, what to count, when it is over.
//!
//! The data path calls it with counts and times only, and it never allocates.
//! What ends a test is in `docs/netperf.md`.

use core::net::{IpAddr, SocketAddr};

use super::cpu::{self, Snapshot};
use super::report::Totals;
use super::spec::{Limit, Opened, Spec, Transport, default_send_size};

const SECOND: u64 = 1_000_000_000;

/// How long after its time a test waits for the client's end of it, as the
/// real server does, in nanoseconds.
const PAD: u64 = 4 * SECOND;

/// Silence after which a test whose time is over has ended, where no close
/// tells so: UDP, and connections that come one by one. In nanoseconds.
const QUIET: u64 = SECOND;

/// Silence after which a client is taken to be gone that has neither a time nor
/// a connection to end its test by, in nanoseconds. Shorter than the 120 s
/// after which the client gives up.
const IDLE: u64 = 60 * SECOND;

/// A first connection or datagram that is later than this starts the clock
/// anew, since the client's own clock starts with it: `netperf -s` waits before
/// it. In nanoseconds.
const LATE: u64 = SECOND;

/// Replies that may wait for room before more requests are read, in bytes.
const MOST_OWED: u64 = 64 * 1024;

/// What the glue does next with a connection, or with the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Go on.
    Continue,
    /// This connection has served: close it once what it was given is sent.
    /// The test goes on.
    Close,
    /// The test is over: call [`Session::poll`](super::Session::poll) now.
    Ended,
}

/// What to do with a connection that came to the data port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accept {
    /// Serve it.
    Serve(Connection),
    /// It needs nothing but an orderly close. The step is never `Continue`.
    Served(Step),
    /// It is not the test's: reset it.
    Refuse,
}

/// What to do with a datagram that came to the data port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// It is not the test's.
    Foreign,
    /// It is counted.
    Counted,
    /// It is counted; send so many bytes to where it came from, and say
    /// [`Test::datagram_sent`] or [`Test::datagram_failed`].
    Reply(usize),
    /// The test is over: call [`Session::poll`](super::Session::poll) now.
    Ended,
}

/// A data connection's place in its request and in its response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connection {
    /// Bytes received of the request that is not whole yet.
    received: u64,
    /// Bytes sent of the message that is not whole yet.
    sent: u64,
    /// Bytes of responses still to be sent.
    owed: u64,
}

/// How a test ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Something said so, at this time.
    Seen(u64),
    /// Nothing said so; its time was over long before.
    Unseen,
}

/// A test in progress.
#[derive(Clone, Debug, PartialEq)]
pub struct Test {
    spec: Spec,
    opened: Opened,
    /// The client's end of the control connection.
    peer: IpAddr,
    /// The client's data port, once a datagram has come from it.
    source: Option<SocketAddr>,
    receive_size: u64,
    send_size: u64,
    ready: Snapshot,
    /// When the test's time began.
    began: u64,
    /// Whether any data or connection has come.
    touched: bool,
    last_seen: u64,
    end: Option<End>,
    /// When to look whether the test is over by itself. Never later than that
    /// is; silence, which puts it off with every message, is only looked at
    /// when the time has come.
    due: Option<u64>,
    transactions: u64,
    bytes_received: u64,
    receives: u64,
    bytes_sent: u64,
    sends: u64,
    failed_sends: u64,
}

impl Test {
    /// A test whose ports were opened just now.
    pub fn new(spec: Spec, opened: Opened, peer: IpAddr, ready: Snapshot) -> Self {
        let receive_size = spec.open.receive_size.unwrap_or(opened.recv_buffer.max(1));
        let send_size = spec
            .open
            .send_size
            .unwrap_or_else(|| default_send_size(spec.open.transport, opened.send_buffer));
        let mut test = Test {
            spec,
            opened,
            peer,
            source: None,
            receive_size: receive_size.into(),
            send_size: send_size.into(),
            ready,
            began: ready.now,
            touched: false,
            last_seen: ready.now,
            end: None,
            due: None,
            transactions: 0,
            bytes_received: 0,
            receives: 0,
            bytes_sent: 0,
            sends: 0,
            failed_sends: 0,
        };
        test.due = test.over_by_itself();
        test
    }

    /// What the test is.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// What was opened for it.
    pub fn opened(&self) -> &Opened {
        &self.opened
    }

    /// Bytes a receive, or of a request.
    pub fn receive_size(&self) -> u32 {
        self.receive_size as u32
    }

    /// Bytes a send, or of a response.
    pub fn send_size(&self) -> u32 {
        self.send_size as u32
    }

    /// A connection to the data port is established.
    pub fn accept(&mut self, from: IpAddr, now: u64) -> Accept {
        let second = self.touched && !self.spec.connection_each;
        if self.end.is_some() || second || !self.is_client(from) {
            return Accept::Refuse;
        }
        self.see(now);
        if !self.spec.open.receives && !self.spec.open.sends {
            return Accept::Served(self.count_transactions(1, now));
        }
        let mut connection = Connection::default();
        if self.spec.connection_each && !self.spec.open.receives {
            connection.owed = self.send_size;
        }
        Accept::Serve(connection)
    }

    /// Whether to read from the connection now. It stops while the client does
    /// not take the responses, so that what is owed stays bounded.
    pub fn wants_data(&self, connection: &Connection) -> bool {
        self.end.is_none() && connection.owed <= MOST_OWED
    }

    /// Bytes came on the connection.
    pub fn received(&mut self, connection: &mut Connection, bytes: usize, now: u64) -> Step {
        if self.end.is_some() {
            return Step::Ended;
        }
        self.last_seen = now;
        self.receives += 1;
        self.bytes_received += bytes as u64;
        if self.spec.open.sends {
            let requests = take_whole(&mut connection.received, bytes as u64, self.receive_size);
            let responses = requests.saturating_mul(self.send_size);
            connection.owed = connection.owed.saturating_add(responses);
            Step::Continue
        } else if self.spec.connection_each {
            self.check_bytes(self.bytes_received, now)
        } else {
            Step::Continue
        }
    }

    /// How many bytes may be sent on the connection now. A stream has no end of
    /// them; what they are does not matter.
    pub fn sendable(&self, connection: &Connection) -> usize {
        let bytes = match self.spec.limit {
            _ if self.end.is_some() || !self.spec.open.sends => 0,
            _ if self.spec.open.receives || self.spec.connection_each => connection.owed,
            Limit::Units(bytes) => bytes.saturating_sub(self.bytes_sent),
            Limit::None | Limit::Seconds(_) => u64::MAX,
        };
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// Bytes were given to the connection's send buffer.
    pub fn sent(&mut self, connection: &mut Connection, bytes: usize, now: u64) -> Step {
        if self.end.is_some() {
            return Step::Ended;
        }
        self.last_seen = now;
        self.bytes_sent += bytes as u64;
        connection.owed = connection.owed.saturating_sub(bytes as u64);
        let messages = take_whole(&mut connection.sent, bytes as u64, self.send_size);
        self.sends += messages;
        let step = if self.spec.open.receives {
            self.count_transactions(messages, now)
        } else {
            self.check_bytes(self.bytes_sent, now)
        };
        match step {
            Step::Close if messages == 0 || connection.owed > 0 => Step::Continue,
            step => step,
        }
    }

    /// The client has closed its direction of the connection, and all that came
    /// before is [`received`](Self::received).
    pub fn closed_by_client(&mut self, now: u64) -> Step {
        if self.spec.connection_each && self.end.is_none() {
            self.last_seen = now;
            return Step::Close;
        }
        self.end_now(now)
    }

    /// The connection was reset, or the stack has given it up. A client that
    /// closes with data unread resets, so this is an end like any other.
    pub fn reset(&mut self, now: u64) -> Step {
        self.closed_by_client(now)
    }

    /// A datagram of so many bytes came to the data port.
    pub fn datagram_received(&mut self, from: SocketAddr, bytes: usize, now: u64) -> Received {
        if self.end.is_some() {
            return Received::Ended;
        }
        if self.source != Some(from) && !self.adopt_source(from) {
            return Received::Foreign;
        }
        if bytes == 0 {
            self.end_now(now);
            return Received::Ended;
        }
        self.see(now);
        self.receives += 1;
        self.bytes_received += (bytes as u64).min(self.receive_size);
        if self.spec.open.sends && self.spec.open.receives {
            Received::Reply(self.send_size as usize)
        } else {
            Received::Counted
        }
    }

    /// The next datagram of a test that only sends: where to, and how long.
    /// Send as the network takes them, and say so each time.
    pub fn datagram_due(&self) -> Option<(SocketAddr, usize)> {
        let flows = self.spec.open.transport == Transport::Udp
            && !self.spec.open.receives
            && self.end.is_none();
        flows.then_some((self.spec.client, self.send_size as usize))
    }

    /// A datagram of so many bytes was given to the stack.
    pub fn datagram_sent(&mut self, bytes: usize, now: u64) -> Step {
        if self.end.is_some() {
            return Step::Ended;
        }
        self.last_seen = now;
        self.sends += 1;
        self.bytes_sent += bytes as u64;
        if self.spec.open.receives {
            self.count_transactions(1, now)
        } else {
            self.check_bytes(self.bytes_sent, now)
        }
    }

    /// The stack had no room for a datagram, which is lost.
    pub fn datagram_failed(&mut self) {
        self.failed_sends += 1;
    }

    /// Whether the test is over.
    pub fn is_over(&self) -> bool {
        self.end.is_some()
    }

    /// When to poll the session at the latest, in nanoseconds: no later than the
    /// test is over by itself if nothing else happens.
    #[inline]
    pub fn deadline(&self) -> Option<u64> {
        self.due
    }

    /// When the test is over by itself, in nanoseconds, if nothing else happens.
    fn over_by_itself(&self) -> Option<u64> {
        let silent_since = |patience| Some(self.last_seen.saturating_add(patience));
        match self.spec.limit {
            Limit::Seconds(seconds) => {
                let over = self.began.saturating_add(u64::from(seconds) * SECOND);
                let padded = over.saturating_add(PAD);
                if self.stops_itself() {
                    Some(over)
                } else if self.touched && self.ends_in_silence() {
                    Some(self.last_seen.max(over).saturating_add(QUIET).min(padded))
                } else {
                    Some(padded)
                }
            }
            Limit::Units(units) if self.is_udp() => {
                if self.spec.is_transactional() && self.transactions >= units {
                    silent_since(QUIET)
                } else if self.touched && !self.spec.open.sends {
                    silent_since(PAD)
                } else {
                    silent_since(IDLE)
                }
            }
            Limit::Units(_) | Limit::None => None,
        }
    }

    /// Ends the test if its deadline has passed.
    pub(super) fn poll(&mut self, now: u64) {
        if self.due.is_none_or(|due| due > now) {
            return;
        }
        self.due = self.over_by_itself();
        let due = self.due.is_some_and(|due| due <= now);
        if self.end.is_none() && due {
            self.end = Some(if self.stops_itself() {
                End::Seen(now)
            } else {
                End::Unseen
            });
        }
    }

    /// The figures of a test that is over.
    pub(super) fn totals(&self, at: Snapshot) -> Totals {
        let elapsed = match (self.end, self.spec.limit) {
            (Some(End::Seen(then)), _) => then.saturating_sub(self.began),
            (_, Limit::Seconds(seconds)) => u64::from(seconds) * SECOND,
            _ => self.last_seen.saturating_sub(self.began),
        };
        let measured = self.spec.measure_cpu;
        Totals {
            elapsed,
            transactions: self.transactions,
            bytes_received: self.bytes_received,
            receives: self.receives,
            bytes_sent: self.bytes_sent,
            sends: self.sends,
            failed_sends: self.failed_sends,
            cpu: measured.then(|| cpu::utilisation(self.ready.cpu, at.cpu, elapsed)),
        }
    }

    fn is_udp(&self) -> bool {
        self.spec.open.transport == Transport::Udp
    }

    /// Whether the server is the one to stop when the time is over: it only
    /// sends, and has somebody to send to.
    fn stops_itself(&self) -> bool {
        let only_sends = self.spec.open.sends && !self.spec.open.receives;
        only_sends && !self.spec.connection_each && (self.touched || self.is_udp())
    }

    fn ends_in_silence(&self) -> bool {
        self.is_udp() || self.spec.connection_each
    }

    fn is_client(&self, address: IpAddr) -> bool {
        address == self.peer || address == self.spec.client.ip()
    }

    /// Datagrams count from one source only, the first of the client's: a
    /// port scan must not end a test.
    fn adopt_source(&mut self, from: SocketAddr) -> bool {
        let adopt = self.source.is_none() && self.spec.open.receives && self.is_client(from.ip());
        if adopt {
            self.source = Some(from);
        }
        adopt
    }

    /// Something of the client's has come.
    fn see(&mut self, now: u64) {
        if !self.touched {
            self.touched = true;
            if now.saturating_sub(self.began) > LATE {
                self.began = now;
            }
            self.last_seen = now;
            self.due = self.over_by_itself();
        }
        self.last_seen = now;
    }

    fn count_transactions(&mut self, count: u64, now: u64) -> Step {
        self.transactions += count;
        if self.spec.limit == Limit::Units(self.transactions) {
            self.due = self.over_by_itself();
        }
        match self.spec.limit {
            _ if !self.spec.connection_each => Step::Continue,
            Limit::Units(units) if self.transactions >= units => self.end_now(now),
            _ => Step::Close,
        }
    }

    fn check_bytes(&mut self, moved: u64, now: u64) -> Step {
        match self.spec.limit {
            Limit::Units(bytes) if moved >= bytes => self.end_now(now),
            _ if self.spec.connection_each => Step::Close,
            _ => Step::Continue,
        }
    }

    fn end_now(&mut self, now: u64) -> Step {
        self.end.get_or_insert(End::Seen(now));
        Step::Ended
    }
}

/// Adds to a part of a message, and takes the whole ones out.
fn take_whole(part: &mut u64, bytes: u64, size: u64) -> u64 {
    *part += bytes;
    if *part < size {
        0
    } else if *part == size {
        *part = 0;
        1
    } else {
        let whole = *part / size;
        *part %= size;
        whole
    }
}

#[cfg(test)]
mod tests;
