//! Joining received segments (generic receive offload): neighbours of one flow
//! that came in one poll go through TCP as one long segment.
//!
//! A segment is joined to the one before only if nothing about it is odd: no
//! options, no flags but ACK and PSH, the next sequence number, and the same
//! acknowledgement and window. PSH ends a run, and so does the end of the poll, so
//! nothing waits for what may never come. What TCP does then is what it would
//! have done, but for acknowledging once what it might have acknowledged several
//! times, as RFC 9293 section 3.8.6.3 allows.

use alloc::vec::Vec;

use crate::frame::{ETHERNET_HEADER, IPV4_HEADER, TCP_HEADER, TcpFlags, TcpFrame};

const HEADERS: usize = ETHERNET_HEADER + IPV4_HEADER + TCP_HEADER;
/// Where fields are in a frame without IP options.
const IP_TOTAL_LENGTH: usize = ETHERNET_HEADER + 2;
const TCP_FLAGS: usize = ETHERNET_HEADER + IPV4_HEADER + 13;
const TCP_WINDOW: core::ops::Range<usize> = ETHERNET_HEADER + IPV4_HEADER + 14..HEADERS - 4;

/// An IPv4 packet's length is 16 bits.
const LONGEST: usize = ETHERNET_HEADER + 65535;
/// Segments with less payload are not the start of a run: a request is to reach
/// its service without a copy.
const SMALLEST_START: usize = 512;
/// Flows whose segments are joined at a time.
const PLACES: usize = 8;

/// A run of segments, joined.
#[derive(Default)]
struct Run {
    /// Headers and payload; room for [`LONGEST`] once it was used.
    buffer: Vec<u8>,
    /// Bytes used; 0 where there is no run.
    len: usize,
    /// The flow's slot.
    flow: u32,
    /// The joined segment.
    segment: Option<TcpFrame>,
    frames: u32,
}

/// What became of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// It is part of its flow's run.
    Taken,
    /// It is, and it is the last: the run is to be delivered.
    TakenLast,
    /// It is to be delivered by itself, after its flow's run.
    Refused,
}

/// Runs that wait for their next segment or the end of the poll.
pub struct Gro {
    enabled: bool,
    runs: [Run; PLACES],
    /// How many of them are in use.
    used: usize,
}

/// A run that is to be delivered.
pub struct Joined {
    /// The flow's slot.
    pub flow: u32,
    /// What the segment is.
    pub segment: TcpFrame,
    /// The frame; to be given back by [`Gro::recycle`].
    pub frame: Vec<u8>,
    /// Bytes of the frame.
    pub len: usize,
    /// How many frames were joined.
    pub frames: u32,
}

impl Gro {
    /// Joins segments if `enabled`, and refuses all otherwise.
    pub fn new(enabled: bool) -> Self {
        Self {
            enabled,
            runs: Default::default(),
            used: 0,
        }
    }

    /// Whether a run waits.
    #[inline]
    pub fn has_runs(&self) -> bool {
        self.used > 0
    }

    /// Whether an offer of a segment is sure to be refused, and no run waits that
    /// would have to go before it.
    #[inline]
    pub fn has_no_use_for(&self, frame: &[u8]) -> bool {
        self.used == 0 && frame.len() < HEADERS + SMALLEST_START
    }

    /// The run that stands in the way of a segment of `flow`: one of another
    /// flow in the same place. It is to be delivered first.
    pub fn in_the_way(&mut self, flow: u32) -> Option<Joined> {
        let run = &self.runs[flow as usize % PLACES];
        (run.len > 0 && run.flow != flow).then(|| self.take(flow as usize % PLACES))?
    }

    /// Offers a sound segment of `flow`, whose place must be free or its own.
    pub fn offer(&mut self, flow: u32, segment: &TcpFrame, frame: &[u8]) -> Offer {
        let Some(payload) = self.payload(segment, frame) else {
            return Offer::Refused;
        };
        let run = &mut self.runs[flow as usize % PLACES];
        let taken = if run.len == 0 {
            payload.len() >= SMALLEST_START
                && !segment.flags.pushes()
                && run.start(flow, segment, frame, payload)
        } else {
            run.join(segment, frame, payload)
        };
        match taken {
            false => Offer::Refused,
            true if run.frames == 1 => {
                self.used += 1;
                Offer::Taken
            }
            true if segment.flags.pushes() || run.len + payload.len() > LONGEST => Offer::TakenLast,
            true => Offer::Taken,
        }
    }

    /// The payload of a segment that is not odd.
    fn payload<'a>(&self, segment: &TcpFrame, frame: &'a [u8]) -> Option<&'a [u8]> {
        let plain = self.enabled
            && segment.flags.only_acknowledges()
            && frame[ETHERNET_HEADER] == 0x45
            && frame[TCP_FLAGS - 1] >> 4 == 5;
        let end = ETHERNET_HEADER + usize::from(be16(frame, IP_TOTAL_LENGTH));
        plain
            .then(|| frame.get(HEADERS..end))
            .flatten()
            .filter(|payload| !payload.is_empty())
    }

    /// Takes the run of `flow`, if it has one.
    pub fn take_of(&mut self, flow: u32) -> Option<Joined> {
        let place = flow as usize % PLACES;
        (self.runs[place].len > 0 && self.runs[place].flow == flow).then(|| self.take(place))?
    }

    /// Takes any run.
    pub fn take_any(&mut self) -> Option<Joined> {
        let place = self.runs.iter().position(|run| run.len > 0)?;
        self.take(place)
    }

    fn take(&mut self, place: usize) -> Option<Joined> {
        let run = &mut self.runs[place];
        self.used -= 1;
        let len = core::mem::take(&mut run.len);
        let segment = run.segment.take()?;
        let mut frame = core::mem::take(&mut run.buffer);
        let total = (len - ETHERNET_HEADER) as u16;
        frame[IP_TOTAL_LENGTH..][..2].copy_from_slice(&total.to_be_bytes());
        frame[TCP_FLAGS] = segment.flags.0;
        Some(Joined {
            flow: run.flow,
            segment,
            frame,
            len,
            frames: run.frames,
        })
    }

    /// Takes a frame's buffer back.
    pub fn recycle(&mut self, joined: Joined) {
        self.runs[joined.flow as usize % PLACES].buffer = joined.frame;
    }
}

impl Run {
    fn start(&mut self, flow: u32, segment: &TcpFrame, frame: &[u8], payload: &[u8]) -> bool {
        if self.buffer.is_empty() {
            self.buffer.resize(LONGEST, 0);
        }
        self.len = HEADERS + payload.len();
        self.buffer[..self.len].copy_from_slice(&frame[..self.len]);
        self.flow = flow;
        self.segment = Some(*segment);
        self.frames = 1;
        true
    }

    fn join(&mut self, segment: &TcpFrame, frame: &[u8], payload: &[u8]) -> bool {
        let Some(before) = &mut self.segment else {
            return false;
        };
        let follows = segment.seq == before.end
            && segment.ack == before.ack
            && frame[TCP_WINDOW] == self.buffer[TCP_WINDOW]
            && self.len + payload.len() <= LONGEST;
        if follows {
            self.buffer[self.len..][..payload.len()].copy_from_slice(payload);
            self.len += payload.len();
            before.end = segment.end;
            before.flags = TcpFlags(before.flags.0 | segment.flags.0);
            self.frames += 1;
        }
        follows
    }
}

fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Tuple;
    use proptest::prelude::*;

    const ACK: u8 = 0x10;
    const PSH: u8 = 0x08;
    const FIN: u8 = 0x01;

    #[derive(Clone, Debug)]
    struct Segment {
        flow: u32,
        seq: u32,
        ack: u32,
        flags: u8,
        window: u16,
        options: bool,
        payload: usize,
    }

    impl Segment {
        fn frame(&self) -> Vec<u8> {
            let options = if self.options { 12 } else { 0 };
            let mut frame = alloc::vec![0; HEADERS + options];
            frame[ETHERNET_HEADER] = 0x45;
            let total = frame.len() - ETHERNET_HEADER + self.payload;
            frame[IP_TOTAL_LENGTH..][..2].copy_from_slice(&(total as u16).to_be_bytes());
            frame[TCP_FLAGS - 1] = ((20 + options) as u8 / 4) << 4;
            frame[TCP_FLAGS] = self.flags;
            frame[TCP_WINDOW].copy_from_slice(&self.window.to_be_bytes());
            frame.extend((0..self.payload).map(|at| (self.seq as usize + at) as u8));
            // Ethernet's padding is no payload.
            frame.resize(frame.len().max(60), 0xee);
            frame
        }

        fn look(&self) -> TcpFrame {
            let fin = u32::from(self.flags & FIN);
            TcpFrame {
                tuple: Tuple::NONE,
                flags: TcpFlags(self.flags),
                seq: self.seq,
                end: self.seq.wrapping_add(self.payload as u32).wrapping_add(fin),
                ack: self.ack,
            }
        }
    }

    /// What is delivered: the flow, the sequence number, and the payload.
    type Delivered = Vec<(u32, u32, Vec<u8>)>;

    fn deliver(gro: &mut Gro, segment: &Segment, out: &mut Delivered) {
        let take = |gro: &mut Gro, joined: Joined, out: &mut Delivered| {
            let end = ETHERNET_HEADER + usize::from(be16(&joined.frame, IP_TOTAL_LENGTH));
            assert_eq!(end, joined.len);
            assert_eq!(joined.frame[TCP_FLAGS], joined.segment.flags.0);
            let payload = joined.frame[HEADERS..end].to_vec();
            let end = joined.segment.seq.wrapping_add(payload.len() as u32);
            assert_eq!(joined.segment.end, end);
            out.push((joined.flow, joined.segment.seq, payload));
            gro.recycle(joined);
        };
        if let Some(other) = gro.in_the_way(segment.flow) {
            take(gro, other, out);
        }
        let frame = segment.frame();
        let offer = gro.offer(segment.flow, &segment.look(), &frame);
        if offer != Offer::Taken
            && let Some(joined) = gro.take_of(segment.flow)
        {
            take(gro, joined, out);
        }
        if offer == Offer::Refused {
            let start = if segment.options {
                HEADERS + 12
            } else {
                HEADERS
            };
            let payload = frame[start..start + segment.payload].to_vec();
            out.push((segment.flow, segment.seq, payload));
        }
    }

    fn drain(gro: &mut Gro, out: &mut Delivered) {
        while let Some(joined) = gro.take_any() {
            let payload = joined.frame[HEADERS..joined.len].to_vec();
            out.push((joined.flow, joined.segment.seq, payload));
            gro.recycle(joined);
        }
        assert!(!gro.has_runs());
    }

    fn run(segments: &[Segment]) -> Delivered {
        let (mut gro, mut out) = (Gro::new(true), Vec::new());
        for segment in segments {
            deliver(&mut gro, segment, &mut out);
        }
        drain(&mut gro, &mut out);
        out
    }

    fn full(seq: u32) -> Segment {
        Segment {
            flow: 3,
            seq,
            ack: 7,
            flags: ACK,
            window: 100,
            options: false,
            payload: 1460,
        }
    }

    #[test]
    fn neighbours_are_joined_across_the_sequence_wrap() {
        let start = u32::MAX - 2000;
        let segments: Vec<_> = (0..4).map(|n| full(start.wrapping_add(n * 1460))).collect();
        let out = run(&segments);
        assert_eq!(out.len(), 1);
        assert_eq!((out[0].1, out[0].2.len()), (start, 4 * 1460));
    }

    #[test]
    fn what_is_odd_is_not_joined() {
        let next = full(1460);
        for odd in [
            Segment {
                seq: 1461,
                ..next.clone()
            },
            Segment {
                seq: 0,
                ..next.clone()
            },
            Segment {
                ack: 8,
                ..next.clone()
            },
            Segment {
                window: 99,
                ..next.clone()
            },
            Segment {
                flags: ACK | FIN,
                ..next.clone()
            },
            Segment {
                flags: ACK | 0x20,
                ..next.clone()
            },
            Segment {
                options: true,
                ..next.clone()
            },
            Segment {
                payload: 0,
                ..next.clone()
            },
        ] {
            assert_eq!(run(&[full(0), odd.clone()]).len(), 2, "{odd:?}");
        }
        assert_eq!(run(&[full(0), next]).len(), 1);
    }

    #[test]
    fn a_pushed_segment_ends_its_run_at_once() {
        let (mut gro, mut out) = (Gro::new(true), Vec::new());
        deliver(&mut gro, &full(0), &mut out);
        let pushed = Segment {
            flags: ACK | PSH,
            payload: 100,
            ..full(1460)
        };
        deliver(&mut gro, &pushed, &mut out);
        assert!(!gro.has_runs());
        assert_eq!(out[0].2.len(), 1560);
    }

    #[test]
    fn a_request_goes_straight_through() {
        let mut gro = Gro::new(true);
        let request = Segment {
            payload: 1,
            ..full(0)
        };
        assert_eq!(
            gro.offer(3, &request.look(), &request.frame()),
            Offer::Refused
        );
        let pushed = Segment {
            flags: ACK | PSH,
            ..full(0)
        };
        assert_eq!(
            gro.offer(3, &pushed.look(), &pushed.frame()),
            Offer::Refused
        );
    }

    #[test]
    fn a_run_is_never_longer_than_a_packet() {
        let segments: Vec<_> = (0..100).map(|n| full(n * 1460)).collect();
        let out = run(&segments);
        assert!(out.len() >= 3);
        assert!(
            out.iter()
                .all(|(_, _, payload)| payload.len() + HEADERS <= LONGEST)
        );
    }

    proptest! {
        /// Each flow's bytes come out as they went in, in the same order.
        #[test]
        fn nothing_is_lost_or_swapped(
            steps in proptest::collection::vec(
                (0u32..12, 0u32..8, prop_oneof![Just(ACK), Just(ACK | PSH), Just(ACK | FIN)],
                 prop_oneof![Just(1460usize), 0usize..1461], any::<bool>()),
                1..150),
        ) {
            let mut next = [0u32; 12];
            let segments: Vec<Segment> = steps
                .into_iter()
                .map(|(flow, odd, flags, payload, end_here)| {
                    let seq = next[flow as usize];
                    next[flow as usize] = seq.wrapping_add(payload as u32 + u32::from(odd == 0));
                    Segment {
                        flow,
                        seq,
                        ack: u32::from(odd == 1),
                        flags: if end_here { flags } else { ACK },
                        window: u16::from(odd == 2),
                        options: odd == 3,
                        payload,
                    }
                })
                .collect();
            let out = run(&segments);
            for flow in 0..12 {
                let bytes = |delivered: &Delivered| -> Vec<u8> {
                    let of_flow = delivered.iter().filter(|(of, _, _)| *of == flow);
                    of_flow.flat_map(|(_, _, payload)| payload.clone()).collect()
                };
                let before: Delivered = segments
                    .iter()
                    .map(|s| {
                        let start = if s.options { HEADERS + 12 } else { HEADERS };
                        (s.flow, s.seq, s.frame()[start..start + s.payload].to_vec())
                    })
                    .collect();
                prop_assert_eq!(bytes(&out), bytes(&before));
            }
        }
    }
}
