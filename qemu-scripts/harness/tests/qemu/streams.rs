//! What streams carry, byte by byte, with each offload on and off.

use std::io::{Read, Write};
use std::net::TcpStream;

use uniperf_harness::client::{OwnTest, Plan, awaited_sequence, read_pattern, server};
use uniperf_harness::peers::Capture;

use crate::rig::{Rig, append};
use crate::wire::{is_nearly_once, station};

const MIB: u32 = 1 << 20;
const RESPONSE: u32 = 65536;
/// A stream that is to cross the wrap begins at most so far before it, less a part.
const ACROSS: u32 = 32 * MIB;
/// How often to connect until that is so; one in 137 is.
const MOST_ATTEMPTS: u32 = 3000;

/// Runs `task` where the appliance is reached.
fn near<T: Send>(rig: &Rig, task: impl FnOnce() -> T + Send) -> T {
    rig.appliance.network().enter(task).unwrap()
}

/// A test with its data connection.
fn open(rig: &Rig, plan: Plan) -> (OwnTest, TcpStream) {
    near(rig, || {
        let test = OwnTest::open(server(rig.ready.address), plan, None).unwrap();
        let data = test.connect().unwrap();
        (test, data)
    })
}

fn a_stream_is_right(rig: &Rig) {
    let (test, mut data) = open(rig, Plan::Send(32 * MIB));
    let (count, restarts) = read_pattern(&mut data, test.send_buffer, u64::MAX).unwrap();
    println!("a stream: {count} bytes, the buffer was empty {restarts} times");
    assert_eq!(count, u64::from(32 * MIB));
    test.results().unwrap();
}

fn long_responses_are_right(rig: &Rig) {
    let (test, mut data) = open(rig, Plan::Answer(RESPONSE));
    for _ in 0..100 {
        data.write_all(&[0; RESPONSE as usize]).unwrap();
        // The buffer is empty before each, and so it begins at its begin.
        let (count, restarts) =
            read_pattern(&mut data, RESPONSE as usize, RESPONSE.into()).unwrap();
        assert_eq!((count, restarts), (RESPONSE.into(), 0));
    }
    data.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(data.read(&mut [0; 1]).unwrap(), 0);
    test.results().unwrap();
}

/// Initial sequence numbers are random: connects until one is near the wrap.
fn a_stream_is_right_across_the_sequence_wrap(rig: &Rig) {
    let capture = Capture::start(rig.appliance.network()).unwrap();
    let (attempts, test, mut data) = (1..MOST_ATTEMPTS)
        .find_map(|attempt| {
            let (test, data) = open(rig, Plan::Send(ACROSS));
            let ahead = awaited_sequence(&data).unwrap().wrapping_neg();
            (ahead < ACROSS - MIB).then_some((attempt, test, data))
        })
        .expect("random sequence numbers");
    let (count, _) = read_pattern(&mut data, test.send_buffer, u64::MAX).unwrap();
    assert_eq!(count, u64::from(ACROSS));
    test.results().unwrap();
    let verdict = capture.finish().unwrap().judge(station()).unwrap();
    verdict.check().unwrap();
    let wrapped: Vec<_> = verdict
        .connections
        .iter()
        .filter(|c| c.wrapped > 0)
        .collect();
    let [connection] = wrapped[..] else {
        panic!("no super-segment has wrapped: {wrapped:?}");
    };
    println!("across the wrap, at attempt {attempts}: {connection:?}");
    assert_eq!(connection.sent, u64::from(ACROSS));
    is_nearly_once(&verdict);
}

/// Streams and long responses do.
pub fn carry_the_same_bytes(rig: &Rig) {
    a_stream_is_right(rig);
    long_responses_are_right(rig);
}

#[test]
fn the_same_bytes_come_whatever_the_offloads() {
    for arguments in [
        "",
        "tso=off",
        "csum=off",
        "gro=off",
        "tso=off csum=off gro=off",
    ] {
        println!("-- {arguments}");
        let rig = Rig::with(append(arguments));
        carry_the_same_bytes(&rig);
        a_stream_is_right_across_the_sequence_wrap(&rig);
        rig.end();
    }
}
