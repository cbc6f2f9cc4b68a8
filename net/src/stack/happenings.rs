//! What services are to be told, until it is their turn.
//!
//! A note says in a few bytes what happened to which socket; the rest of the
//! [`Event`] is looked up when it is told. The socket may have changed hands or
//! gone since, as a connection does that is made and closed in one batch of
//! frames.

use smoltcp::wire::IpEndpoint;

use super::{FlowId, Slot, Stack, UdpId};
use crate::services::{Ending, Event};

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Accepted,
    Touched,
    PeerClosed,
    Closed(Ending),
    Datagrams,
}

/// What happened to which socket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Note {
    what: What,
    slot: u32,
    generation: u32,
}

impl Stack {
    /// Notes what happened to a connection.
    pub(super) fn note(&mut self, what: What, flow: FlowId) {
        self.notes.push_back(Note {
            what,
            slot: flow.slot,
            generation: flow.generation,
        });
    }

    /// Notes that datagrams came or left.
    pub(super) fn note_datagrams(&mut self, socket: UdpId) {
        self.notes.push_back(Note {
            what: What::Datagrams,
            slot: socket.slot,
            generation: socket.generation,
        });
    }

    /// Whether a service is to be told something.
    pub(crate) fn has_events(&self) -> bool {
        !self.notes.is_empty()
    }

    /// The next thing that happened to a service's socket, and the service.
    #[inline]
    pub(crate) fn next_event(&mut self) -> Option<(u8, Event)> {
        while let Some(note) = self.notes.pop_front() {
            if let Some(told) = self.tell(note) {
                return Some(told);
            }
        }
        None
    }

    /// What the owner is to be told, if it still has the socket.
    #[inline]
    fn tell(&mut self, note: Note) -> Option<(u8, Event)> {
        if note.what == What::Datagrams {
            return self.tell_of_udp(note);
        }
        let id = FlowId {
            slot: note.slot,
            generation: note.generation,
        };
        let flow = self.flows.owned(id)?;
        let token = flow.owner.token;
        let service = flow.owner.service;
        let event = match note.what {
            What::Touched => {
                flow.touched = false;
                Event::Touched { flow: id, token }
            }
            What::Accepted => Event::Accepted {
                flow: id,
                listener: flow.listener,
                peer: IpEndpoint::new(flow.tuple.remote.into(), flow.tuple.remote_port),
                token,
            },
            What::PeerClosed => Event::PeerClosed { flow: id, token },
            What::Closed(how) => {
                flow.end_told = true;
                self.queue(Slot::Tcp(note.slot));
                Event::Closed {
                    flow: id,
                    token,
                    how,
                }
            }
            What::Datagrams => return None,
        };
        Some((service, event))
    }

    fn tell_of_udp(&mut self, note: Note) -> Option<(u8, Event)> {
        let socket = UdpId {
            slot: note.slot,
            generation: note.generation,
        };
        let slot = self.udp.owned(socket)?;
        let udp = self.udp.at(slot);
        udp.touched = false;
        let token = udp.owner.token;
        Some((udp.owner.service, Event::Datagrams { socket, token }))
    }
}
