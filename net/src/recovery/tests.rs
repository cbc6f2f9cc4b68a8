use alloc::vec::Vec;

use proptest::prelude::*;
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{IpProtocol, TcpControl, TcpPacket, TcpRepr, TcpSeqNumber};
use uniperf_drivers::nic::{RxChecksum, RxFrame};

use super::*;
use crate::frame::{Kind, Station, TcpFlags};
use crate::testing::frames::{OUR_IP, PEER_IP, ipv4};
use crate::testing::nic::OUR_MAC;

const MSS: usize = 1000;
const OURS: u32 = 0xffff_f000;
const THEIRS: u32 = 7;
const SHIFT: u8 = 3;
const ACK: TcpFlags = TcpFlags(0x10);
const SYN_ACK: TcpFlags = TcpFlags(0x12);

/// A segment from the peer.
fn from_peer(change: impl FnOnce(&mut TcpRepr<'_>)) -> Vec<u8> {
    let mut repr = TcpRepr {
        src_port: 1,
        dst_port: 2,
        control: TcpControl::None,
        seq_number: TcpSeqNumber(THEIRS as i32 + 1),
        ack_number: Some(TcpSeqNumber(OURS as i32 + 1)),
        window_len: 8000,
        window_scale: None,
        max_seg_size: None,
        sack_permitted: false,
        sack_ranges: [None; 3],
        timestamp: None,
        payload: &[],
    };
    change(&mut repr);
    ipv4(PEER_IP, IpProtocol::Tcp, repr.buffer_len(), |buffer| {
        repr.emit(
            &mut TcpPacket::new_unchecked(buffer),
            &PEER_IP.into(),
            &OUR_IP.into(),
            &ChecksumCapabilities::default(),
        );
    })
}

fn hear(recovery: &mut Recovery, frame: &[u8], now: u64) -> Heard {
    let station = Station {
        mac: OUR_MAC,
        longest: 2000,
    };
    let frame = RxFrame {
        bytes: frame,
        checksum: RxChecksum::Good,
    };
    let Ok(Kind::Tcp(segment)) = station.look(&frame) else {
        panic!("it is TCP");
    };
    recovery.hear(&segment, frame.bytes, now)
}

fn send(recovery: &mut Recovery, from: u32, len: u32, flags: TcpFlags, now: u64) {
    let seq = OURS.wrapping_add(from);
    let sent = Sent {
        seq,
        end: seq.wrapping_add(len),
        ack: THEIRS + 1,
        window: 60_000,
        flags,
        shift: 0,
    };
    recovery.sent(&sent, now);
}

/// After a handshake with a peer that reports what it holds, if `sack`.
fn established(sack: bool) -> Recovery {
    let mut recovery = Recovery::new(MSS);
    let syn = from_peer(|repr| {
        repr.control = TcpControl::Syn;
        repr.seq_number = TcpSeqNumber(THEIRS as i32);
        repr.ack_number = None;
        repr.window_scale = Some(SHIFT);
        repr.max_seg_size = Some(1460);
        repr.sack_permitted = sack;
    });
    assert_eq!(hear(&mut recovery, &syn, 0), Heard::News);
    send(&mut recovery, 0, 1, SYN_ACK, 0);
    assert_eq!(
        hear(&mut recovery, &from_peer(|_| {}), MILLISECOND),
        Heard::News
    );
    recovery
}

const MILLISECOND: u64 = 1_000_000;

/// Acknowledges `ack` bytes and reports a block.
fn report(ack: u32, block: (u32, u32)) -> Vec<u8> {
    let at = |byte: u32| OURS.wrapping_add(1).wrapping_add(byte);
    from_peer(|repr| {
        repr.ack_number = Some(TcpSeqNumber(at(ack) as i32));
        repr.sack_ranges[0] = Some((at(block.0), at(block.1)));
    })
}

#[test]
fn three_later_segments_make_a_loss_at_once_and_fewer_after_a_while() {
    let mut recovery = established(true);
    send(&mut recovery, 1, 5000, ACK, 10 * MILLISECOND);
    assert_eq!(
        hear(&mut recovery, &report(0, (1000, 3000)), 11 * MILLISECOND),
        Heard::Known
    );
    assert_eq!(recovery.take_wanted(), Wanted::Nothing);
    let mut waiting = established(true);
    core::mem::swap(&mut waiting, &mut recovery);
    send(&mut recovery, 1, 5000, ACK, 10 * MILLISECOND);
    hear(&mut recovery, &report(0, (1000, 4000)), 11 * MILLISECOND);
    assert_eq!(recovery.take_wanted(), Wanted::Repeat);

    let at = waiting.deadline(u64::MAX / 2).unwrap();
    assert_eq!(at, 12 * MILLISECOND);
    assert!(!waiting.run_timers(at, u64::MAX / 2));
    assert_eq!(waiting.take_wanted(), Wanted::Repeat);
}

#[test]
fn a_peer_without_sack_is_believed_after_three_duplicates() {
    let mut recovery = established(false);
    send(&mut recovery, 1, 5000, ACK, 10 * MILLISECOND);
    let duplicate = from_peer(|_| {});
    for _ in 0..2 {
        hear(&mut recovery, &duplicate, 11 * MILLISECOND);
        assert_eq!(recovery.take_wanted(), Wanted::Nothing);
    }
    hear(&mut recovery, &duplicate, 11 * MILLISECOND);
    assert_eq!(recovery.take_wanted(), Wanted::Repeat);
    // Further ones say nothing new.
    for _ in 0..100 {
        send(&mut recovery, 1, 1000, ACK, 11 * MILLISECOND);
        hear(&mut recovery, &duplicate, 12 * MILLISECOND);
        assert_eq!(recovery.take_wanted(), Wanted::Nothing);
    }
}

#[test]
fn acknowledgements_from_outside_the_window_say_nothing() {
    let mut recovery = established(true);
    send(&mut recovery, 1, 5000, ACK, 10 * MILLISECOND);
    for (seq, ack) in [
        (-1, 3000),
        (100_000, 3000),
        (0, 5001),
        (0, -1),
        (0, 1 << 30),
    ] {
        let frame = from_peer(|repr| {
            repr.seq_number = TcpSeqNumber(THEIRS as i32 + 1 + seq);
            repr.ack_number = Some(TcpSeqNumber((OURS as i32 + 1).wrapping_add(ack)));
            repr.sack_ranges[0] = Some((OURS.wrapping_add(2001), OURS.wrapping_add(5001)));
        });
        assert_eq!(hear(&mut recovery, &frame, 11 * MILLISECOND), Heard::News);
        assert_eq!(recovery.in_flight(), 5000);
        assert!(recovery.held.is_empty());
    }
}

#[derive(Clone, Debug)]
enum Step {
    Send(u32),
    SendAgain(u32),
    Hear {
        ack: u32,
        blocks: [(u32, u32); 3],
        window: u16,
    },
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let near = || prop_oneof![(0u32..40).prop_map(|n| n * 500), any::<u32>()];
    let block = move || (near(), near());
    prop_oneof![
        (1u32..8000).prop_map(Step::Send),
        (1u32..3000).prop_map(Step::SendAgain),
        (
            near(),
            [block(), block(), block()],
            prop_oneof![Just(0), Just(8000), any::<u16>()]
        )
            .prop_map(|(ack, blocks, window)| Step::Hear {
                ack,
                blocks,
                window
            }),
        (0u64..300).prop_map(Step::Wait),
    ]
}

proptest! {
    /// Whatever the peer says, the books stay in order; what is wanted is wanted a
    /// bounded number of times, and smoltcp is never told more than the peer said.
    #[test]
    fn a_hostile_peer_leaves_the_books_in_order(
        sack in any::<bool>(),
        steps in proptest::collection::vec(step(), 0..80),
    ) {
        let mut recovery = established(sack);
        let mut now = 10 * MILLISECOND;
        let (mut heard, mut wanted) = (0, 0);
        for step in steps {
            match step {
                Step::Send(len) => {
                    let from = recovery.nxt.wrapping_sub(OURS);
                    send(&mut recovery, from, len, ACK, now);
                }
                Step::SendAgain(len) => {
                    let from = recovery.una.wrapping_sub(OURS);
                    let len = len.min(recovery.in_flight());
                    send(&mut recovery, from, len, ACK, now);
                }
                Step::Hear { ack, blocks, window } => {
                    heard += 1;
                    let frame = from_peer(|repr| {
                        let at = |byte: u32| OURS.wrapping_add(1).wrapping_add(byte);
                        repr.ack_number = Some(TcpSeqNumber(at(ack) as i32));
                        repr.sack_ranges = blocks.map(|(left, right)| Some((at(left), at(right))));
                        repr.window_len = window;
                    });
                    hear(&mut recovery, &frame, now);
                }
                Step::Wait(milliseconds) => {
                    now += milliseconds * MILLISECOND;
                    let patience = u64::MAX / 2;
                    heard += u32::from(recovery.deadline(patience).is_some_and(|at| at <= now));
                    recovery.run_timers(now, patience);
                }
            }
            match recovery.take_wanted() {
                Wanted::Nothing => {}
                Wanted::Repeat => {
                    wanted += 1;
                    recovery.repeat();
                }
                Wanted::Rewind => wanted += 1,
            }
            prop_assert!(wanted <= heard);
            if let Some(hint) = recovery.take_limit(100_000) {
                prop_assert!(u32::from(hint.window) << SHIFT <= recovery.window.max(1 << SHIFT));
                prop_assert_eq!(hint.ack, recovery.una);
            }
            prop_assert!(!before(recovery.cursor, recovery.una));
            prop_assert!(!before(recovery.nxt, recovery.cursor));
            prop_assert!(recovery.bytes_held() <= recovery.in_flight());
            prop_assert!(recovery.congestion.window() >= recovery.mss);
        }
    }
}
