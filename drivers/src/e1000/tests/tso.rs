//! Super-segments: what the model's NIC cuts, what [`gso`] cuts, and a third
//! cut made here from scratch must be the same, byte by byte.

use proptest::prelude::*;

use super::super_segment::{ACK, Bench, CWR, FIN, MTU, PLAIN, PSH, Whole};
use super::*;
use crate::gso::{self, Cut};
use crate::nic::{Link, TSO_INLINE, TxError};

#[test]
fn flags_and_numbers_segment_by_segment() {
    let whole = Whole {
        flags: ACK | PSH | FIN,
        sequence: u32::MAX - 1447,
        identification: 0xffff,
        ..PLAIN
    };
    let mut bench = Bench::new(COPPER, false);
    let segments = whole.by_nic(&mut bench, whole.payload, &[]);
    let field = |range: std::ops::Range<usize>| -> Vec<u32> {
        let number = |segment: &Vec<u8>| {
            let bytes = segment[range.clone()].iter();
            bytes.fold(0, |value, byte| value << 8 | u32::from(*byte))
        };
        segments.iter().map(number).collect()
    };
    assert_eq!(field(38..42), [u32::MAX - 1447, 0, 1448, 2896], "sequence");
    assert_eq!(field(18..20), [0xffff, 0, 1, 2], "identification");
    let ack = u32::from(ACK);
    let last = u32::from(ACK | PSH | FIN);
    assert_eq!(field(47..48), [ack, ack, ack, last], "flags");
    assert_eq!(field(16..18), [1500, 1500, 1500, 52 + 656], "total length");
}

#[test]
fn congestion_window_reduced_is_said_once() {
    let whole = Whole {
        flags: ACK | CWR,
        ..PLAIN
    };
    let mut bench = Bench::new(COPPER, false);
    let flags: Vec<u8> = whole
        .by_software(&mut bench, false)
        .iter()
        .map(|s| s[47])
        .collect();
    assert_eq!(flags, [ACK | CWR, ACK, ACK, ACK]);
}

#[test]
fn what_each_part_can_cut() {
    for (device, v4, v6) in [
        (0x1004, false, false),
        (0x100c, true, false),
        (0x100e, true, false),
        (0x1079, true, false),
        (0x1076, true, false),
        (0x1075, false, false),
        (0x10d3, true, true),
    ] {
        let mut bench = Bench::new(device, false);
        let can = bench.nic.capabilities();
        assert_eq!((can.tso_v4, can.tso_v6), (v4, v6), "{device:#x}");
        assert_eq!(can.tso_max_bytes, if v4 { 65549 } else { 0 });
        for (ipv6, can) in [(false, v4), (true, v6)] {
            let whole = Whole {
                ipv6,
                mss: 1428,
                ..PLAIN
            };
            let (_, tx) = bench.nic.halves();
            let answer = tx.accepts(3000, &[], whole.offload());
            assert_eq!(answer.is_ok(), can, "{device:#x} {answer:?}");
        }
    }
}

#[test]
fn pci_express_does_not_cut_at_100_mbits() {
    let mut bench = Bench::new(0x10d3, false);
    for (mbps, can) in [(100, false), (1000, true)] {
        bench.hardware.set_link(Link::Down);
        bench.nic.service(Causes::LINK);
        bench.hardware.set_link(Link::Up {
            mbps,
            full_duplex: true,
        });
        bench.nic.service(Causes::LINK);
        let capabilities = *bench.nic.capabilities();
        assert_eq!((capabilities.tso_v4, capabilities.tso_v6), (can, can));
        assert_eq!(capabilities.tso_max_bytes > 0, can);
        let answer = bench.nic.halves().1.accepts(3000, &[], PLAIN.offload());
        assert_eq!(answer.is_ok(), can);
    }
}

#[test]
fn what_the_nic_cannot_cut_is_refused_and_costs_nothing() {
    let mut bench = Bench::new(COPPER, false);
    let slice = bench.region.slice(0..3000);
    let tso = |mss| Offload::Tso { ipv6: false, mss };
    let (_, tx) = bench.nic.halves();
    let free = tx.free();
    for (filled, payload, offload) in [
        (54, vec![], tso(1460)),
        (3000, vec![], tso(63)),
        (3000, vec![], tso(0)),
        (3000, vec![], tso(1461)),
        (65550, vec![], tso(1460)),
        (usize::MAX, vec![slice], tso(1460)),
        (54 + TSO_INLINE - 1, vec![slice], tso(1460)),
    ] {
        let sent = tx.send(filled, &payload, offload, |_| panic!("filled"));
        assert_eq!(sent, Err(TxError::Unsupported), "{filled} {offload:?}");
        assert_eq!(tx.accepts(filled, &payload, offload), sent);
        assert_eq!(tx.free(), free);
    }
    assert_eq!(tx.accepts(54 + TSO_INLINE, &[slice], tso(1460)), Ok(()));
    assert_eq!(tx.accepts(65549, &[], tso(64)), Ok(()));
}

#[test]
fn headers_that_do_not_add_up_do_no_harm() {
    let mut bench = Bench::new(0x10d3, false);
    for ipv6 in [false, true] {
        for payload in [500, 5000] {
            let whole = Whole {
                ipv6,
                payload,
                mss: 1428,
                ..PLAIN
            };
            let len = whole.headers().len() + payload;
            let (_, tx) = bench.nic.halves();
            for rubbish in [0x00, 0xff] {
                tx.send(len, &[], whole.offload(), |buffer| buffer.fill(rubbish))
                    .unwrap();
            }
            assert!(!bench.finish(2).is_empty());
        }
    }
}

#[test]
fn a_full_ring_loses_no_super_segment() {
    let whole = Whole {
        payload: 20_000,
        ..PLAIN
    };
    let frame = [whole.headers(), whole.payload()].concat();
    for (device, pci_x) in [(COPPER, false), (0x100c, true)] {
        let mut bench = Bench::with(
            device,
            pci_x,
            Config {
                rx_ring: 8,
                tx_ring: 64,
                mtu: 1500,
            },
        );
        let mut expected = Vec::new();
        for round in 0..40 {
            let (_, tx) = bench.nic.halves();
            let mut queued = 0;
            loop {
                let accepts = tx.accepts(frame.len(), &[], whole.offload());
                let sent = tx.send(frame.len(), &[], whole.offload(), |buffer| {
                    buffer.copy_from_slice(&frame);
                });
                assert_eq!(sent, accepts);
                match sent {
                    Ok(()) => queued += 1,
                    Err(error) => break assert_eq!(error, TxError::RingFull),
                }
            }
            assert!(queued > 0);
            // What room there is, is room for frames.
            for _ in 0..tx.free() {
                tx.send(
                    60,
                    &[],
                    Offload::Checksum {
                        start: 34,
                        offset: 50,
                    },
                    |_| (),
                )
                .unwrap();
            }
            for _ in 0..queued {
                expected.extend(whole.reference());
            }
            tx.flush();
            bench.hardware.transmit(usize::MAX);
            let (_, tx) = bench.nic.halves();
            tx.reclaim();
            assert_eq!(tx.free(), tx.capacity(), "round {round}");
        }
        let mut sent = std::mem::take(&mut bench.hardware.state().sent);
        sent.retain(|frame| frame.len() > 60);
        assert_eq!(sent, expected);
    }
}

#[test]
fn a_frame_behind_a_super_segment_has_a_sentinel() {
    let mut bench = Bench::new(COPPER, false);
    let frame = [PLAIN.headers(), PLAIN.payload()].concat();
    let (_, tx) = bench.nic.halves();
    let mut descriptors = Vec::new();
    for len in [frame.len(), 60, 60, frame.len(), 1514, frame.len()] {
        let offload = if len == frame.len() {
            PLAIN.offload()
        } else {
            Offload::None
        };
        tx.send(len, &[], offload, |buffer| {
            buffer.copy_from_slice(&frame[..len]);
        })
        .unwrap();
        tx.flush();
        // The model panics over a frame in one piece there.
        descriptors.push(bench.hardware.transmit(usize::MAX));
        assert_eq!(tx.reclaim(), 1);
    }
    assert_eq!(descriptors, [4, 2, 1, 4, 2, 4]);
}

#[test]
fn large_buffers_are_waited_for() {
    let mut bench = Bench::new(COPPER, false);
    let whole = Whole {
        payload: 3000,
        ..PLAIN
    };
    let len = whole.headers().len() + whole.payload;
    let queued = loop {
        let (_, tx) = bench.nic.halves();
        let before = tx.free();
        match tx.send(len, &[], whole.offload(), |buffer| {
            buffer.copy_from_slice(&[whole.headers(), whole.payload()].concat());
        }) {
            Ok(()) => assert!(tx.free() < before),
            Err(TxError::RingFull) => break tx.capacity() - before,
            Err(error) => panic!("{error:?}"),
        }
    };
    let (_, tx) = bench.nic.halves();
    assert!(tx.free() > 0, "frames still have room");
    assert_eq!(
        tx.accepts(1514, &[], whole.offload()),
        Ok(()),
        "so have short ones"
    );
    assert!(queued >= 32);
    assert_eq!(bench.finish(32).len(), 32 * 3);
}

#[test]
fn software_cuts_all_or_nothing() {
    let whole = Whole {
        payload: 1448 * 6,
        ..PLAIN
    };
    let frame = [whole.headers(), whole.payload()].concat();
    let mut bench = Bench::with(
        COPPER,
        false,
        Config {
            rx_ring: 8,
            tx_ring: 16,
            mtu: 1500,
        },
    );
    let (_, tx) = bench.nic.halves();
    assert_eq!(tx.capacity(), 7);
    for used in 0..=7 {
        for _ in 0..used {
            tx.send(60, &[], Offload::None, |_| ()).unwrap();
        }
        let free = tx.free();
        let sent = gso::send(tx, &frame, whole.cut(true));
        let expected = if used <= 1 {
            Ok(6)
        } else {
            Err(TxError::RingFull)
        };
        assert_eq!(sent, expected, "{used} in flight");
        if sent.is_err() {
            assert_eq!(tx.free(), free);
        }
        tx.flush();
        bench.hardware.transmit(usize::MAX);
        tx.reclaim();
    }
    let mut refuse = |frame: &[u8], cut| {
        assert_eq!(
            gso::send(tx, frame, cut),
            Err(TxError::Unsupported),
            "{cut:?}"
        );
    };
    let cut = whole.cut(false);
    refuse(&frame, Cut { mss: 1000, ..cut });
    refuse(&frame, Cut { mss: 0, ..cut });
    refuse(&frame, Cut { mss: 1449, ..cut });
    refuse(&frame, Cut { ipv6: true, ..cut });
    refuse(&frame[..66], cut);
    refuse(&frame[..50], cut);
    assert_eq!(tx.free(), 7);
}

fn whole() -> impl Strategy<Value = Whole> {
    let sequence = prop_oneof![any::<u32>(), (u32::MAX - 70_000)..=u32::MAX];
    let identification = prop_oneof![any::<u16>(), 0xffc0..=0xffff_u16];
    let payload = prop_oneof![1..3000usize, 1..65_000usize];
    let numbers = (sequence, identification, any::<u8>());
    let options = (0..=10usize, 0..=10usize);
    (
        any::<bool>(),
        options,
        numbers,
        payload,
        // At most what fits behind the longest IP and TCP headers.
        64..=(MTU - 60 - 60),
        0..8u8,
        any::<bool>(),
    )
        .prop_map(
            |(
                ipv6,
                (ip, tcp),
                (sequence, identification, seed),
                payload,
                mss,
                flags,
                whole_mss,
            )| {
                let ip_options = if ipv6 { 0 } else { ip * 4 };
                // Sometimes a multiple of the MSS.
                let payload = if whole_mss && payload > mss.into() {
                    payload - payload % usize::from(mss)
                } else {
                    payload
                };
                Whole {
                    ipv6,
                    ip_options,
                    tcp_options: tcp * 4,
                    flags: ACK | flags & 1 | (flags & 2) << 2 | (flags & 4) << 5,
                    sequence,
                    identification,
                    payload,
                    mss,
                    seed,
                }
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]
    #[test]
    fn hardware_software_and_reference_cut_alike(
        mut whole in whole(),
        device in prop::sample::select(vec![(COPPER, false), (0x100c, false), (0x100c, true), (0x1079, true), (0x10d3, false)]),
        inline in 0..4000usize,
        cuts in prop::collection::vec(0..9000usize, 0..6),
    ) {
        let (device, pci_x) = device;
        whole.ipv6 &= device == 0x10d3;
        let mut bench = Bench::new(device, pci_x);
        let expected = whole.reference();
        prop_assert_eq!(&whole.by_software(&mut bench, false), &expected);
        prop_assert_eq!(&whole.by_software(&mut bench, true), &expected);
        if whole.flags & CWR == 0 {
            prop_assert_eq!(&whole.by_nic(&mut bench, whole.payload, &[]), &expected);
            let inline = (TSO_INLINE + inline).min(whole.payload);
            prop_assert_eq!(&whole.by_nic(&mut bench, inline, &cuts), &expected);
        }
    }

    /// `free` frames can be queued behind any mix of frames and super-segments,
    /// and whatever `accepts` accepts.
    #[test]
    fn room_is_never_overstated(
        device in prop::sample::select(vec![(COPPER, false), (0x100c, true), (0x1079, true)]),
        eights in 1..9usize,
        mix in prop::collection::vec(prop_oneof![Just(0), 66..25_000usize], 0..40),
        mtu in prop::sample::select(vec![1500, 9000]),
    ) {
        let (device, pci_x) = device;
        let mut bench = Bench::with(device, pci_x, Config {
            rx_ring: 8,
            tx_ring: eights * 8,
            mtu,
        });
        let (_, tx) = bench.nic.halves();
        for len in mix {
            let (len, offload) = match len {
                0 => (mtu + 14, Offload::None),
                len => (len, PLAIN.offload()),
            };
            let accepts = tx.accepts(len, &[], offload);
            let sent = tx.send(len, &[], offload, |buffer| buffer.fill(0x45));
            prop_assert_eq!(sent, accepts);
        }
        for number in 0..tx.free() {
            let offset = if number % 2 == 0 { 40 } else { 50 };
            let offload = Offload::Checksum { start: 34, offset };
            prop_assert_eq!(tx.send(mtu + 14, &[], offload, |_| ()), Ok(()));
        }
        tx.flush();
        bench.hardware.transmit(usize::MAX);
        tx.reclaim();
        prop_assert_eq!(tx.free(), tx.capacity());
    }
}
