//! Where the headers of an Ethernet frame are.

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const VLAN: u16 = 0x8100;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// The network layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ip {
    V4,
    V6,
}

/// The transport layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Tcp,
    Udp,
}

impl Transport {
    pub(super) fn protocol(self) -> u8 {
        match self {
            Self::Tcp => TCP,
            Self::Udp => UDP,
        }
    }

    /// Where its checksum is, in its header.
    pub(super) fn checksum_offset(self) -> usize {
        match self {
            Self::Tcp => 16,
            Self::Udp => 6,
        }
    }
}

/// Offsets of the headers of an IP packet in a frame. Every offset lies in the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) ip: Ip,
    /// The IP header.
    pub(super) network: usize,
    /// The transport header, or what is in its place.
    pub(super) transport: usize,
    /// Where the IP packet ends by its own length field. A frame may be padded behind.
    pub(super) end: usize,
    /// The transport protocol, if it is one of those and this is no fragment.
    pub(super) kind: Option<Transport>,
}

fn get16(frame: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(frame.get(at..at + 2)?.try_into().ok()?))
}

impl Layout {
    /// That of `frame`, if it holds a whole IP header.
    pub(super) fn of(frame: &[u8]) -> Option<Self> {
        let mut network = 14;
        let mut kind = get16(frame, 12)?;
        if kind == VLAN {
            kind = get16(frame, 16)?;
            network = 18;
        }
        match kind {
            IPV4 => Self::v4(frame, network),
            IPV6 => Self::v6(frame, network),
            _ => None,
        }
    }

    fn v4(frame: &[u8], network: usize) -> Option<Self> {
        let header = frame.get(network..network + 20)?;
        let len = usize::from(header[0] & 0xf) * 4;
        let total = usize::from(get16(header, 2)?);
        let transport = network + len;
        if header[0] >> 4 != 4 || len < 20 || total < len || transport > frame.len() {
            return None;
        }
        // A super-segment's own length field does not count.
        let end = (network + total).min(frame.len());
        let fragment = get16(header, 6)? & 0x3fff != 0;
        let kind = transport_kind(header[9]).filter(|_| !fragment);
        Some(Self {
            ip: Ip::V4,
            network,
            transport,
            end,
            kind: fitting(frame, transport, end, kind),
        })
    }

    fn v6(frame: &[u8], network: usize) -> Option<Self> {
        let header = frame.get(network..network + 40)?;
        let transport = network + 40;
        let end = (transport + usize::from(get16(header, 4)?)).min(frame.len());
        Some(Self {
            ip: Ip::V6,
            network,
            transport,
            end,
            kind: fitting(frame, transport, end, transport_kind(header[6])),
        })
    }

    /// Source and destination address.
    pub(super) fn addresses(self, frame: &[u8]) -> &[u8] {
        match self.ip {
            Ip::V4 => &frame[self.network + 12..self.network + 20],
            Ip::V6 => &frame[self.network + 8..self.network + 40],
        }
    }
}

fn transport_kind(protocol: u8) -> Option<Transport> {
    match protocol {
        TCP => Some(Transport::Tcp),
        UDP => Some(Transport::Udp),
        _ => None,
    }
}

/// `kind` where its shortest header fits in.
fn fitting(
    frame: &[u8],
    transport: usize,
    end: usize,
    kind: Option<Transport>,
) -> Option<Transport> {
    let needed = match kind? {
        Transport::Tcp => 20,
        Transport::Udp => 8,
    };
    (transport + needed <= end.min(frame.len())).then_some(kind?)
}
