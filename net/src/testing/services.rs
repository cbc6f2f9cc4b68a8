//! Services to test with.

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use crate::services::{Context, Event, Service};
use crate::stack::{FlowId, Payload, Room, UdpId};

/// What a service was told, for the test to see.
#[derive(Default)]
pub struct Log {
    pub events: RefCell<Vec<Event>>,
    /// Whether connections are left alone instead of served.
    pub idle: Cell<bool>,
    /// Bytes that each accepted connection is sent.
    pub greeting: Cell<usize>,
}

impl Log {
    pub fn take(&self) -> Vec<Event> {
        self.events.take()
    }

    pub fn flows(&self) -> Vec<FlowId> {
        let accepted = |event: &Event| match *event {
            Event::Accepted { flow, .. } => Some(flow),
            _ => None,
        };
        self.events.borrow().iter().filter_map(accepted).collect()
    }
}

pub const PORT: u16 = 7;
pub const DATA_PORT: u16 = 8;

/// What connections to [`PORT`] take.
pub const SMALL: Room = Room {
    receive: 8 << 10,
    send: 8 << 10,
    beside: 0,
};
/// What those to [`DATA_PORT`] take.
pub const LARGE: Room = Room {
    receive: 512 << 10,
    send: 256 << 10,
    beside: 0,
};

/// Sends back what it gets, over TCP and UDP.
pub struct Echo {
    pub log: Rc<Log>,
    pub udp: Option<UdpId>,
    /// Greetings that are not yet sent: connection, and bytes sent so far.
    greetings: Vec<(FlowId, usize)>,
}

impl Echo {
    pub fn new(log: &Rc<Log>) -> Self {
        Self {
            log: log.clone(),
            udp: None,
            greetings: Vec::new(),
        }
    }

    fn serve(&mut self, cx: &mut Context<'_>, flow: FlowId) {
        if self.log.idle.get() {
            return;
        }
        self.greet(cx, flow);
        let Some(socket) = cx.stack.tcp(flow) else {
            return;
        };
        while socket.can_recv() && socket.can_send() {
            let mut chunk = [0; 2048];
            let room = (socket.send_capacity() - socket.send_queue()).min(chunk.len());
            let len = socket.recv_slice(&mut chunk[..room]).unwrap();
            assert_eq!(socket.send_slice(&chunk[..len]), Ok(len));
        }
    }

    fn greet(&mut self, cx: &mut Context<'_>, flow: FlowId) {
        let total = self.log.greeting.get();
        let Some((_, sent)) = self.greetings.iter_mut().find(|(other, _)| *other == flow) else {
            return;
        };
        let Some(socket) = cx.stack.tcp(flow) else {
            return;
        };
        while *sent < total && socket.can_send() {
            *sent += socket
                .send(|buffer| {
                    let len = buffer.len().min(total - *sent);
                    for (index, byte) in buffer[..len].iter_mut().enumerate() {
                        *byte = pattern(*sent + index);
                    }
                    (len, len)
                })
                .unwrap();
        }
    }

    fn serve_udp(&mut self, cx: &mut Context<'_>, socket: UdpId) {
        let socket = cx.stack.udp(socket).unwrap();
        let mut payload = Vec::new();
        while let Some(datagram) = socket.receive_into(&mut payload) {
            let _ = socket.send_slice(datagram.peer, &payload);
        }
    }
}

/// The byte of a test stream at an offset.
pub fn pattern(offset: usize) -> u8 {
    (offset.wrapping_mul(2_654_435_761) >> 13) as u8
}

impl Service for Echo {
    fn start(&mut self, cx: &mut Context<'_>) {
        let owner = cx.owner(1);
        for (port, room) in [(PORT, SMALL), (DATA_PORT, LARGE)] {
            cx.stack.listen_tcp(Some(port), room, owner).unwrap();
        }
        self.udp = Some(cx.stack.open_udp(Some(PORT), Payload::Kept, owner).unwrap());
    }

    fn on_event(&mut self, cx: &mut Context<'_>, event: Event) {
        self.log.events.borrow_mut().push(event);
        match event {
            Event::Accepted { flow, .. } => {
                self.greetings.push((flow, 0));
                self.serve(cx, flow);
            }
            Event::Touched { flow, .. } => self.serve(cx, flow),
            Event::PeerClosed { flow, .. } => {
                self.greetings.retain(|(other, _)| *other != flow);
                if !self.log.idle.get() {
                    cx.stack.release(flow);
                }
            }
            Event::Closed { flow, .. } => self.greetings.retain(|(other, _)| *other != flow),
            Event::Datagrams { socket, .. } => self.serve_udp(cx, socket),
        }
    }
}
