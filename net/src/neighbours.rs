//! Which station has an address (RFC 826), for what is sent without smoltcp,
//! whose own table cannot be read.
//!
//! Bounded: where there is no room, the entry that would go next goes at once.

use hashbrown::HashMap;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol,
    EthernetRepr, Ipv4Address, Ipv4Cidr,
};
use uniperf_drivers::nic::{MacAddress, Offload, Transmit, TxError};

use crate::frame::ETHERNET_HEADER;
use crate::hash::FlowHash;

const SECOND: u64 = 1_000_000_000;
/// How long an answer is believed, as smoltcp does.
const BELIEVED: u64 = 60 * SECOND;
/// RFC 1122 section 2.3.2.1: an address is asked for once a second at most.
const ASK_EVERY: u64 = SECOND;
/// Most addresses that are remembered.
const MOST: usize = 256;

/// What is known of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// Its station.
    Known(MacAddress),
    /// Nothing yet, and it is time to ask.
    Ask,
    /// Nothing yet; it may be asked for again at this time, in nanoseconds.
    Asked(u64),
}

#[derive(Clone, Copy)]
struct Entry {
    mac: Option<MacAddress>,
    /// When it is no longer believed, or can be asked for again.
    until: u64,
}

/// The table of stations.
pub struct Neighbours {
    entries: HashMap<Ipv4Address, Entry, FlowHash>,
    /// Goes up whenever what was looked up before may no longer hold.
    version: u32,
}

impl Neighbours {
    /// An empty table.
    pub fn new(hash: FlowHash) -> Self {
        Self {
            entries: HashMap::with_hasher(hash),
            version: 0,
        }
    }

    /// As long as this is the same, stations that were found have not moved.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// What is known of an address now.
    pub fn look_up(&self, address: Ipv4Address, now: u64) -> Lookup {
        match self.entries.get(&address) {
            Some(entry) if entry.until > now => match entry.mac {
                Some(mac) => Lookup::Known(mac),
                None => Lookup::Asked(entry.until),
            },
            _ => Lookup::Ask,
        }
    }

    /// Notes that an address is being asked for.
    pub fn asked(&mut self, address: Ipv4Address, now: u64) -> u64 {
        let until = now + ASK_EVERY;
        self.insert(address, Entry { mac: None, until }, now);
        until
    }

    /// Learns from an ARP packet of a station in our network: always if the
    /// address is in the table, otherwise only if the packet is for us.
    pub fn learn(&mut self, packet: &[u8], ours: Ipv4Cidr, now: u64) {
        let packet = ArpPacket::new_checked(packet);
        let Ok(ArpRepr::EthernetIpv4 {
            source_hardware_addr: station,
            source_protocol_addr: address,
            target_protocol_addr: target,
            ..
        }) = packet.and_then(|packet| ArpRepr::parse(&packet))
        else {
            return;
        };
        let is_host = station.is_unicast()
            && !address.is_multicast()
            && ours.contains_addr(&address)
            && ours.address() != address;
        if !is_host || target != ours.address() && !self.entries.contains_key(&address) {
            return;
        }
        let entry = Entry {
            mac: Some(MacAddress(station.0)),
            until: now + BELIEVED,
        };
        self.insert(address, entry, now);
    }

    /// Forgets all: the address or the network has changed.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.version = self.version.wrapping_add(1);
    }

    fn insert(&mut self, address: Ipv4Address, entry: Entry, now: u64) {
        if self.entries.len() >= MOST && !self.entries.contains_key(&address) {
            self.make_room(now);
        }
        let before = self.entries.insert(address, entry);
        if before.is_none_or(|before| before.mac != entry.mac) {
            self.version = self.version.wrapping_add(1);
        }
    }

    fn make_room(&mut self, now: u64) {
        self.entries.retain(|_, entry| entry.until > now);
        let next_to_go = self.entries.iter().min_by_key(|(_, entry)| entry.until);
        if self.entries.len() >= MOST
            && let Some(address) = next_to_go.map(|(address, _)| *address)
        {
            self.entries.remove(&address);
        }
    }
}

/// Asks all stations who has `address`.
///
/// # Errors
///
/// As for [`Transmit::send`].
pub fn ask<T: Transmit>(
    tx: &mut T,
    mac: MacAddress,
    ours: Ipv4Address,
    address: Ipv4Address,
) -> Result<usize, TxError> {
    let request = ArpRepr::EthernetIpv4 {
        operation: ArpOperation::Request,
        source_hardware_addr: EthernetAddress(mac.0),
        source_protocol_addr: ours,
        target_hardware_addr: EthernetAddress([0; 6]),
        target_protocol_addr: address,
    };
    let ethernet = EthernetRepr {
        src_addr: EthernetAddress(mac.0),
        dst_addr: EthernetAddress::BROADCAST,
        ethertype: EthernetProtocol::Arp,
    };
    let len = ETHERNET_HEADER + request.buffer_len();
    tx.send(len, &[], Offload::None, |buffer| {
        ethernet.emit(&mut EthernetFrame::new_unchecked(&mut *buffer));
        let packet = &mut buffer[ETHERNET_HEADER..len];
        request.emit(&mut ArpPacket::new_unchecked(packet));
        len
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    const OURS: Ipv4Cidr = Ipv4Cidr::new(Ipv4Address::new(10, 0, 0, 2), 16);

    fn host(number: u16) -> Ipv4Address {
        let [high, low] = number.to_be_bytes();
        Ipv4Address::new(10, 0, high, low)
    }

    fn station(number: u8) -> MacAddress {
        MacAddress([2, 0, 0, 0, 0, number])
    }

    fn arp(from: (MacAddress, Ipv4Address), target: Ipv4Address) -> Vec<u8> {
        let repr = ArpRepr::EthernetIpv4 {
            operation: ArpOperation::Reply,
            source_hardware_addr: EthernetAddress(from.0.0),
            source_protocol_addr: from.1,
            target_hardware_addr: EthernetAddress([0; 6]),
            target_protocol_addr: target,
        };
        let mut packet = vec![0; repr.buffer_len()];
        repr.emit(&mut ArpPacket::new_unchecked(&mut packet));
        packet
    }

    fn table() -> Neighbours {
        Neighbours::new(FlowHash::new(1))
    }

    #[test]
    fn asks_once_a_second_and_believes_for_a_minute() {
        let mut table = table();
        assert_eq!(table.look_up(host(9), 0), Lookup::Ask);
        assert_eq!(table.asked(host(9), 0), SECOND);
        assert_eq!(table.look_up(host(9), 1), Lookup::Asked(SECOND));
        assert_eq!(table.look_up(host(9), SECOND), Lookup::Ask);
        table.learn(&arp((station(1), host(9)), OURS.address()), OURS, SECOND);
        let known = Lookup::Known(station(1));
        assert_eq!(table.look_up(host(9), 60 * SECOND), known);
        assert_eq!(table.look_up(host(9), 61 * SECOND), Lookup::Ask);
    }

    #[test]
    fn learns_only_what_concerns_us() {
        let mut table = table();
        let overheard = arp((station(1), host(9)), host(5));
        table.learn(&overheard, OURS, 0);
        assert_eq!(table.look_up(host(9), 1), Lookup::Ask);
        table.asked(host(9), 0);
        table.learn(&overheard, OURS, 0);
        assert_eq!(table.look_up(host(9), 1), Lookup::Known(station(1)));
        let ours = OURS.address();
        for (sender, address) in [
            (MacAddress([0xff; 6]), host(7)),
            (station(1), ours),
            (station(1), Ipv4Address::new(192, 0, 2, 1)),
            (station(1), Ipv4Address::new(224, 0, 0, 1)),
        ] {
            table.learn(&arp((sender, address), ours), OURS, 0);
            assert_eq!(table.look_up(address, 1), Lookup::Ask, "{address}");
        }
        table.learn(&arp((station(1), host(7)), ours)[..27], OURS, 0);
        assert_eq!(table.look_up(host(7), 1), Lookup::Ask);
    }

    #[test]
    fn a_station_that_moves_is_noticed() {
        let mut table = table();
        let ours = OURS.address();
        table.learn(&arp((station(1), host(9)), ours), OURS, 0);
        let version = table.version();
        table.learn(&arp((station(1), host(9)), ours), OURS, 5);
        assert_eq!(table.version(), version);
        table.learn(&arp((station(2), host(9)), host(9)), OURS, 6);
        assert_ne!(table.version(), version);
        table.clear();
        assert_eq!(table.look_up(host(9), 7), Lookup::Ask);
    }

    #[test]
    fn a_flood_is_bounded() {
        let mut table = table();
        for number in 256..10_000 {
            let packet = arp((station(1), host(number)), OURS.address());
            table.learn(&packet, OURS, u64::from(number));
        }
        assert_eq!(table.entries.len(), MOST);
        assert_eq!(
            table.look_up(host(9_999), 10_000),
            Lookup::Known(station(1))
        );
    }
}
