//! netperf's control messages, as far as tests of requests and responses need them;
//! see docs/netperf.md for the offsets.

use std::time::Duration;

use anyhow::{Result, ensure};

/// Bytes of every message.
pub const LEN: usize = 656;
const OMNI: i32 = 97;
const OMNI_RESPONSE: i32 = 98;
const OMNI_RESULTS: i32 = 99;
/// How much longer the server waits for requests than they come, in seconds.
const MARGIN: i32 = 2;

/// What a test's data goes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP, from this port of ours.
    Udp(u16),
}

/// Asks for a test with requests and responses of `bytes` bytes.
pub fn request(transport: Transport, bytes: usize, length: Duration) -> [u8; LEN] {
    let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
    let seconds = i32::try_from(length.as_secs()).unwrap_or(i32::MAX - MARGIN);
    let (socket, protocol, port) = match transport {
        Transport::Tcp => (1, 6, 0),
        Transport::Udp(port) => (2, 17, port),
    };
    let mut message = [0; LEN];
    let mut put = |at: usize, value: i32| {
        message[at..at + 4].copy_from_slice(&value.to_be_bytes());
    };
    put(0, OMNI);
    // Any CPU, and the server's own buffer sizes.
    for at in [4, 8, 12, 32, 36] {
        put(at, -1);
    }
    // Alignment and number of its buffers, to send from and to receive to.
    for (alignment, width) in [(16, 24), (40, 48)] {
        put(alignment, 8);
        put(width, 1);
    }
    put(28, bytes);
    put(52, bytes);
    put(64, seconds + MARGIN);
    // IPv4, both directions, and our port.
    put(92, 4);
    put(96, socket);
    put(100, protocol);
    put(104, 2 | 4);
    put(108, port.into());
    message
}

/// The port that the server has opened.
pub fn data_port(answer: &[u8; LEN]) -> Result<u16> {
    check(answer, OMNI_RESPONSE)?;
    Ok(u16::try_from(word(answer, 52))?)
}

/// The transactions that the server has counted, from its results.
pub fn transactions(results: &[u8; LEN]) -> Result<u64> {
    // netserver swaps the type's bytes once too often.
    let mut results = *results;
    if word(&results, 0) == OMNI_RESULTS.swap_bytes() {
        results[..4].reverse();
    }
    check(&results, OMNI_RESULTS)?;
    Ok(u64::try_from(word(&results, 44))?)
}

fn check(answer: &[u8; LEN], expected: i32) -> Result<()> {
    let (kind, error) = (word(answer, 0), word(answer, 4));
    ensure!(
        kind == expected && error == 0,
        "netserver refuses: message {kind} with error {error}"
    );
    Ok(())
}

fn word(message: &[u8; LEN], at: usize) -> i32 {
    i32::from_be_bytes(std::array::from_fn(|n| message[at + n]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_netperfs() {
        let length = Duration::from_secs(5);
        let udp = request(Transport::Udp(4660), 100, length);
        assert_eq!(udp[..4], [0, 0, 0, 97]);
        assert_eq!(udp[28..32], [0, 0, 0, 100]);
        assert_eq!(udp[64..68], [0, 0, 0, 7]);
        assert_eq!(udp[96..104], [0, 0, 0, 2, 0, 0, 0, 17]);
        assert_eq!(udp[104..112], [0, 0, 0, 6, 0, 0, 0x12, 0x34]);
        let tcp = request(Transport::Tcp, 1, length);
        assert_eq!(tcp[96..104], [0, 0, 0, 1, 0, 0, 0, 6]);
        assert_eq!(tcp[104..112], [0, 0, 0, 6, 0, 0, 0, 0]);
    }

    #[test]
    fn answers_are_read_and_refusals_told() {
        let mut answer = [0; LEN];
        assert!(data_port(&answer).is_err());
        answer[3] = 98;
        answer[54..56].copy_from_slice(&12866_u16.to_be_bytes());
        assert_eq!(data_port(&answer).unwrap(), 12866);
        answer[7] = 22;
        let error = data_port(&answer).unwrap_err();
        assert!(error.to_string().contains("error 22"), "{error}");
    }

    #[test]
    fn results_are_read_with_either_order_of_their_type() {
        let mut results = [0; LEN];
        results[44..48].copy_from_slice(&1000_u32.to_be_bytes());
        for at in [0, 3] {
            results[..4].fill(0);
            results[at] = 99;
            assert_eq!(transactions(&results).unwrap(), 1000);
        }
        results[7] = 1;
        assert!(transactions(&results).is_err());
    }
}
