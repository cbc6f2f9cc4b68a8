//! Datagrams in and out, past smoltcp.

use core::net::SocketAddrV4;

use smoltcp::wire::{IpProtocol, Ipv4Cidr};
use uniperf_drivers::nic::{Transmit, TxError};

use super::egress::QUANTUM;
use super::{Set, Slot, Stack, Turn};
use crate::frame::{Drop, IPV4_HEADER, UDP_HEADER, UdpFrame};
use crate::neighbours::{self, Lookup};
use crate::udp::frames::{Cut, Envelope, Hop};
use crate::udp::{Datagram, UdpPhase};

/// How often the station address of a datagram's receiver is asked for, a
/// second apart, before what waits is given up.
const MOST_QUESTIONS: u8 = 3;

/// RFC 2131's client port.
const DHCP_CLIENT_PORT: u16 = 68;

/// How long a station found in the table is used before the table is asked
/// again, in nanoseconds.
const HOP_LIFE: u64 = 1_000_000_000;

/// Why a datagram cannot go now.
enum Obstacle {
    /// Its receiver's station was asked for; time to ask again, in nanoseconds.
    Unresolved(u64),
    /// The ring is full.
    RingFull,
    /// There is no way to its receiver.
    NoRoute,
}

impl Stack {
    pub(super) fn deliver_udp<T: Transmit>(
        &mut self,
        datagram: &UdpFrame<'_>,
        frame: &[u8],
        tx: &mut T,
    ) {
        let Some(slot) = self.udp.find(datagram.local.port()) else {
            return self.deliver_stray(datagram, frame, tx);
        };
        // RFC 1122 section 3.3.6: what is for one host comes to its station.
        let is_group = frame[0] & 1 != 0;
        if is_group || !self.is_our_address(*datagram.local.ip()) {
            return self.count_drop(Drop::NotOurs);
        }
        let udp = self.udp.at(slot);
        if !udp.socket.take(datagram.remote, datagram.payload) {
            self.counters.drop_udp_full += 1;
        }
        self.tell_of_datagrams(slot);
    }

    /// DHCP's answers are the common set's; all else is nobody's, and smoltcp
    /// tells the sender so.
    fn deliver_stray<T: Transmit>(&mut self, datagram: &UdpFrame<'_>, frame: &[u8], tx: &mut T) {
        if datagram.local.port() == DHCP_CLIENT_PORT {
            self.process(Set::Common, frame, tx);
            self.queue(Slot::Common);
        } else if self.unreachable.allow(self.now_ns) {
            self.process(Set::Common, frame, tx);
        } else {
            self.counters.drop_udp_no_port += 1;
        }
    }

    fn tell_of_datagrams(&mut self, slot: u32) {
        let socket = self.udp.id(slot);
        let udp = self.udp.at(slot);
        if !core::mem::replace(&mut udp.touched, true) {
            self.note_datagrams(socket);
        }
    }

    pub(super) fn turn_of_udp<T: Transmit>(&mut self, slot: u32, tx: &mut T) -> Turn {
        let before = self.udp.at(slot).socket.datagrams_to_send();
        let turn = self.send_datagrams(slot, tx);
        let udp = self.udp.at(slot);
        let rests = matches!(turn, Turn::Done(_) | Turn::Unresolved(_));
        if udp.phase == UdpPhase::Closing && rests {
            let cost = self.udp.end(slot);
            self.flows.refund(cost);
        } else if udp.stuck > MOST_QUESTIONS {
            // Nobody has that address, and all that is queued waits behind it.
            udp.empty();
            self.counters.drop_unresolved += 1;
            return Turn::Done(None);
        } else if udp.wants_room && udp.socket.datagrams_to_send() < before {
            udp.wants_room = false;
            self.tell_of_datagrams(slot);
        }
        turn
    }

    fn send_datagrams<T: Transmit>(&mut self, slot: u32, tx: &mut T) -> Turn {
        for _ in 0..QUANTUM {
            let Some((datagram, _)) = self.udp.at(slot).first() else {
                return Turn::Done(None);
            };
            match self.send_frame_of(slot, datagram, tx) {
                Ok(()) => {}
                Err(Obstacle::RingFull) => return Turn::RingFull,
                Err(Obstacle::Unresolved(again)) => {
                    return Turn::Unresolved(Some(again.div_ceil(1000) as i64));
                }
                Err(Obstacle::NoRoute) => {
                    self.counters.drop_no_route += 1;
                    self.udp.at(slot).pop();
                }
            }
        }
        Turn::More
    }

    /// Sends a socket's first datagram, or the next fragment of it.
    fn send_frame_of<T: Transmit>(
        &mut self,
        slot: u32,
        datagram: Datagram,
        tx: &mut T,
    ) -> Result<(), Obstacle> {
        let Some(ours) = self.addressing.current() else {
            return Err(Obstacle::NoRoute);
        };
        if tx.free() <= self.reserve {
            return Err(Obstacle::RingFull);
        }
        let hop = self.hop_to(slot, datagram.peer, ours, tx)?;
        let (udp, pages) = (self.udp.at(slot), &self.pages);
        let envelope = Envelope {
            from_station: self.station.mac,
            to_station: hop.station,
            from: SocketAddrV4::new(ours.address(), udp.port()),
            to: datagram.peer,
        };
        let mtu = self
            .paths
            .mtu(*datagram.peer.ip(), IpProtocol::Udp, self.now_ns)
            .unwrap_or(self.mtu);
        let mut cut = udp.cut;
        let (_, bytes) = udp.first().expect("it is still there");
        let payload = bytes.unwrap_or_else(|| pages.first(datagram.len));
        let sent = if IPV4_HEADER + UDP_HEADER + datagram.len <= mtu {
            let sent = envelope.send_whole(tx, payload, self.offloads.checksum());
            sent.map(|len| (len, true))
        } else {
            let cut = cut.get_or_insert_with(|| {
                self.next_id = self.next_id.wrapping_add(1);
                Cut::new(self.next_id)
            });
            envelope.send_fragment(tx, cut, payload, mtu)
        };
        let payload = payload.len() as u64;
        let udp = self.udp.at(slot);
        udp.cut = cut;
        match sent {
            Ok((len, is_last)) => {
                self.counters.tx_frames += 1;
                self.counters.tx_bytes += len as u64;
                if is_last {
                    self.counters.tx_payload += payload;
                    self.counters.tx_copied += payload;
                    udp.pop();
                }
                Ok(())
            }
            Err(TxError::RingFull) => Err(Obstacle::RingFull),
            Err(TxError::Unsupported) => {
                self.counters.drop_tx_unsupported += 1;
                udp.pop();
                Ok(())
            }
        }
    }

    /// The station that a socket's datagrams to `peer` go to.
    fn hop_to<T: Transmit>(
        &mut self,
        slot: u32,
        peer: SocketAddrV4,
        ours: Ipv4Cidr,
        tx: &mut T,
    ) -> Result<Hop, Obstacle> {
        let version = self.neighbours.version();
        if let Some(hop) = self.udp.at(slot).hop
            && hop.peer == *peer.ip()
            && hop.version == version
            && hop.until > self.now_ns
        {
            return Ok(hop);
        }
        let next = self
            .addressing
            .next_hop(*peer.ip())
            .ok_or(Obstacle::NoRoute)?;
        match self.neighbours.look_up(next, self.now_ns) {
            Lookup::Known(station) => {
                let hop = Hop {
                    peer: *peer.ip(),
                    station,
                    until: self.now_ns + HOP_LIFE,
                    version,
                };
                let udp = self.udp.at(slot);
                udp.hop = Some(hop);
                udp.stuck = 0;
                Ok(hop)
            }
            Lookup::Asked(again) => Err(Obstacle::Unresolved(again)),
            Lookup::Ask => {
                let asked = neighbours::ask(tx, self.station.mac, ours.address(), next);
                let len = asked.map_err(|_| Obstacle::RingFull)?;
                self.udp.at(slot).stuck += 1;
                self.counters.tx_frames += 1;
                self.counters.tx_bytes += len as u64;
                Err(Obstacle::Unresolved(
                    self.neighbours.asked(next, self.now_ns),
                ))
            }
        }
    }
}
