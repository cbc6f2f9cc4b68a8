//! Very many netperf clients in one process: each has a TCP_RR test of its own open,
//! with a control connection and a data connection, and a few at a time have a
//! request under way.
//!
//! As many processes of netperf's do not fit on a machine, so this speaks netperf's
//! protocol itself. Control connections live on a thread with a table of open files
//! of its own: a process may have 20,000 files on some machines, and 10,000 clients
//! need more.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use nix::sched::{CloneFlags, unshare};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use super::message::{self, Transport};

/// How long a client's test may stay open.
const TEST_LENGTH: Duration = Duration::from_secs(7200);
/// How long anything may take that the server is asked for.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the end of a test may take: netserver's padding, and more.
const END_PATIENCE: Duration = Duration::from_secs(20);
/// Tests that are ended at a time.
const GROUP: usize = 64;
/// Files that a process needs beside the connections.
const OTHER_FILES: u64 = 200;

/// Clients whose tests are open. Each closes its test in order when the crowd is
/// [closed](Self::close), and breaks it off when the crowd is dropped.
pub struct Crowd {
    control: SocketAddr,
    data: Vec<TcpStream>,
    epoll: Epoll,
    keeper: Keeper,
    /// Requests that were answered so far.
    answered: u64,
    random: u64,
}

/// How requests are spread over the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Requests under way at a time, in all.
    pub in_flight: usize,
    /// Transactions that a client does before it is another one's turn.
    pub visit: u32,
}

/// When a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// After this time.
    Time(Duration),
    /// After so many transactions.
    Count(u64),
}

/// What a run came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CrowdResult {
    /// Requests that were answered.
    pub transactions: u64,
    /// Seconds.
    pub elapsed: f64,
}

impl CrowdResult {
    /// Answered requests a second.
    pub fn rate(&self) -> f64 {
        self.transactions as f64 / self.elapsed
    }
}

impl Crowd {
    /// Nobody yet; clients will go to the netserver at `control`.
    pub fn new(control: SocketAddr) -> Result<Self> {
        Ok(Self {
            control,
            data: Vec::new(),
            epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?,
            keeper: Keeper::start(control)?,
            answered: 0,
            random: 0x9e37_79b9_7f4a_7c15,
        })
    }

    /// How many clients there are.
    pub fn len(&self) -> usize {
        self.data.len()
    }

    /// Whether there is nobody.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// Opens tests until there are `count` clients.
    ///
    /// # Errors
    ///
    /// When the server refuses one or does not answer, and when this machine allows
    /// no more files or ports. Those that are open stay so.
    pub fn grow(&mut self, count: usize) -> Result<()> {
        let limit = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE)?.0;
        ensure!(
            count as u64 + OTHER_FILES <= limit,
            "{count} connections need as many open files, and this machine allows {limit} a \
             process (ulimit -n)"
        );
        let missing = count.saturating_sub(self.len());
        let ports = self.keeper.open(missing);
        for _ in 0..missing {
            let port = ports.recv().map_err(|_| anyhow!("the keeper is gone"))??;
            self.connect(port)
                .with_context(|| format!("client {} has no data connection", self.len() + 1))?;
        }
        Ok(())
    }

    fn connect(&mut self, port: u16) -> Result<()> {
        let peer = SocketAddr::new(self.control.ip(), port);
        let stream = TcpStream::connect_timeout(&peer, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let event = EpollEvent::new(EpollFlags::EPOLLIN, self.data.len() as u64);
        self.epoll.add(&stream, event)?;
        self.data.push(stream);
        Ok(())
    }

    /// Lets the clients send requests of one byte by `pattern`, in an order that is
    /// not that in which they came, each as often as the others.
    pub fn run(&mut self, pattern: Pattern, until: Until) -> Result<CrowdResult> {
        ensure!(!self.is_empty(), "nobody is there to send requests");
        let mut turns = Turns::new(self.len(), pattern.visit, &mut self.random);
        let begin = Instant::now();
        for _ in 0..pattern.in_flight.clamp(1, self.len()) {
            self.request(turns.next())?;
        }
        let mut events = [EpollEvent::empty(); 256];
        let (mut answered, mut open) = (0, pattern.in_flight.clamp(1, self.len()));
        while open > 0 {
            let timeout = EpollTimeout::try_from(PATIENCE).unwrap_or(EpollTimeout::NONE);
            let ready = match self.epoll.wait(&mut events, timeout) {
                Err(nix::errno::Errno::EINTR) => continue,
                ready => ready?,
            };
            ensure!(ready > 0, "{open} requests are not answered");
            let elapsed = begin.elapsed();
            for event in &events[..ready] {
                let client = event.data() as usize;
                self.response(client)?;
                answered += 1;
                let goes_on = match until {
                    Until::Time(length) => elapsed < length,
                    Until::Count(count) => answered + open as u64 <= count,
                };
                if goes_on {
                    self.request(turns.after(client))?;
                } else {
                    open -= 1;
                }
            }
        }
        self.answered += answered;
        Ok(CrowdResult {
            transactions: answered,
            elapsed: begin.elapsed().as_secs_f64(),
        })
    }

    fn request(&mut self, client: usize) -> Result<()> {
        let sent = (&self.data[client]).write(&[0x5a]);
        ensure!(sent? == 1, "client {client} cannot send");
        Ok(())
    }

    fn response(&mut self, client: usize) -> Result<()> {
        match (&self.data[client]).read(&mut [0; 2]) {
            Ok(1) => Ok(()),
            Ok(0) => bail!("the server has closed the connection of client {client}"),
            Ok(_) => bail!("client {client} got more than it asked for"),
            Err(error) => Err(error).with_context(|| format!("client {client} got no response")),
        }
    }

    /// Ends all tests in order, and holds the server's count of transactions against
    /// its own.
    pub fn close(mut self) -> Result<()> {
        let mut counted = 0;
        while !self.is_empty() {
            // All at once would be more than the tap's queue holds.
            let group = GROUP.min(self.len());
            self.data.drain(..group);
            counted += self.keeper.end(group)?;
        }
        ensure!(
            counted == self.answered,
            "the server has counted {counted} transactions of {}",
            self.answered
        );
        Ok(())
    }
}

/// Whose turn it is: a shuffled order, over and over. A client that is given out is
/// not given out again before it came back.
struct Turns {
    order: Vec<u32>,
    at: usize,
    visit: u32,
    /// Transactions that each client has left in its visit; 0 for those that wait.
    left: Vec<u32>,
}

impl Turns {
    fn new(clients: usize, visit: u32, random: &mut u64) -> Self {
        let mut order: Vec<u32> = (0..clients as u32).collect();
        for last in (1..clients).rev() {
            order.swap(last, below(random, last + 1));
        }
        Self {
            order,
            at: 0,
            visit: visit.max(1),
            left: vec![0; clients],
        }
    }

    /// A client whose visit begins. There must be one that waits.
    fn next(&mut self) -> usize {
        loop {
            let client = self.order[self.at] as usize;
            self.at = (self.at + 1) % self.order.len();
            if self.left[client] == 0 {
                self.left[client] = self.visit;
                return client;
            }
        }
    }

    /// Who sends after `client` has its response.
    fn after(&mut self, client: usize) -> usize {
        self.left[client] -= 1;
        match self.left[client] {
            0 => self.next(),
            _ => client,
        }
    }
}

/// A number below `limit` (xorshift).
fn below(random: &mut u64, limit: usize) -> usize {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    (*random % limit as u64) as usize
}

/// The thread with the control connections.
struct Keeper {
    orders: Option<Sender<Order>>,
    thread: Option<JoinHandle<()>>,
}

enum Order {
    /// Open so many tests; the data port of each is to be told.
    Open(usize, Sender<Result<u16>>),
    /// Wait for the results of so many, and close; their transactions are to be told.
    End(usize, Sender<Result<u64>>),
}

impl Keeper {
    fn start(control: SocketAddr) -> Result<Self> {
        let (orders, inbox) = channel();
        let (ready, started) = channel();
        // Threads inherit the network namespace.
        let thread = std::thread::spawn(move || {
            let own_files = unshare(CloneFlags::CLONE_FILES).context("no table of files");
            let is_started = own_files.is_ok();
            if ready.send(own_files).is_ok() && is_started {
                keep(control, &inbox);
            }
        });
        started.recv().context("the keeper does not start")??;
        Ok(Self {
            orders: Some(orders),
            thread: Some(thread),
        })
    }

    fn order(&self, order: Order) {
        if let Some(orders) = &self.orders {
            // Whoever waits for the answer learns that the thread is gone.
            let _ = orders.send(order);
        }
    }

    fn open(&self, count: usize) -> Receiver<Result<u16>> {
        let (answers, ports) = channel();
        self.order(Order::Open(count, answers));
        ports
    }

    fn end(&self, count: usize) -> Result<u64> {
        let (answer, counted) = channel();
        self.order(Order::End(count, answer));
        counted.recv().map_err(|_| anyhow!("the keeper is gone"))?
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Obeys until nobody gives orders any more.
fn keep(control: SocketAddr, orders: &Receiver<Order>) {
    let mut sessions = Vec::new();
    for order in orders {
        match order {
            Order::Open(count, ports) => {
                for _ in 0..count {
                    let opened = open(control)
                        .with_context(|| format!("client {} is turned away", sessions.len() + 1));
                    let failed = opened.is_err();
                    let port = opened.map(|(session, port)| {
                        sessions.push(session);
                        port
                    });
                    if ports.send(port).is_err() || failed {
                        break;
                    }
                }
            }
            Order::End(count, counted) => {
                let ended = sessions.drain(..count.min(sessions.len())).map(end).sum();
                let _ = counted.send(ended);
            }
        }
    }
}

/// Opens a test of one byte each way. Returns its control connection and data port.
fn open(control: SocketAddr) -> Result<(TcpStream, u16)> {
    let mut session = TcpStream::connect_timeout(&control, PATIENCE)?;
    session.set_read_timeout(Some(PATIENCE))?;
    session.write_all(&message::request(Transport::Tcp, 1, TEST_LENGTH))?;
    let mut answer = [0; message::LEN];
    read_whole(&mut session, &mut answer)?;
    Ok((session, message::data_port(&answer)?))
}

/// Reads the results of a test whose data connection is closed.
fn end(mut session: TcpStream) -> Result<u64> {
    session.set_read_timeout(Some(END_PATIENCE))?;
    let mut results = [0; message::LEN];
    read_whole(&mut session, &mut results)?;
    message::transactions(&results)
}

fn read_whole(session: &mut TcpStream, message: &mut [u8]) -> Result<()> {
    session
        .read_exact(message)
        .map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => anyhow!("the server does not answer"),
            ErrorKind::UnexpectedEof => anyhow!("the server has closed the control connection"),
            _ => error.into(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_has_a_turn_and_nobody_two_at_a_time() {
        let mut random = 1;
        let mut turns = Turns::new(5, 3, &mut random);
        let mut under_way = [turns.next(), turns.next()];
        let mut counts = [0; 5];
        for step in 0..60 {
            assert_ne!(under_way[0], under_way[1]);
            let client = under_way[step % 2];
            counts[client] += 1;
            under_way[step % 2] = turns.after(client);
        }
        assert!(counts.iter().all(|&count| count >= 9), "{counts:?}");
    }

    #[test]
    fn one_client_alone_has_all_turns() {
        let mut random = 1;
        let mut turns = Turns::new(1, 1, &mut random);
        let first = turns.next();
        assert_eq!((first, turns.after(first)), (0, 0));
    }

    #[test]
    fn a_server_that_is_not_there_is_an_error() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let nowhere = listener.local_addr().unwrap();
        drop(listener);
        let mut crowd = Crowd::new(nowhere).unwrap();
        let error = format!("{:#}", crowd.grow(3).unwrap_err());
        assert!(error.contains("client 1"), "{error}");
        assert!(crowd.grow(10_000_000).is_err(), "more than files allow");
        let pattern = Pattern {
            in_flight: 1,
            visit: 1,
        };
        assert!(crowd.run(pattern, Until::Count(1)).is_err());
    }
}
