//! How much memory a connection of a test's gets: as much as the test can use.

use super::client::Client;
use super::spec::Open;
use super::test::{Connection, Test};
use super::wire::MESSAGE_LEN;
use crate::config::{Buffers, TcpConfig};
use crate::stack::{FlowId, Room};

const KIB: usize = 1024;

/// A buffer for what hardly anything is put into, or nothing.
const LEAST: usize = 4 * KIB;

/// Buffers are not made smaller than this for want of memory.
const LEAST_WHEN_SHORT: usize = 64 * KIB;

/// Messages that a buffer holds: a client may have so many under way (`-b`)
/// before the window stops it.
const MESSAGES: usize = 64;

/// The part of what is left that a connection may take before it is to do with
/// smaller buffers, so that memory that runs low still serves many.
const SHARE: usize = 32;

/// What the server keeps for a client: the client itself, its test, two messages
/// that wait to be sent, and what it is about to say on the console.
const CLIENT: usize = size_of::<Client>()
    + size_of::<Test>()
    + 2 * MESSAGE_LEN
    + 4 * size_of::<(FlowId, Connection)>()
    + KIB;

/// The room for a control connection.
pub(super) fn control(config: &TcpConfig) -> Room {
    Room {
        receive: config.control.receive,
        send: config.control.send,
        beside: CLIENT,
    }
}

/// The room for a data connection, where `left` bytes are left for all sockets.
pub(super) fn data(open: &Open, most: Buffers, left: usize) -> Room {
    let mut room = wanted(open, most);
    while room.buffers() > left / SHARE
        && let Some(smaller) = room.smaller(LEAST_WHEN_SHORT)
    {
        room = smaller;
    }
    room
}

fn wanted(open: &Open, most: Buffers) -> Room {
    let is_transactional = open.receives && open.sends;
    // Where each transaction has a connection, it has one message each way.
    let messages = if open.many { 1 } else { MESSAGES };
    let buffer = |is_used: bool, message: Option<u32>, most: usize| match message {
        _ if !is_used => LEAST.min(most),
        Some(bytes) if is_transactional => {
            let bytes = (bytes as usize).saturating_mul(messages).min(most);
            bytes.max(LEAST).next_power_of_two().min(most)
        }
        _ => most,
    };
    Room {
        receive: buffer(open.receives, open.receive_size, most.receive),
        send: buffer(open.sends, open.send_size, most.send),
        beside: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netperf::spec::Spec;
    use crate::netperf::wire::{Direction, Flags, OmniRequest};
    use core::net::{IpAddr, Ipv4Addr};
    use std::println;

    const MOST: Buffers = Buffers {
        receive: 512 * KIB,
        send: 256 * KIB,
    };
    const PLENTY: usize = 1 << 30;

    fn open(direction: u32, request: i32, response: i32, flags: u32) -> Open {
        let request = OmniRequest {
            request_size: request,
            response_size: response,
            receive_size: -1,
            send_size: -1,
            ipfamily: 4,
            socket_type: 1,
            protocol: 6,
            direction: Direction(direction),
            flags: Flags(flags),
            ..OmniRequest::default()
        };
        let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
        Spec::from_omni(&request, peer).unwrap().open
    }

    fn kib(room: Room) -> (usize, usize) {
        (room.receive / KIB, room.send / KIB)
    }

    const BOTH: u32 = Direction::SEND | Direction::RECEIVE;

    #[test]
    fn a_test_gets_what_it_can_use() {
        let of = |open| kib(data(&open, MOST, PLENTY));
        assert_eq!(of(open(BOTH, 1, 1, 0)), (4, 4), "TCP_RR");
        assert_eq!(of(open(BOTH, 100, 1000, 0)), (8, 64));
        assert_eq!(of(open(BOTH, 65_536, i32::MAX, 0)), (512, 256));
        assert_eq!(of(open(BOTH, -1, -1, 0)), (512, 256), "of no known size");
        let crr = open(BOTH, 1, 65_536, Flags::CONNECT_TEST);
        assert_eq!(of(crr), (4, 64), "TCP_CRR");
        assert_eq!(of(open(Direction::RECEIVE, -1, -1, 0)), (512, 4), "STREAM");
        assert_eq!(of(open(Direction::SEND, -1, -1, 0)), (4, 256), "MAERTS");
    }

    #[test]
    fn large_buffers_shrink_as_memory_runs_low() {
        let stream = open(Direction::RECEIVE, -1, -1, 0);
        let of = |left| kib(data(&stream, MOST, left));
        assert_eq!(of(20 << 20), (512, 4));
        assert_eq!(of(16 << 20), (256, 4));
        assert_eq!(of(5 << 20), (128, 4));
        assert_eq!(of(0), (64, 4));
        let small = open(BOTH, 1, 1, 0);
        assert_eq!(kib(data(&small, MOST, 0)), (4, 4));
    }

    /// What README.md says of connections in a given memory.
    #[test]
    fn a_client_of_tcp_rr_costs_less_than_20_kib() {
        let control = control(&TcpConfig::default()).cost();
        let data = data(&open(BOTH, 1, 1, 0), MOST, PLENTY).cost();
        println!("a client of TCP_RR takes {control} + {data} bytes");
        assert!(control + data < 20 * KIB, "{control} + {data}");
    }
}
