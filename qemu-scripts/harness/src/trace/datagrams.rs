//! UDP datagrams of a station, whole and in fragments.

use std::collections::BTreeMap;

use etherparse::{IpNumber, Ipv4Slice, UdpHeader};

use super::Verdict;

/// What names a datagram (RFC 791 section 3.2): addresses, identification,
/// protocol.
type Key = ([u8; 4], [u8; 4], u16, u8);

/// Datagrams of which not all fragments have come.
#[derive(Debug, Default)]
pub struct Datagrams(BTreeMap<Key, Vec<u8>>);

impl Datagrams {
    /// Takes the station's next packet. Fragments are to come in order, each as long
    /// as the MTU allows.
    pub fn take(
        &mut self,
        ip: &Ipv4Slice<'_>,
        mtu: usize,
        verdict: &mut Verdict,
    ) -> Result<(), String> {
        let header = ip.header();
        let payload = ip.payload().payload;
        if !header.is_fragmenting_payload() {
            return match header.protocol() {
                IpNumber::UDP => count(header.source(), header.destination(), payload, verdict),
                _ => Ok(()),
            };
        }
        let key = (
            header.source(),
            header.destination(),
            header.identification(),
            header.protocol().0,
        );
        let offset = usize::from(header.fragments_offset().byte_offset());
        let known = self.0.remove(&key);
        if known.as_ref().map_or(0, Vec::len) != offset {
            return Err(format!("a fragment at {offset} out of order"));
        }
        let mut bytes = known.unwrap_or_default();
        bytes.extend(payload);
        if header.more_fragments() {
            self.0.insert(key, bytes);
            // Fragments begin at multiples of eight.
            let full = (mtu - 20) & !7;
            return match payload.len() == full {
                true => Ok(()),
                false => Err(format!("a fragment of {} bytes, not {full}", payload.len())),
            };
        }
        if offset == 0 {
            return Err("a datagram in one fragment".into());
        }
        if header.protocol() != IpNumber::UDP {
            return Ok(());
        }
        verdict.fragmented += 1;
        count(header.source(), header.destination(), &bytes, verdict)
    }

    /// What is left.
    pub fn end(self) -> impl Iterator<Item = String> {
        let complaint = |key: Key| format!("datagram {:#06x} was never completed", key.2);
        self.0.into_keys().map(complaint)
    }
}

fn count(from: [u8; 4], to: [u8; 4], bytes: &[u8], verdict: &mut Verdict) -> Result<(), String> {
    verdict.datagrams += 1;
    let (header, payload) = UdpHeader::from_slice(bytes).map_err(|error| error.to_string())?;
    if usize::from(header.length) != bytes.len() {
        let (says, is) = (header.length, bytes.len());
        return Err(format!("a datagram of {is} bytes says that it has {says}"));
    }
    match header.calc_checksum_ipv4_raw(from, to, payload) {
        Ok(right) if header.checksum == right => Ok(()),
        _ => Err("UDP checksum".into()),
    }
}
