//! The goldens are conversations of Debian's netperf 2.7.0 with its netserver
//! on loopback, recorded by us. Each line is a word's index in the message and
//! its bytes; words that are not there are zero.

use alloc::string::String;

use proptest::prelude::*;

use super::*;

fn golden(text: &str) -> Message {
    let mut message = Message::zeroed();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (index, word) = line.trim().split_once(' ').unwrap();
        let at = index.parse::<usize>().unwrap() * 4;
        let word = u32::from_str_radix(word, 16).unwrap();
        message.buffer[at..at + 4].copy_from_slice(&word.to_be_bytes());
    }
    message
}

#[test]
fn omni_request() {
    let packet = golden(include_str!("goldens/omni_request.txt"));
    assert_eq!(Request::from_code(packet.code()), Request::Omni);
    assert_eq!(packet.status(), -1);
    let mut client = [0; 16];
    client[..4].copy_from_slice(&[127, 0, 0, 1]);
    let expected = OmniRequest {
        send_buf_size: 3000,
        send_size: 200,
        send_alignment: 64,
        send_offset: 3,
        send_width: 5,
        request_size: 11,
        recv_buf_size: 4000,
        receive_size: 300,
        recv_alignment: 128,
        recv_offset: 4,
        recv_width: 6,
        response_size: 22,
        flags: Flags(Flags::MEASURE_CPU | Flags::WANT_CONGESTION_CONTROL),
        cpu_rate: 0.0,
        test_length: 7,
        so_rcvavoid: 0,
        so_sndavoid: 0,
        send_dirty_count: -1,
        recv_dirty_count: -1,
        recv_clean_count: -1,
        data_port: 6000,
        ipfamily: 4,
        socket_type: 2,
        protocol: 17,
        direction: Direction(Direction::SEND | Direction::RECEIVE),
        netperf_port: 5000,
        interval_burst: 0,
        interval_usecs: 0,
        netperf_ip: client,
        netserver_ip: client,
        socket_prio: -1,
        socket_tos: -1,
        cong_control: Text::new("reno"),
        fill_file: Text::EMPTY,
    };
    assert_eq!(OmniRequest::parse(&packet), expected);
}

#[test]
fn omni_request_limited_by_transactions() {
    let packet = golden(include_str!("goldens/tcp_crr_request.txt"));
    let request = OmniRequest::parse(&packet);
    assert_eq!(request.test_length, -77);
    assert_eq!((request.request_size, request.response_size), (9, 8));
    assert!(request.flags.has(Flags::CONNECT_TEST | Flags::NO_DELAY));
    assert!(!request.flags.has(Flags::MEASURE_CPU));
    assert_eq!((request.protocol, request.socket_type), (6, 1));
}

#[test]
fn omni_response() {
    let packet = golden(include_str!("goldens/tcp_rr_response.txt"));
    assert_eq!(packet.code(), Request::Omni.response_code());
    assert_eq!(packet.status(), 0);
    let expected = OmniResponse {
        recv_buf_size: 131_072,
        receive_size: 1,
        recv_width: 1,
        send_buf_size: 16384,
        send_size: 1,
        send_width: 1,
        flags: Flags(Flags::MEASURE_CPU),
        cpu_rate: 100.0,
        data_port: 45781,
        socket_prio: -1,
        socket_tos: -1,
        ..OmniResponse::default()
    };
    assert_eq!(OmniResponse::parse(&packet), expected);
}

#[test]
fn omni_results() {
    let packet = golden(include_str!("goldens/tcp_rr_results.txt"));
    let results = OmniResults::parse(&packet);
    assert_eq!(results.bytes_received(), 4216);
    assert_eq!(results.bytes_sent(), 4216);
    assert_eq!((results.recv_calls, results.send_calls), (4216, 4216));
    assert_eq!(results.trans_received, 4216);
    assert_eq!(results.recv_buf_size, 131_072);
    assert!((1.0..1.01).contains(&results.elapsed_time));
    assert!((29.31..29.33).contains(&results.cpu_util), "{results:?}");
    assert_eq!((results.cpu_method, results.num_cpus), (8, 2));
    assert_eq!(results.cong_control.as_str(), "bbr");
}

#[test]
fn udp_stream() {
    let packet = golden(include_str!("goldens/udp_stream_response.txt"));
    let response = OmniResponse::parse(&packet);
    assert_eq!(
        (response.recv_buf_size, response.receive_size),
        (212_992, 212_992)
    );
    assert_eq!(response.send_size, -1);
    let packet = golden(include_str!("goldens/udp_stream_results.txt"));
    let results = OmniResults::parse(&packet);
    assert_eq!(
        results.bytes_received(),
        u64::from(results.recv_calls) * 65507
    );
    assert_eq!(results.transport_retrans, -1);
}

#[test]
fn tcp_sendfile() {
    let packet = golden(include_str!("goldens/tcp_sendfile_request.txt"));
    assert_eq!(Request::from_code(packet.code()), Request::TcpStream);
    let expected = TcpStreamRequest {
        send_buf_size: 3000,
        recv_buf_size: 4000,
        receive_size: 300,
        recv_alignment: 128,
        recv_offset: 4,
        no_delay: 1,
        measure_cpu: 1,
        cpu_rate: 0.0,
        test_length: 7,
        dirty_count: 0,
        port: 6000,
        ipfamily: 4,
        ..TcpStreamRequest::default()
    };
    assert_eq!(TcpStreamRequest::parse(&packet), expected);

    let packet = golden(include_str!("goldens/tcp_sendfile_response.txt"));
    assert_eq!(packet.code(), Request::TcpStream.response_code());
    let response = TcpStreamResponse::parse(&packet);
    assert_eq!(
        (response.send_buf_size, response.recv_buf_size),
        (16384, 131_072)
    );
    assert_eq!((response.data_port, response.cpu_rate), (37919, 100.0));

    let packet = golden(include_str!("goldens/tcp_sendfile_results.txt"));
    let results = TcpStreamResults::parse(&packet);
    assert_eq!(results.bytes_received, 986_152_960.0);
    assert!((1.0..1.01).contains(&results.elapsed_time));
    assert_eq!((results.cpu_method, results.num_cpus), (8, 2));
}

#[test]
fn tcp_cc() {
    let packet = golden(include_str!("goldens/tcp_cc_request.txt"));
    assert_eq!(Request::from_code(packet.code()), Request::TcpCc);
    let request = TcpCcRequest::parse(&packet);
    assert_eq!((request.recv_buf_size, request.send_buf_size), (4000, 3000));
    assert_eq!((request.request_size, request.response_size), (11, 22));
    assert_eq!((request.test_length, request.port), (7, 6000));
    assert_eq!((request.no_delay, request.measure_cpu), (1, 1));

    let packet = golden(include_str!("goldens/tcp_cc_response.txt"));
    let response = TcpCcResponse::parse(&packet);
    assert_eq!((response.send_buf_size, response.data_port), (16384, 43869));

    let packet = golden(include_str!("goldens/tcp_cc_results.txt"));
    let results = TcpCcResults::parse(&packet);
    assert_eq!((results.trans_received, results.num_cpus), (3507, 2));
}

#[test]
fn cpu_calibration() {
    let packet = golden(include_str!("goldens/cpu_calibrate_request.txt"));
    assert_eq!(Request::from_code(packet.code()), Request::CpuCalibrate);
}

#[test]
fn texts() {
    assert_eq!(Text::<4>::new("abcdef").as_str(), "abc");
    assert_eq!(Text(*b"abcd").as_str(), "abcd");
    assert_eq!(Text([b'a', 0xff, b'b', 0]).as_str(), "a");
    assert_eq!(Text::<0>::new("a").as_str(), "");
}

#[test]
fn short_buffers_are_no_messages() {
    assert_eq!(Packet::new_checked([0; MESSAGE_LEN - 1]), Err(Truncated));
    assert!(Packet::new_checked([0; MESSAGE_LEN + 1]).is_ok());
}

fn message() -> impl Strategy<Value = Message> {
    proptest::collection::vec(any::<u8>(), MESSAGE_LEN).prop_map(|bytes| {
        let mut message = Message::zeroed();
        message.buffer.copy_from_slice(&bytes);
        message
    })
}

/// What was parsed and emitted again is what came, byte for byte.
macro_rules! assert_round_trip {
    ($message:expr, $($structure:ident),*) => {$({
        let mut copy = Message::zeroed();
        $structure::parse($message).emit(&mut copy);
        let size = $structure::SIZE;
        prop_assert_eq!(&copy.payload()[..size], &$message.payload()[..size]);
        prop_assert!(copy.payload()[size..].iter().all(|&byte| byte == 0));
    })*};
}

proptest! {
    #[test]
    fn any_bytes_parse_and_emit_alike(message in message()) {
        assert_round_trip!(
            &message, OmniRequest, OmniResponse, OmniResults, TcpStreamRequest,
            TcpStreamResponse, TcpStreamResults, TcpCcRequest, TcpCcResponse, TcpCcResults,
            CpuCalibration
        );
    }

    #[test]
    fn any_code_means_itself(code: u32) {
        prop_assert_eq!(Request::from_code(code).code(), code);
    }

    #[test]
    fn any_text_fits(text: String) {
        let cut = Text::<16>::new(&text);
        prop_assert!(text.starts_with(cut.as_str()));
    }
}
