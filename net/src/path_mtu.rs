//! Path MTU discovery (RFC 1191): routers' complaints that a packet was too large,
//! and what is remembered of them.

use core::net::Ipv4Addr;

use hashbrown::HashMap;
use smoltcp::wire::IpProtocol;

use crate::checksum::Sum;
use crate::frame::{ETHERNET_HEADER, IPV4_HEADER, Tuple};
use crate::hash::FlowHash;

/// The least that is believed of a path, as on Linux: less than 576 bytes, which
/// every host takes, and enough for most hostile messages to do no harm.
const LEAST: usize = 552;
/// Most destinations remembered. The one that would be forgotten next gives way.
const MOST_PATHS: usize = 64;
/// RFC 1191 section 6.3: after so long a larger packet is tried, in nanoseconds.
const LIFE: u64 = 600_000_000_000;
/// MTUs that links have, for routers that do not say theirs (RFC 1191 section 7).
const PLATEAUS: [usize; 7] = [65535, 32000, 17914, 8166, 4352, 2002, 1492];
const SMALL_PLATEAUS: [usize; 2] = [1006, LEAST];

const DESTINATION_UNREACHABLE: u8 = 3;
const FRAGMENTATION_NEEDED: u8 = 4;
/// Bytes of an ICMP header.
const ICMP_HEADER: usize = 8;
/// How much of the packet's payload is quoted at least: ports, and TCP's sequence
/// number.
const QUOTED: usize = 8;

/// A router's message that a packet of ours was larger than the next link's MTU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge {
    /// The packet's protocol.
    pub protocol: IpProtocol,
    /// Whom it was from and to.
    pub name: Tuple,
    /// TCP's sequence number.
    pub seq: u32,
    /// The packet's length.
    len: usize,
    /// The next link's MTU; 0 if the router does not say it.
    next: usize,
}

impl TooLarge {
    /// The message in a frame that holds a sound IPv4 packet with ICMP in it.
    /// `None` if it is another, or cut off, or its checksum is wrong.
    pub fn read(frame: &[u8]) -> Option<Self> {
        let packet = frame.get(ETHERNET_HEADER..)?;
        let header = usize::from(packet.first()? & 0xf) * 4;
        let total = usize::from(be16(packet, 2)?);
        let message = packet.get(header..total)?;
        let (icmp, quoted) = message.split_at_checked(ICMP_HEADER)?;
        if icmp[..2] != [DESTINATION_UNREACHABLE, FRAGMENTATION_NEEDED]
            || !Sum::default().add(message).is_good()
        {
            return None;
        }
        let quoted_header = usize::from(quoted.first()? & 0xf) * 4;
        if quoted[0] >> 4 != 4 || quoted_header < IPV4_HEADER {
            return None;
        }
        let start = quoted.get(quoted_header..quoted_header + QUOTED)?;
        // The first fragment, or the whole packet: others quote no ports.
        if be16(quoted, 6)? & 0x1fff != 0 {
            return None;
        }
        let address = |at: usize| -> Option<Ipv4Addr> {
            quoted.get(at..)?.first_chunk::<4>().map(|&a| a.into())
        };
        Some(Self {
            protocol: IpProtocol::from(quoted[9]),
            name: Tuple {
                local: address(12)?,
                remote: address(16)?,
                local_port: be16(start, 0)?,
                remote_port: be16(start, 2)?,
            },
            seq: u32::from(be16(start, 4)?) << 16 | u32::from(be16(start, 6)?),
            len: be16(quoted, 2)?.into(),
            next: be16(icmp, 6)?.into(),
        })
    }

    /// The path's MTU by this message. `None` if it contradicts itself: the packet
    /// was not larger (RFC 5927 section 7.2), or could not be made smaller.
    pub fn mtu(&self) -> Option<usize> {
        let next = if self.next == 0 {
            let smaller = |plateau: &&usize| **plateau < self.len;
            *PLATEAUS.iter().chain(&SMALL_PLATEAUS).find(smaller)?
        } else {
            self.next
        };
        let mtu = next.max(LEAST);
        (mtu < self.len).then_some(mtu)
    }
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes
        .get(at..)?
        .first_chunk()
        .map(|&b| u16::from_be_bytes(b))
}

#[derive(Clone, Copy, Debug)]
struct Path {
    mtu: usize,
    until: u64,
}

/// What is known of paths whose MTU is less than our link's. A path is known by
/// its destination and the protocol: what is said of datagrams, which nothing in
/// them proves, is not believed of connections.
pub struct Paths {
    paths: HashMap<(Ipv4Addr, u8), Path, FlowHash>,
}

impl Paths {
    /// Nothing is known.
    pub fn new(hash: FlowHash) -> Self {
        Self {
            paths: HashMap::with_hasher(hash),
        }
    }

    /// The MTU of the path to `destination`, if that is known at `now`, in
    /// nanoseconds.
    #[inline]
    pub fn mtu(&self, destination: Ipv4Addr, protocol: IpProtocol, now: u64) -> Option<usize> {
        if self.paths.is_empty() {
            return None;
        }
        let path = self.paths.get(&(destination, protocol.into()))?;
        (path.until > now).then_some(path.mtu)
    }

    /// Remembers a path's MTU, if it is less than what is known.
    pub fn learn(&mut self, destination: Ipv4Addr, protocol: IpProtocol, mtu: usize, now: u64) {
        let known = self.mtu(destination, protocol, now);
        if known.is_some_and(|known| known <= mtu) {
            return;
        }
        let key = (destination, protocol.into());
        if self.paths.len() >= MOST_PATHS && !self.paths.contains_key(&key) {
            let first = self.paths.iter().min_by_key(|(_, path)| path.until);
            if let Some((&first, _)) = first {
                self.paths.remove(&first);
            }
        }
        let until = now + LIFE;
        self.paths.insert(key, Path { mtu, until });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TO: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

    fn paths() -> Paths {
        Paths::new(FlowHash::new(1))
    }

    #[test]
    fn a_path_is_forgotten_after_ten_minutes() {
        let mut paths = paths();
        paths.learn(TO, IpProtocol::Tcp, 1400, 5);
        paths.learn(TO, IpProtocol::Tcp, 1450, 6);
        assert_eq!(paths.mtu(TO, IpProtocol::Tcp, LIFE), Some(1400));
        assert_eq!(paths.mtu(TO, IpProtocol::Udp, LIFE), None);
        assert_eq!(paths.mtu(TO, IpProtocol::Tcp, LIFE + 5), None);
        paths.learn(TO, IpProtocol::Tcp, 1450, LIFE + 6);
        assert_eq!(paths.mtu(TO, IpProtocol::Tcp, LIFE + 7), Some(1450));
    }

    #[test]
    fn the_table_is_bounded_and_the_oldest_go() {
        let mut paths = paths();
        for n in 0..1000 {
            paths.learn(Ipv4Addr::from(n), IpProtocol::Udp, 1000, n.into());
        }
        assert_eq!(paths.paths.len(), MOST_PATHS);
        assert_eq!(
            paths.mtu(Ipv4Addr::from(999), IpProtocol::Udp, 999),
            Some(1000)
        );
        assert_eq!(paths.mtu(Ipv4Addr::from(0), IpProtocol::Udp, 999), None);
    }

    #[test]
    fn routers_that_do_not_say_mean_the_next_plateau() {
        let said = |len, next| {
            TooLarge {
                protocol: IpProtocol::Tcp,
                name: Tuple::NONE,
                seq: 0,
                len,
                next,
            }
            .mtu()
        };
        assert_eq!(said(1500, 0), Some(1492));
        assert_eq!(said(1492, 0), Some(1006));
        assert_eq!(said(1006, 0), Some(LEAST));
        assert_eq!(said(552, 0), None);
        assert_eq!(said(1500, 1400), Some(1400));
        assert_eq!(said(1500, 68), Some(LEAST));
        assert_eq!(said(1500, 1500), None);
        assert_eq!(said(500, 400), None);
    }

    proptest! {
        /// Whatever stands in a frame, it is read or refused.
        #[test]
        fn any_bytes_can_be_read(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            let _ = TooLarge::read(&bytes);
            let mut frame = alloc::vec![0; ETHERNET_HEADER];
            frame.extend_from_slice(&[0x45, 0]);
            frame.extend_from_slice(&(bytes.len() as u16 + 20).to_be_bytes());
            frame.resize(ETHERNET_HEADER + IPV4_HEADER, 0);
            frame.extend_from_slice(&bytes);
            if let Some(message) = TooLarge::read(&frame) {
                prop_assert!(message.mtu().is_none_or(|mtu| (LEAST..65535).contains(&mtu)));
            }
        }
    }
}
