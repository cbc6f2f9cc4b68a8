//! Many netperf clients made of bare segments, as a whole stack for each would be
//! slow.

use alloc::vec::Vec;

use smoltcp::wire::TcpControl;

use super::bench::Bench;
use super::frames;
use super::frames::{PEER_IP, as_tcp, segment};
use crate::netperf::server::CONTROL_PORT;
use crate::netperf::wire::{Direction, MESSAGE_LEN, Message, OmniRequest, Request};

/// How long the appliance has for an answer, in nanoseconds.
const A_WHILE: u64 = 20_000;

/// The client's end of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Wire {
    port: u16,
    to: u16,
    seq: i32,
    ack: i32,
}

impl Wire {
    /// Makes a connection. `None` when it is reset.
    pub fn connect(bench: &mut Bench, port: u16, to: u16) -> Option<Self> {
        bench.capture.clear();
        bench.inject(segment((PEER_IP, port), to, TcpControl::Syn, 100, None));
        bench.run(A_WHILE);
        let (is_open, ours) = bench.capture.iter().find_map(|frame| {
            let (_, segment) = as_tcp(frame)?;
            let is_mine = segment.dst_port() == port && segment.src_port() == to;
            is_mine.then(|| (segment.syn(), segment.seq_number().0))
        })?;
        let wire = Self {
            port,
            to,
            seq: 101,
            ack: ours.wrapping_add(1),
        };
        is_open.then(|| {
            wire.say(bench, TcpControl::None);
            wire
        })
    }

    fn say(&self, bench: &mut Bench, control: TcpControl) {
        let from = (PEER_IP, self.port);
        bench.inject(segment(from, self.to, control, self.seq, Some(self.ack)));
        bench.run(A_WHILE);
    }

    /// Sends `data`, and acknowledges and returns what comes back.
    pub fn exchange(&mut self, bench: &mut Bench, data: &[u8]) -> Vec<u8> {
        bench.capture.clear();
        let from = (PEER_IP, self.port);
        bench.inject(frames::data(from, self.to, self.seq, self.ack, data));
        self.seq = self.seq.wrapping_add(data.len() as i32);
        bench.run(A_WHILE);
        let mut answer = Vec::new();
        for frame in &bench.capture {
            if let Some((_, segment)) = as_tcp(frame)
                && segment.dst_port() == self.port
                && segment.src_port() == self.to
            {
                answer.extend_from_slice(segment.payload());
            }
        }
        self.ack = self.ack.wrapping_add(answer.len() as i32);
        self.say(bench, TcpControl::None);
        answer
    }

    /// Breaks the connection off.
    pub fn reset(self, bench: &mut Bench) {
        self.say(bench, TcpControl::Rst);
    }
}

/// A client of TCP_RR.
#[derive(Clone, Copy, Debug)]
pub struct RrClient {
    pub control: Wire,
    pub data: Wire,
}

/// Why there is no client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The control connection was reset.
    Reset,
    /// The server's answer has this error number.
    Errno(i32),
}

impl RrClient {
    /// Opens a test; the client's connections come from `port` and the next.
    pub fn open(bench: &mut Bench, port: u16) -> Result<Self, Refusal> {
        let mut control = Wire::connect(bench, port, CONTROL_PORT).ok_or(Refusal::Reset)?;
        let answer = control.exchange(bench, tcp_rr().bytes());
        let word = |at: usize| i32::from_be_bytes(*answer[at..].first_chunk().unwrap());
        assert_eq!(answer.len(), MESSAGE_LEN);
        if word(4) != 0 {
            return Err(Refusal::Errno(word(4)));
        }
        let data = Wire::connect(bench, port + 1, word(52) as u16);
        let data = data.expect("the memory for it was set aside");
        Ok(Self { control, data })
    }

    /// Does a transaction. Returns whether the response came.
    pub fn transact(&mut self, bench: &mut Bench) -> bool {
        self.data.exchange(bench, b"?").len() == 1
    }
}

/// A request for TCP_RR, as `netperf -t TCP_RR` makes it.
pub fn tcp_rr() -> Message {
    let mut message = Message::zeroed();
    message.set_code(Request::Omni.code());
    let request = OmniRequest {
        request_size: 1,
        response_size: 1,
        test_length: 10_000,
        ipfamily: 4,
        socket_type: 1,
        protocol: 6,
        direction: Direction(Direction::SEND | Direction::RECEIVE),
        ..OmniRequest::default()
    };
    request.emit(&mut message);
    message
}
