//! Path MTU discovery: what a router's complaint changes.

use core::net::Ipv4Addr;

use smoltcp::wire::IpProtocol;

use super::{Slot, Stack};
use crate::flows::Phase;
use crate::frame::{IPV4_HEADER, TCP_HEADER};
use crate::path_mtu::TooLarge;

impl Stack {
    /// Takes a router's message that a packet was too large, if it can be one: about
    /// a packet that we may have sent a moment ago (RFC 5927 section 7).
    pub(super) fn take_complaint(&mut self, message: &TooLarge) {
        let believed = message
            .mtu()
            .filter(|&mtu| mtu < self.mtu && self.is_our_address(message.name.local))
            .is_some_and(|mtu| match message.protocol {
                IpProtocol::Tcp => self.narrow_flow(message, mtu),
                IpProtocol::Udp => self.udp.find(message.name.local_port).is_some(),
                _ => false,
            });
        if !believed {
            self.counters.drop_path_mtu += 1;
            return;
        }
        self.counters.path_mtu += 1;
        if let Some(mtu) = message.mtu() {
            let remote = message.name.remote;
            self.paths.learn(remote, message.protocol, mtu, self.now_ns);
        }
    }

    /// Sends again what a connection has under way, in smaller segments. Returns
    /// whether the packet may be one of that connection's.
    fn narrow_flow(&mut self, message: &TooLarge, mtu: usize) -> bool {
        let Some(slot) = self.flows.find(&message.name) else {
            return false;
        };
        let flow = self.flows.at(slot);
        let is_open = matches!(flow.phase, Phase::Open | Phase::Released);
        if !is_open || !flow.recovery.is_in_flight(message.seq) {
            return false;
        }
        let mss = mtu - IPV4_HEADER - TCP_HEADER;
        if flow.recovery.narrow(mss, self.now_ns) {
            self.queue(Slot::Tcp(slot));
        }
        true
    }

    /// The most payload bytes of segments to `remote`, where the path asks for less
    /// than our link does.
    pub(super) fn path_mss_to(&self, remote: Ipv4Addr) -> Option<u16> {
        let mtu = self.paths.mtu(remote, IpProtocol::Tcp, self.now_ns)?;
        Some((mtu - IPV4_HEADER - TCP_HEADER) as u16)
    }
}
