//! What happened since the start, in 64-bit counters that are never reset.

/// Counts, each a named field; [`Counters::each`] names them all.
macro_rules! counters {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $field:ident: $label:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl $name {
            /// Visits every counter's name and value, in a fixed order.
            pub fn each(&self, visit: &mut dyn FnMut(&str, u64)) {
                $(visit($label, self.$field);)*
            }
        }
    };
}

counters! {
    /// The receive loop's counters.
    LoopCounters {
        /// Interrupts of the NIC.
        interrupts: "interrupts",
        /// Times that the receive ring was looked at.
        polls: "polls",
        /// Of these, the ones that found nothing.
        empty_polls: "polls.empty",
        /// Of these, the ones that found as many frames as they may handle.
        exhausted_polls: "polls.budget_exhausted",
        /// Frames that came between the unmasking of the interrupt and the
        /// second look at the ring.
        rechecks_hit: "polls.recheck_hit",
        /// Waits for an interrupt.
        waits: "waits",
        /// Times that the transmit ring was full with frames left to send.
        tx_ring_full: "tx.ring_full",
        /// Frames whose buffers came back from the NIC.
        tx_reclaimed: "tx.reclaimed",
        /// Times that the NIC had to be reset.
        nic_resets: "nic.resets",
        /// Interrupts that the NIC had raised and that never arrived.
        nic_lost_interrupts: "nic.lost_interrupts",
        /// Times that it had lost its access to memory and got it back.
        nic_cut_off: "nic.cut_off",
    }
}

counters! {
    /// The stack's counters.
    StackCounters {
        /// Frames received.
        rx_frames: "rx.frames",
        /// Bytes in them, without CRC.
        rx_bytes: "rx.bytes",
        /// Frames sent.
        tx_frames: "tx.frames",
        /// Bytes in them, without CRC.
        tx_bytes: "tx.bytes",
        /// Payload bytes of TCP and UDP in them.
        tx_payload: "tx.payload_bytes",
        /// Payload bytes that the CPU copied to send them: once each on the way
        /// from the page store to the NIC's buffer, and once more where software
        /// cuts a super-segment.
        tx_copied: "tx.copied_bytes",
        /// Received segments that were joined with a neighbour.
        rx_joined: "rx.joined",
        /// The long segments that were made of them.
        rx_joined_runs: "rx.joined_runs",
        /// TCP super-segments sent; each is one frame in `tx.frames`.
        tx_super_segments: "tx.super_segments",
        /// Of these, the ones that software had to cut.
        tx_cut_by_software: "tx.cut_by_software",
        /// IP fragments received.
        rx_fragments: "rx.fragments",
        /// Datagrams put together from fragments.
        reassembled: "rx.reassembled",
        /// Connections accepted.
        accepted: "tcp.accepted",
        /// Connections that ended with both sides closing.
        closed: "tcp.closed",
        /// Connections that were reset, or fell silent.
        broken: "tcp.broken",
        /// Handshakes that were not finished in time.
        half_open_timeouts: "tcp.half_open_timeout",
        /// Handshakes that gave way to newer ones.
        half_open_evicted: "tcp.half_open_evicted",
        /// SYNs whose sender was asked to prove its address, as many handshakes went on.
        doubted: "tcp.syn_doubted",
        /// Resets and SYNs amid connections that were answered with a question.
        challenges: "tcp.challenges",
        /// Connections refused because all sockets were taken.
        refused: "tcp.refused",
        /// Segments sent again because they were lost, or to see whether they were.
        tcp_repeated: "tcp.repeated",
        /// Times that all was sent again that was not acknowledged: after a timeout,
        /// or where most of it was lost.
        tcp_rewound: "tcp.rewound",
        /// Routers' messages that a packet was too large, that were believed.
        path_mtu: "icmp.path_mtu",
        /// DHCP leases renewed.
        dhcp_renewals: "dhcp.renewals",
        /// Frames dropped: the NIC or the stack found a wrong checksum.
        drop_checksum: "drop.checksum",
        /// Frames dropped: too short for what they claim to be.
        drop_truncated: "drop.truncated",
        /// Frames dropped: longer than the MTU allows.
        drop_oversized: "drop.oversized",
        /// Frames dropped: headers that contradict themselves.
        drop_malformed: "drop.malformed",
        /// Frames dropped: to another station.
        drop_not_ours: "drop.not_ours",
        /// Frames dropped: neither IPv4 nor ARP.
        drop_protocol: "drop.protocol",
        /// Datagrams dropped: the socket's buffer was full.
        drop_udp_full: "drop.udp_buffer_full",
        /// UDP sockets' queues dropped: nobody has the address of the first
        /// datagram's receiver.
        drop_unresolved: "drop.unresolved",
        /// Datagrams dropped: there is no way to their receiver.
        drop_no_route: "drop.no_route",
        /// Datagrams dropped: nobody listens, and enough senders were told.
        drop_udp_no_port: "drop.udp_no_port",
        /// Packets dropped: their protocol is not known here, and enough senders
        /// were told.
        drop_no_protocol: "drop.ip_no_protocol",
        /// Datagrams dropped: fragments overlap, or do not fit together.
        drop_fragments: "drop.fragments_bad",
        /// Incomplete datagrams dropped: the rest did not come in time.
        drop_reassembly_timeout: "drop.reassembly_timeout",
        /// Incomplete datagrams dropped: newer ones needed the room.
        drop_reassembly_evicted: "drop.reassembly_evicted",
        /// Such messages dropped: they are about nothing that was sent.
        drop_path_mtu: "drop.icmp_path_mtu",
        /// Answers dropped: the transmit ring was full.
        drop_tx_full: "drop.tx_full",
        /// Frames dropped: the NIC cannot send them at all.
        drop_tx_unsupported: "drop.tx_unsupported",
    }
}
