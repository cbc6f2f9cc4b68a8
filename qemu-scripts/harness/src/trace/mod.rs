//! A capture, read packet by packet, and what a station sent in it held against
//! the RFCs.
//!
//! Only one station is judged, the appliance; what its peer sent is read to know
//! what was agreed, offered and acknowledged. Times are those of the capture. A
//! capture shows a frame to the appliance before it has that frame, and one from it
//! after it was sent, so whatever the appliance can know is known here.

mod conversation;
mod datagrams;

use std::collections::BTreeMap;
use std::fs::File;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use etherparse::{EtherPayloadSlice, Ipv4Slice, SlicedPacket, TcpSlice};
use etherparse::{NetSlice, TransportSlice};
use pcap_file::pcap::PcapReader;

pub use conversation::Connection;
use conversation::Conversation;
use datagrams::Datagrams;

/// Who is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Station {
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// Longest IP packet that it may send, in bytes.
    pub mtu: usize,
}

/// What a capture shows of a station.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// Frames that it sent.
    pub frames: usize,
    /// Whole UDP datagrams that it sent.
    pub datagrams: usize,
    /// Those of them that were sent in fragments.
    pub fragmented: usize,
    /// Its TCP connections, in the order in which they began.
    pub connections: Vec<Connection>,
    /// What is wrong, with the number of the packet from 1 on, as other tools count.
    pub complaints: Vec<String>,
}

impl Verdict {
    /// An error with the first complaints, if there are any.
    pub fn check(&self) -> Result<()> {
        let first: Vec<_> = self.complaints.iter().take(10).collect();
        ensure!(
            first.is_empty(),
            "{} complaints, the first: {first:#?}",
            self.complaints.len()
        );
        Ok(())
    }

    /// The sum of something over all connections.
    pub fn sum(&self, what: impl Fn(&Connection) -> u64) -> u64 {
        self.connections.iter().map(what).sum()
    }
}

/// Judges what `station` sent in the capture in the file `path`.
///
/// # Errors
///
/// The file cannot be read. What is wrong with packets is in the verdict.
pub fn judge(path: &Path, station: Station) -> Result<Verdict> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let mut reader = PcapReader::new(std::io::BufReader::new(file))?;
    let mut judge = Judge::new(station);
    while let Some(packet) = reader.next_packet() {
        let packet = packet?;
        ensure!(
            packet.data.len() == packet.orig_len as usize,
            "the capture has cut a packet"
        );
        judge.take(packet.timestamp, &packet.data);
    }
    Ok(judge.end())
}

/// The four numbers that name a connection, the station's first.
type Name = [(Ipv4Addr, u16); 2];

/// Reads packets in the order in which they were captured.
struct Judge {
    station: Station,
    verdict: Verdict,
    packet: usize,
    now: Duration,
    conversations: BTreeMap<Name, Conversation>,
    ended: Vec<Connection>,
    datagrams: Datagrams,
}

impl Judge {
    fn new(station: Station) -> Self {
        Self {
            station,
            verdict: Verdict::default(),
            packet: 0,
            now: Duration::ZERO,
            conversations: BTreeMap::new(),
            ended: Vec::new(),
            datagrams: Datagrams::default(),
        }
    }

    fn take(&mut self, at: Duration, frame: &[u8]) {
        self.packet += 1;
        self.now = at;
        let is_own = frame.get(6..12) == Some(&self.station.mac);
        self.verdict.frames += usize::from(is_own);
        let sliced = match SlicedPacket::from_ethernet(frame) {
            Ok(sliced) => sliced,
            Err(error) if is_own => return self.complain(error.to_string()),
            Err(_) => return,
        };
        let Some(NetSlice::Ipv4(ip)) = &sliced.net else {
            return;
        };
        if is_own {
            self.look_at_ip(ip, sliced.ether_payload().as_ref());
            let (datagrams, verdict) = (&mut self.datagrams, &mut self.verdict);
            if let Err(complaint) = datagrams.take(ip, self.station.mtu, verdict) {
                self.complain(complaint);
            }
        }
        if let Some(TransportSlice::Tcp(tcp)) = &sliced.transport {
            self.look_at_tcp(ip, tcp, is_own);
        }
    }

    /// RFC 791 section 3.1, RFC 6864 section 4: what is sent whole need not be told
    /// apart by its identification, and must say that it is not to be cut.
    fn look_at_ip(&mut self, ip: &Ipv4Slice<'_>, whole: Option<&EtherPayloadSlice<'_>>) {
        let header = ip.header();
        let checksum = header.to_header().calc_header_checksum();
        let mut wrong = Vec::new();
        if header.header_checksum() != checksum {
            wrong.push("IP checksum");
        }
        if header.ihl() != 5 {
            wrong.push("IP options");
        }
        if header.ttl() != 64 {
            wrong.push("time to live");
        }
        if usize::from(header.total_len()) > self.station.mtu {
            wrong.push("longer than the MTU");
        }
        if whole.is_none_or(|whole| whole.payload.len() < header.total_len().into()) {
            wrong.push("shorter than it says");
        }
        if header.is_fragmenting_payload() && header.dont_fragment() {
            wrong.push("a fragment that is not to be fragmented");
        }
        for what in wrong {
            self.complain(what);
        }
    }

    fn look_at_tcp(&mut self, ip: &Ipv4Slice<'_>, tcp: &TcpSlice<'_>, is_own: bool) {
        let header = ip.header();
        let source = (header.source_addr(), tcp.source_port());
        let destination = (header.destination_addr(), tcp.destination_port());
        if is_own && !header.dont_fragment() {
            self.complain("a TCP segment that may be fragmented");
        }
        let checksum = tcp.calc_checksum_ipv4(header.source(), header.destination());
        if is_own && !checksum.is_ok_and(|right| is_same(right, tcp.checksum())) {
            self.complain("TCP checksum");
        }
        let name = match is_own {
            true => [source, destination],
            false => [destination, source],
        };
        let begins = !is_own && tcp.syn() && !tcp.ack();
        if begins
            && self
                .conversations
                .get(&name)
                .is_none_or(|old| old.is_other(tcp))
        {
            let new = Conversation::new(self.packet, self.station.mtu);
            if let Some(old) = self.conversations.insert(name, new) {
                self.finish(old);
            }
        }
        let Some(conversation) = self.conversations.get_mut(&name) else {
            // The capture has begun after the connection; or nobody listens there.
            return;
        };
        let complaints = if is_own {
            conversation.own(header.identification(), tcp, self.now)
        } else {
            conversation.peers(tcp, self.now)
        };
        for complaint in complaints {
            self.complain(format!("{}: {complaint}", destination.1));
        }
    }

    fn finish(&mut self, conversation: Conversation) {
        let (connection, complaint) = conversation.end(self.now);
        if let Some(complaint) = complaint {
            self.complain(complaint);
        }
        self.ended.push(connection);
    }

    fn end(mut self) -> Verdict {
        for (_, conversation) in std::mem::take(&mut self.conversations) {
            self.finish(conversation);
        }
        self.ended.sort_by_key(|connection| connection.first_packet);
        self.verdict.connections = self.ended;
        self.verdict.complaints.extend(self.datagrams.end());
        self.verdict
    }

    fn complain(&mut self, what: impl std::fmt::Display) {
        let complaint = format!("packet {}: {what}", self.packet);
        self.verdict.complaints.push(complaint);
    }
}

/// Whether two checksums are: both zeros of ones' complement arithmetic are right
/// (RFC 1071), and QEMU's 8254x writes the other one.
fn is_same(right: u16, written: u16) -> bool {
    right % 0xffff == written % 0xffff
}

#[cfg(test)]
mod tests;
