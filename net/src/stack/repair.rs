//! Loss recovery: carries out on a connection's socket what its
//! [`Recovery`](crate::recovery::Recovery) has decided.

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::time::Instant;
use smoltcp::wire::{
    EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr, IpProtocol, Ipv4Packet,
    Ipv4Repr, TcpControl, TcpPacket, TcpRepr, TcpSeqNumber,
};
use uniperf_drivers::nic::Transmit;

use super::{Set, Stack};
use crate::flows::Phase;
use crate::frame::{ETHERNET_HEADER, IPV4_HEADER, TCP_HEADER};
use crate::recovery::{Hint, Sent, Wanted};

/// How far smoltcp's clock is put forward at most to make its timer run out, in
/// microseconds. Station addresses must not grow old by that.
const LONGEST_LEAP: i64 = 10_000_000;
/// smoltcp may have an acknowledgement to send before its timer is looked at.
const MOST_LEAPS: usize = 3;
/// How often smoltcp is shown an acknowledgement until it sends a segment again:
/// once to be counted from, and three duplicates.
const SHOWINGS: usize = 4;

const HEADERS: usize = ETHERNET_HEADER + IPV4_HEADER + TCP_HEADER;

impl Stack {
    /// Notes what smoltcp has sent.
    pub(super) fn note_sent(&mut self, set: Set, sent: Option<Sent>) {
        if let (Set::Flow(slot), Some(sent)) = (set, sent) {
            self.counters.tx_payload += sent.payload();
            self.counters.tx_copied += sent.payload();
            self.flows.at(slot).recovery.sent(&sent, self.now_ns);
        }
    }

    /// Before a connection's turn to send: tells its socket what to send again,
    /// and how much it may send.
    pub(super) fn recover<T: Transmit>(&mut self, slot: u32, tx: &mut T) {
        let flow = self.flows.at(slot);
        if !matches!(flow.phase, Phase::Open | Phase::Released) {
            return;
        }
        if flow.recovery.run_timers(self.now_ns, self.patience) {
            return flow.socket_mut().abort();
        }
        self.limit(slot, tx);
        match self.flows.at(slot).recovery.take_wanted() {
            Wanted::Nothing => {}
            Wanted::Repeat => self.repeat(slot, tx),
            Wanted::Rewind => self.rewind(slot, tx),
        }
    }

    /// Makes smoltcp send its first segment again.
    fn repeat<T: Transmit>(&mut self, slot: u32, tx: &mut T) {
        self.counters.tcp_repeated += 1;
        let hint = self.flows.at(slot).recovery.repeat();
        for _ in 0..SHOWINGS {
            self.show(slot, hint, TcpControl::None, tx);
        }
        self.limit(slot, tx);
    }

    fn limit<T: Transmit>(&mut self, slot: u32, tx: &mut T) {
        let flow = self.flows.at(slot);
        let queue = flow.socket().send_queue();
        if let Some(hint) = flow.recovery.take_limit(queue) {
            self.show(slot, hint, TcpControl::None, tx);
        }
    }

    /// Makes smoltcp's retransmission timer run out, by putting its clock forward
    /// to that time.
    fn rewind<T: Transmit>(&mut self, slot: u32, tx: &mut T) {
        self.counters.tcp_rewound += 1;
        let socket = self.flows.at(slot).socket_mut();
        let patience = socket.timeout();
        socket.set_timeout(None);
        let now = self.now;
        let mut done = false;
        for _ in 0..MOST_LEAPS {
            let Some(at) = self.next_of(Set::Flow(slot)) else {
                break;
            };
            if at > now.total_micros() + LONGEST_LEAP {
                break;
            }
            self.now = now.max(Instant::from_micros(at));
            let (_, _, refused) = self.poll_egress(Set::Flow(slot), tx);
            self.now = now;
            done = refused || !self.flows.at(slot).recovery.is_rewinding();
            if done {
                break;
            }
        }
        let flow = self.flows.at(slot);
        flow.socket_mut().set_timeout(patience);
        if !done {
            flow.recovery.rewind_failed();
            self.recover(slot, tx);
        }
    }

    /// Delivers a FIN that came before what it follows, which smoltcp forgets.
    pub(super) fn deliver_early_fin<T: Transmit>(&mut self, slot: u32, tx: &mut T) {
        if let Some(hint) = self.flows.at(slot).recovery.take_early_fin() {
            self.show(slot, hint, TcpControl::Fin, tx);
        }
    }

    /// Shows a connection's socket a segment that its peer might have sent.
    fn show<T: Transmit>(&mut self, slot: u32, hint: Hint, control: TcpControl, tx: &mut T) {
        let name = self.flows.at(slot).tuple;
        let tcp = TcpRepr {
            src_port: name.remote_port,
            dst_port: name.local_port,
            control,
            seq_number: TcpSeqNumber(hint.seq as i32),
            ack_number: Some(TcpSeqNumber(hint.ack as i32)),
            window_len: hint.window,
            window_scale: None,
            max_seg_size: None,
            sack_permitted: false,
            sack_ranges: [None; 3],
            timestamp: None,
            payload: &[],
        };
        let ip = Ipv4Repr {
            src_addr: name.remote,
            dst_addr: name.local,
            next_header: IpProtocol::Tcp,
            payload_len: tcp.buffer_len(),
            hop_limit: 64,
        };
        let ethernet = EthernetRepr {
            // Nobody's: it must not freshen the peer's entry.
            src_addr: EthernetAddress([0; 6]),
            dst_addr: EthernetAddress(self.station.mac.0),
            ethertype: EthernetProtocol::Ipv4,
        };
        let mut frame = [0; HEADERS];
        ethernet.emit(&mut EthernetFrame::new_unchecked(&mut frame[..]));
        let packet = &mut frame[ETHERNET_HEADER..];
        let ignored = ChecksumCapabilities::ignored();
        ip.emit(&mut Ipv4Packet::new_unchecked(&mut *packet), &ignored);
        tcp.emit(
            &mut TcpPacket::new_unchecked(&mut packet[IPV4_HEADER..]),
            &ip.src_addr.into(),
            &ip.dst_addr.into(),
            &ignored,
        );
        self.process(Set::Flow(slot), &frame, tx);
    }
}
