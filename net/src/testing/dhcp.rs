//! A DHCP server.

use alloc::vec;
use alloc::vec::Vec;

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::*;

use super::frames::{PEER_IP, PEER_MAC};
use super::nic::OUR_MAC;

pub struct DhcpServer {
    pub offers: Ipv4Address,
    pub seconds: u32,
    pub router: Option<Ipv4Address>,
    /// Whether it answers.
    pub answers: bool,
    /// What it was asked.
    pub asked: Vec<DhcpMessageType>,
}

impl DhcpServer {
    pub fn new(offers: Ipv4Address, seconds: u32) -> Self {
        Self {
            offers,
            seconds,
            router: Some(PEER_IP),
            answers: true,
            asked: Vec::new(),
        }
    }

    /// The answer to a frame, if it is a question to a DHCP server.
    pub fn look(&mut self, frame: &[u8]) -> Option<Vec<u8>> {
        let frame = EthernetFrame::new_checked(frame).ok()?;
        if frame.ethertype() != EthernetProtocol::Ipv4 {
            return None;
        }
        let ip = Ipv4Packet::new_checked(frame.payload()).ok()?;
        if ip.next_header() != IpProtocol::Udp {
            return None;
        }
        let udp = UdpPacket::new_checked(ip.payload()).ok()?;
        if udp.dst_port() != 67 {
            return None;
        }
        let message = DhcpPacket::new_checked(udp.payload()).unwrap();
        let question = DhcpRepr::parse(&message).unwrap();
        self.asked.push(question.message_type);
        let kind = match question.message_type {
            DhcpMessageType::Discover => DhcpMessageType::Offer,
            DhcpMessageType::Request => DhcpMessageType::Ack,
            _ => return None,
        };
        self.answers
            .then(|| self.answer(kind, question.transaction_id))
    }

    fn answer(&self, kind: DhcpMessageType, transaction_id: u32) -> Vec<u8> {
        let message = DhcpRepr {
            message_type: kind,
            transaction_id,
            secs: 0,
            client_hardware_address: EthernetAddress(OUR_MAC.0),
            client_ip: Ipv4Address::UNSPECIFIED,
            your_ip: self.offers,
            server_ip: PEER_IP,
            router: self.router,
            subnet_mask: Some(Ipv4Address::new(255, 255, 255, 0)),
            relay_agent_ip: Ipv4Address::UNSPECIFIED,
            broadcast: false,
            requested_ip: None,
            client_identifier: None,
            server_identifier: Some(PEER_IP),
            parameter_request_list: None,
            dns_servers: None,
            max_size: None,
            lease_duration: Some(self.seconds),
            renew_duration: None,
            rebind_duration: None,
            additional_options: &[],
        };
        let udp = UdpRepr {
            src_port: 67,
            dst_port: 68,
        };
        let ip = Ipv4Repr {
            src_addr: PEER_IP,
            dst_addr: self.offers,
            next_header: IpProtocol::Udp,
            payload_len: 8 + message.buffer_len(),
            hop_limit: 64,
        };
        let ethernet = EthernetRepr {
            src_addr: EthernetAddress(PEER_MAC),
            dst_addr: EthernetAddress(OUR_MAC.0),
            ethertype: EthernetProtocol::Ipv4,
        };
        let sums = ChecksumCapabilities::default();
        let mut frame = vec![0; 34 + ip.payload_len];
        ethernet.emit(&mut EthernetFrame::new_unchecked(&mut frame));
        ip.emit(&mut Ipv4Packet::new_unchecked(&mut frame[14..]), &sums);
        udp.emit(
            &mut UdpPacket::new_unchecked(&mut frame[34..]),
            &ip.src_addr.into(),
            &ip.dst_addr.into(),
            message.buffer_len(),
            |data| message.emit(&mut DhcpPacket::new_unchecked(data)).unwrap(),
            &sums,
        );
        frame
    }
}
