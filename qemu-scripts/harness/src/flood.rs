//! Frames in masses, from a thread of their own, while others go about their work.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use etherparse::{IpFragOffset, IpNumber, Ipv4Header, PacketBuilder};

use crate::frames::{FrameSender, Noise, ethernet};
use crate::machine::mac;
use crate::network::{CONTROL_PORT, Network};

/// The appliance's address on a tap.
const TARGET: [u8; 4] = [10, 77, 0, 2];
const ROUTER: [u8; 6] = [0x02, 0, 0, 0, 0, 0x99];
/// Frames between two looks at the clock.
const BATCH: usize = 50;

/// A flood that goes on until it is stopped.
#[derive(Debug)]
pub struct Flood {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<FloodResult>>,
}

/// What a flood came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FloodResult {
    /// Frames that went into the tap's queue.
    pub sent: u64,
    /// Seconds.
    pub elapsed: f64,
}

impl FloodResult {
    /// Frames a second.
    pub fn rate(&self) -> f64 {
        self.sent as f64 / self.elapsed
    }
}

impl Flood {
    /// Begins to send `frames`, over and over, `rate` of them a second or as many as
    /// can be sent. A sender has room for some 300 frames under way, so the tap's
    /// queue of 1000 is not what it fills: it waits for the guest.
    pub fn start(network: &Network, frames: Vec<Vec<u8>>, rate: u32) -> Result<Self> {
        let sender = FrameSender::new(network)?;
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let thread = std::thread::spawn(move || run(&sender, &frames, rate, &told));
        Ok(Self { stop, thread })
    }

    /// Ends it.
    pub fn stop(self) -> Result<FloodResult> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread
            .join()
            .map_err(|_| anyhow!("the flood has panicked"))?
    }
}

fn run(
    sender: &FrameSender,
    frames: &[Vec<u8>],
    rate: u32,
    stop: &AtomicBool,
) -> Result<FloodResult> {
    let begin = Instant::now();
    let mut batches = frames.chunks(BATCH).cycle();
    let mut sent = 0;
    while !stop.load(Ordering::Relaxed) {
        let due = begin + Duration::from_secs_f64(sent as f64 / f64::from(rate));
        let wait = due.saturating_duration_since(Instant::now());
        // Shorter sleeps are not kept.
        if wait > Duration::from_micros(100) {
            std::thread::sleep(wait);
        }
        if let Some(batch) = batches.next() {
            sent += sender.send_all(batch)? as u64;
        }
    }
    Ok(FloodResult {
        sent,
        elapsed: begin.elapsed().as_secs_f64(),
    })
}

/// So many SYNs to netperf's port, each with a source of its own in 198.18.0.0/15,
/// which nobody has (RFC 2544).
pub fn syns(count: usize) -> Vec<Vec<u8>> {
    let mut noise = Noise::new(7);
    let syn = |_| {
        let source = Ipv4Addr::from(0xc612_0000 | noise.number() as u32 & 0x1_ffff);
        let port = 1024 + noise.below(60_000) as u16;
        PacketBuilder::ethernet2(ROUTER, mac(0))
            .ipv4(source.octets(), TARGET, 64)
            .tcp(port, CONTROL_PORT, noise.number() as u32, 64_240)
            .syn()
    };
    (0..count)
        .map(syn)
        .map(|syn| whole(syn.size(0), |bytes| syn.write(bytes, &[])))
        .collect()
}

/// So many datagrams of 18 bytes to ports that nobody listens on.
pub fn stray_datagrams(count: usize) -> Vec<Vec<u8>> {
    let mut noise = Noise::new(8);
    let stray = |_| {
        let ports = (
            1024 + noise.below(60_000) as u16,
            20_000 + noise.below(20_000) as u16,
        );
        PacketBuilder::ethernet2(ROUTER, mac(0))
            .ipv4([10, 77, 0, 1], TARGET, 64)
            .udp(ports.0, ports.1)
    };
    (0..count)
        .map(stray)
        .map(|stray| whole(stray.size(18), |bytes| stray.write(bytes, &[0; 18])))
        .collect()
}

/// So many fragments of datagrams of which none is ever whole: overlapping, tiny, at
/// the largest offset, and first ones that nothing follows.
pub fn fragments(count: usize) -> Vec<Vec<u8>> {
    let mut noise = Noise::new(9);
    let fragment = |number: usize| {
        let (offset, size) = match number % 4 {
            0 => (0, 1480),
            1 => (185 - noise.below(100), 1480),
            2 => (noise.below(8000), 8),
            _ => (8189, 8),
        };
        let payload = noise.bytes(size);
        let mut header = Ipv4Header::new(size as u16, 64, IpNumber::UDP, [10, 77, 0, 1], TARGET)
            .expect("a short packet");
        // Each datagram has two fragments of the four.
        header.identification = (number / 2) as u16;
        header.dont_fragment = false;
        header.more_fragments = true;
        header.fragment_offset = IpFragOffset::try_new(offset as u16).expect("13 bits");
        header.header_checksum = header.calc_header_checksum();
        let mut packet = Vec::new();
        header.write(&mut packet).expect("there is memory");
        ethernet(0x0800, &[packet, payload].concat())
    };
    (0..count).map(fragment).collect()
}

fn whole<E: std::fmt::Debug>(
    size: usize,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(size);
    write(&mut bytes).expect("there is memory");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{NetSlice, SlicedPacket, TransportSlice};

    #[test]
    fn syns_are_syns_from_many_sources() {
        let mut sources = std::collections::BTreeSet::new();
        for frame in syns(100) {
            let sliced = SlicedPacket::from_ethernet(&frame).unwrap();
            let (Some(NetSlice::Ipv4(ip)), Some(TransportSlice::Tcp(tcp))) =
                (sliced.net, sliced.transport)
            else {
                panic!("{frame:02x?}");
            };
            assert!(tcp.syn() && !tcp.ack());
            let sum = tcp.calc_checksum_ipv4(ip.header().source(), ip.header().destination());
            assert_eq!(sum, Ok(tcp.checksum()));
            assert_eq!(ip.header().source()[..1], [198]);
            sources.insert(ip.header().source());
        }
        assert!(sources.len() > 90);
    }

    #[test]
    fn no_datagram_of_the_fragments_can_become_whole() {
        for frame in fragments(100) {
            let ip = etherparse::Ipv4Slice::from_slice(&frame[14..]).unwrap();
            assert!(ip.header().more_fragments());
        }
        assert_eq!(stray_datagrams(3).len(), 3);
    }
}
