//! The netperf engine on the host's sockets: one thread, nothing that blocks.
//! It is what the appliance's own glue does, with `std::net` for the stack.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use uniperf_net::machine::CpuTime;
use uniperf_net::netperf::report::Totals;
use uniperf_net::netperf::wire::Text;
use uniperf_net::netperf::{
    Accept, Action, Connection, Errno, Host, Open, Opened, Received, Report, Session, Snapshot,
    Step, Transport,
};

/// Reads or writes on one socket before the next has its turn.
const BUDGET: usize = 32;

/// How long a data connection that was closed in order may take to be gone.
const LINGER: Duration = Duration::from_secs(2);

/// What the tests see of the server.
#[derive(Default)]
pub struct Shared {
    stop: AtomicBool,
    sockets: AtomicUsize,
    lines: Mutex<Vec<String>>,
    totals: Mutex<Vec<Totals>>,
}

/// A running server; it stops when dropped.
pub struct Server {
    pub port: u16,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared::default());
        let thread = thread::spawn({
            let shared = shared.clone();
            move || Loop::new(listener, shared).run()
        });
        Server {
            port,
            shared,
            thread: Some(thread),
        }
    }

    /// Sockets in use: control and data connections, listeners, UDP ports.
    pub fn sockets(&self) -> usize {
        self.shared.sockets.load(Ordering::Acquire)
    }

    /// What the console said.
    pub fn lines(&self) -> Vec<String> {
        self.shared.lines.lock().unwrap().clone()
    }

    /// The figures of the tests that have ended.
    pub fn totals(&self) -> Vec<Totals> {
        self.shared.totals.lock().unwrap().clone()
    }

    /// Waits until no socket but the listening one is left.
    pub fn wait_until_at_rest(&self, patience: Duration) {
        let start = Instant::now();
        while self.sockets() > 0 {
            assert!(
                start.elapsed() < patience,
                "{} sockets are still open; console:\n{}",
                self.sockets(),
                self.lines().join("\n"),
            );
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        let outcome = self.thread.take().unwrap().join();
        if !thread::panicking() {
            outcome.unwrap();
        }
    }
}

struct Loop {
    listener: TcpListener,
    shared: Arc<Shared>,
    clients: Vec<Client>,
    start: Instant,
    idle: Duration,
}

impl Loop {
    fn new(listener: TcpListener, shared: Arc<Shared>) -> Self {
        Loop {
            listener,
            shared,
            clients: Vec::new(),
            start: Instant::now(),
            idle: Duration::ZERO,
        }
    }

    fn run(mut self) {
        while !self.shared.stop.load(Ordering::Acquire) {
            let mut busy = false;
            while let Ok((stream, peer)) = self.listener.accept() {
                self.clients.push(Client::new(stream, peer));
                busy = true;
            }
            for index in 0..self.clients.len() {
                let at = self.snapshot();
                busy |= self.clients[index].run(at, &self.shared);
            }
            self.clients.retain(|client| !client.is_gone());
            let sockets = self.clients.iter().map(Client::sockets).sum();
            self.shared.sockets.store(sockets, Ordering::Release);
            if !busy {
                let before = Instant::now();
                thread::sleep(Duration::from_micros(20));
                self.idle += before.elapsed();
            }
        }
    }

    fn snapshot(&self) -> Snapshot {
        let now = self.start.elapsed().as_nanos() as u64;
        Snapshot {
            now,
            cpu: CpuTime {
                total: now,
                idle: self.idle.as_nanos() as u64,
                frequency: 1_000_000_000,
            },
        }
    }
}

struct Client {
    control: TcpStream,
    session: Session,
    /// Control bytes that the session has not taken yet.
    pending: Vec<u8>,
    ended: bool,
    closing: bool,
    listener: Option<TcpListener>,
    udp: Option<UdpSocket>,
    connections: Vec<(TcpStream, Connection)>,
    lingering: Vec<(TcpStream, Instant)>,
}

impl Client {
    fn new(control: TcpStream, peer: SocketAddr) -> Self {
        control.set_nonblocking(true).unwrap();
        control.set_nodelay(true).unwrap();
        let host = Host {
            cpus: 1,
            system_model: Text::new("std"),
            ..Host::default()
        };
        Client {
            control,
            session: Session::new(peer, host),
            pending: Vec::new(),
            ended: false,
            closing: false,
            listener: None,
            udp: None,
            connections: Vec::new(),
            lingering: Vec::new(),
        }
    }

    fn sockets(&self) -> usize {
        1 + usize::from(self.listener.is_some())
            + usize::from(self.udp.is_some())
            + self.connections.len()
            + self.lingering.len()
    }

    fn is_gone(&self) -> bool {
        let said_all = self.session.outgoing().is_empty() || self.ended;
        self.closing && said_all && self.lingering.is_empty()
    }

    /// One turn; says whether anything happened.
    fn run(&mut self, at: Snapshot, shared: &Shared) -> bool {
        let mut busy = self.read_control(at);
        busy |= self.accept(at.now);
        busy |= self.move_data(at.now);
        busy |= self.move_datagrams(at.now);
        if self.session.poll_at().is_some_and(|due| due <= at.now) {
            self.session.poll(at);
        }
        while let Some(action) = self.session.next_action() {
            self.obey(action, at, shared);
        }
        self.linger();
        busy | self.write_control()
    }

    fn read_control(&mut self, at: Snapshot) -> bool {
        if self.pending.is_empty() && !self.ended {
            let mut buffer = [0; 1024];
            match self.control.read(&mut buffer) {
                Ok(0) => self.ended = true,
                Ok(bytes) => self.pending.extend_from_slice(&buffer[..bytes]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => self.ended = true,
            }
        }
        if self.pending.is_empty() && self.ended {
            self.session.closed();
        }
        let taken = self.session.receive(&self.pending, at);
        self.pending.drain(..taken);
        taken > 0
    }

    fn write_control(&mut self) -> bool {
        let outgoing = self.session.outgoing();
        if outgoing.is_empty() {
            return false;
        }
        match self.control.write(outgoing) {
            Ok(bytes) => self.session.sent(bytes),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            Err(_) => {
                self.ended = true;
                self.session.closed();
            }
        }
        true
    }

    fn accept(&mut self, now: u64) -> bool {
        let (Some(listener), Some(test)) = (&self.listener, self.session.test_mut()) else {
            return false;
        };
        let Ok((stream, from)) = listener.accept() else {
            return false;
        };
        stream.set_nonblocking(true).unwrap();
        stream.set_nodelay(true).unwrap();
        match test.accept(from.ip(), now) {
            Accept::Serve(connection) => self.connections.push((stream, connection)),
            Accept::Served(_) => close_in_order(stream, &mut self.lingering),
            Accept::Refuse => {}
        }
        true
    }

    fn move_data(&mut self, now: u64) -> bool {
        let Some(test) = self.session.test_mut() else {
            return false;
        };
        let mut busy = false;
        let mut buffer = vec![0; 65536];
        let mut index = 0;
        while let Some((stream, connection)) = self.connections.get_mut(index) {
            let mut step = Step::Continue;
            for _ in 0..BUDGET {
                if step != Step::Continue || !test.wants_data(connection) {
                    break;
                }
                step = match stream.read(&mut buffer) {
                    Ok(0) => test.closed_by_client(now),
                    Ok(bytes) => test.received(connection, bytes, now),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(_) => test.reset(now),
                };
                busy = true;
            }
            for _ in 0..BUDGET {
                let bytes = test.sendable(connection).min(buffer.len());
                if step != Step::Continue || bytes == 0 {
                    break;
                }
                step = match stream.write(&buffer[..bytes]) {
                    Ok(bytes) => test.sent(connection, bytes, now),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(_) => test.reset(now),
                };
                busy = true;
            }
            if step == Step::Close {
                let (stream, _) = self.connections.swap_remove(index);
                close_in_order(stream, &mut self.lingering);
            } else {
                index += 1;
            }
        }
        busy
    }

    fn move_datagrams(&mut self, now: u64) -> bool {
        let (Some(udp), Some(test)) = (&self.udp, self.session.test_mut()) else {
            return false;
        };
        let mut buffer = vec![0; 65536];
        let mut busy = false;
        for _ in 0..BUDGET {
            let Ok((bytes, from)) = udp.recv_from(&mut buffer) else {
                break;
            };
            busy = true;
            if let Received::Reply(bytes) = test.datagram_received(from, bytes, now) {
                match udp.send_to(&buffer[..bytes], from) {
                    Ok(bytes) => {
                        test.datagram_sent(bytes, now);
                    }
                    Err(_) => test.datagram_failed(),
                }
            }
        }
        while let Some((to, bytes)) = test.datagram_due().filter(|_| !busy) {
            match udp.send_to(&buffer[..bytes], to) {
                Ok(bytes) => {
                    test.datagram_sent(bytes, now);
                }
                Err(_) => test.datagram_failed(),
            }
            busy = true;
        }
        busy
    }

    fn obey(&mut self, action: Action, at: Snapshot, shared: &Shared) {
        match action {
            Action::Open(open) => {
                let outcome = self
                    .open(&open)
                    .map_err(|error| Errno(error.raw_os_error().unwrap_or(Errno::INVALID.0)));
                self.session.opened(outcome, at);
            }
            Action::SendEmpty { to, count } => {
                for _ in 0..count {
                    let _ = self.udp.as_ref().unwrap().send_to(&[], to);
                }
            }
            Action::CloseData => {
                (self.listener, self.udp) = (None, None);
                for (stream, _) in self.connections.drain(..) {
                    close_in_order(stream, &mut self.lingering);
                }
            }
            Action::AbortData => {
                (self.listener, self.udp) = (None, None);
                self.connections.clear();
            }
            Action::CloseControl => self.closing = true,
            Action::Report(report) => {
                if let Report::Finished { totals, .. } = &report {
                    shared.totals.lock().unwrap().push(*totals);
                }
                shared.lines.lock().unwrap().push(report.to_string());
            }
        }
    }

    fn open(&mut self, open: &Open) -> io::Result<Opened> {
        let local = (Ipv4Addr::LOCALHOST, open.port.unwrap_or(0));
        let port = match open.transport {
            Transport::Tcp => {
                let listener = TcpListener::bind(local)?;
                listener.set_nonblocking(true)?;
                self.listener.insert(listener).local_addr()?.port()
            }
            Transport::Udp => {
                let udp = UdpSocket::bind(local)?;
                udp.set_nonblocking(true)?;
                self.udp.insert(udp).local_addr()?.port()
            }
        };
        Ok(Opened {
            port,
            send_buffer: open.send_buffer.unwrap_or(65536),
            recv_buffer: open.recv_buffer.unwrap_or(65536),
            no_delay: open.no_delay,
            tos: None,
            congestion_control: Text::new("test"),
        })
    }

    /// Throws away what still comes on connections that were closed in order,
    /// until the client closes them too.
    fn linger(&mut self) {
        let mut buffer = [0; 65536];
        self.lingering.retain_mut(|(stream, since)| {
            let gone = match stream.read(&mut buffer) {
                Ok(bytes) => bytes == 0,
                Err(error) => error.kind() != ErrorKind::WouldBlock,
            };
            !gone && since.elapsed() < LINGER
        });
    }
}

fn close_in_order(stream: TcpStream, lingering: &mut Vec<(TcpStream, Instant)>) {
    // It fails only where the client was faster.
    let _ = stream.shutdown(std::net::Shutdown::Write);
    lingering.push((stream, Instant::now()));
}
