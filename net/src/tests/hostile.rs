use alloc::vec::Vec;

use proptest::prelude::*;
use smoltcp::wire::TcpControl;

use crate::config::{AddressConfig, Config};
use crate::testing::bench::{SECOND, static_config};
use crate::testing::dhcp::DhcpServer;
use crate::testing::services::PORT;
use crate::testing::*;

/// Long enough for every patience to end.
const LONG: u64 = 90 * SECOND;

fn settles(bench: &mut Bench, rest: &[(alloc::string::String, u64)]) {
    bench.run(LONG);
    assert_eq!(bench.resting(), rest);
    let handle = bench.peer.connect(PORT);
    assert!(bench.run_until(5 * SECOND, |bench| bench.peer.tcp(handle).may_send()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn garbage_is_survived(frames in proptest::collection::vec(
        proptest::collection::vec(any::<u8>(), 0..200), 1..100))
    {
        let mut bench = Bench::new();
        let rest = bench.resting();
        for frame in frames {
            bench.inject(frame);
            bench.run(10_000);
        }
        settles(&mut bench, &rest);
    }

    /// Good frames with bytes changed, and the NIC swearing that all is well,
    /// so that the damage gets as deep as it can.
    #[test]
    fn damaged_frames_are_survived(
        which in proptest::collection::vec((0usize..6, 0usize..60, any::<u8>(), 0usize..80), 1..100),
        good in any::<bool>(),
    ) {
        let mut bench = Bench::new();
        let rest = bench.resting();
        if good {
            bench.hardware.verdict.set(uniperf_drivers::nic::RxChecksum::Good);
        }
        for (kind, at, value, keep) in which {
            let mut frame = match kind {
                0 => segment((PEER_IP, 1000 + u16::from(value % 4)), PORT, TcpControl::Syn, 5, None),
                1 => segment((PEER_IP, 1000), PORT, TcpControl::None, 6, Some(7)),
                2 => datagram(1000, PORT, b"payload"),
                3 => ping(1, b"0123456789"),
                4 => fragments(&datagram(1000, PORT, &[0; 64]), 3, 32).swap_remove(usize::from(value) % 3),
                _ => segment((PEER_IP, 1000), PORT, TcpControl::Fin, 6, Some(7)),
            };
            if at < frame.len() {
                frame[at] = value;
            }
            if keep > 14 {
                frame.truncate(keep);
            }
            bench.inject(frame);
            bench.run(10_000);
        }
        settles(&mut bench, &rest);
    }

    /// Segments of a live connection with numbers from all over the place.
    #[test]
    fn wild_segments_are_survived(
        steps in proptest::collection::vec(
            (0u8..5, -70_000i32..70_000, -70_000i32..70_000, any::<bool>(), 0usize..300, any::<u16>()),
            1..60),
    ) {
        let mut bench = Bench::new();
        let rest = bench.resting();
        bench.log.greeting.set(100_000);
        bench.introduce();
        // The peer's own stack is not to answer.
        bench.cut = true;
        bench.inject(segment((PEER_IP, 1000), PORT, TcpControl::Syn, 100, None));
        bench.run(SECOND / 100);
        let answer = bench.capture.iter().find_map(|f| as_tcp(f).map(|(_, s)| s.seq_number().0));
        let Some(ours) = answer else {
            panic!("no answer to a SYN");
        };
        let ours = ours.wrapping_add(1);
        bench.inject(segment((PEER_IP, 1000), PORT, TcpControl::None, 101, Some(ours)));
        for (kind, seq, ack, near, payload, window) in steps {
            let control = [TcpControl::None, TcpControl::Psh, TcpControl::Fin, TcpControl::Rst, TcpControl::Syn]
                [usize::from(kind)];
            let scale = if near { 64 } else { 1 };
            let seq = 101i32.wrapping_add(seq / scale);
            let ack = ours.wrapping_add(ack / scale);
            bench.inject(wild(control, seq, ack, payload, window));
            bench.run(1_000_000);
        }
        bench.cut = false;
        settles(&mut bench, &rest);
    }

    /// A DHCP server that says odd things.
    #[test]
    fn odd_dhcp_answers_are_survived(
        offers in any::<u32>(), router in any::<Option<u32>>(), seconds in any::<u32>(), wait in 1u64..5000)
    {
        let config = Config { address: AddressConfig::Dhcp, ..static_config() };
        let mut bench = Bench::with(&config);
        let mut server = DhcpServer::new(offers.into(), seconds);
        server.router = router.map(Into::into);
        bench.dhcp = Some(server);
        bench.run(SECOND);
        // A stranger behind the gateway, whom an answer must be sent to.
        bench.inject(ping(1, b"x"));
        bench.inject(segment(([192, 0, 2, 1].into(), 1000), PORT, TcpControl::Syn, 5, None));
        bench.run(wait * SECOND);
    }
}

/// A segment with a payload and any window.
fn wild(control: TcpControl, seq: i32, ack: i32, payload: usize, window: u16) -> Vec<u8> {
    use smoltcp::phy::ChecksumCapabilities;
    use smoltcp::wire::{IpProtocol, TcpPacket, TcpRepr, TcpSeqNumber};
    let data = alloc::vec![0x55; payload];
    let repr = TcpRepr {
        src_port: 1000,
        dst_port: PORT,
        control,
        seq_number: TcpSeqNumber(seq),
        ack_number: (control != TcpControl::Syn).then_some(TcpSeqNumber(ack)),
        window_len: window,
        window_scale: None,
        max_seg_size: None,
        sack_permitted: false,
        sack_ranges: [None; 3],
        timestamp: None,
        payload: &data,
    };
    ipv4(PEER_IP, IpProtocol::Tcp, repr.buffer_len(), |buffer| {
        repr.emit(
            &mut TcpPacket::new_unchecked(buffer),
            &PEER_IP.into(),
            &OUR_IP.into(),
            &ChecksumCapabilities::default(),
        );
    })
}
