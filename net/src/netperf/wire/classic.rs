//! The structures of the tests that netperf 2.7 still asks for in the way of
//! its ancestors: TCP_SENDFILE (as TCP_STREAM) and TCP_CC.

use super::structure;

structure! {
    /// The client asks for the old TCP_STREAM.
    TcpStreamRequest {
        /// Send buffer of the data socket in bytes; -1 is the default.
        send_buf_size: i32,
        /// Receive buffer of the data socket in bytes; -1 is the default.
        recv_buf_size: i32,
        /// Bytes a receive; 0 is the default.
        receive_size: i32,
        /// Alignment of the receive buffers.
        recv_alignment: i32,
        /// Offset from that alignment.
        recv_offset: i32,
        /// TCP_NODELAY.
        no_delay: i32,
        /// Whether to measure CPU utilisation.
        measure_cpu: i32,
        /// The server's idle rate, if known.
        cpu_rate: f32,
        /// Seconds; in a test limited by bytes, the bytes.
        test_length: i32,
        /// Avoid copies when receiving.
        so_rcvavoid: i32,
        /// Avoid copies when sending.
        so_sndavoid: i32,
        /// Integers to write in the buffer.
        dirty_count: i32,
        /// Integers to read in the buffer.
        clean_count: i32,
        /// The server's data port; 0 is any.
        port: u32,
        /// Address family: 0 any, 4, 6.
        ipfamily: u32,
    }
}

structure! {
    /// The server is ready for the data connection.
    TcpStreamResponse {
        /// Receive buffer in bytes.
        recv_buf_size: i32,
        /// Bytes a receive.
        receive_size: i32,
        /// TCP_NODELAY.
        no_delay: i32,
        /// Whether CPU utilisation is measured.
        measure_cpu: i32,
        /// Unused.
        test_length: i32,
        /// Send buffer in bytes.
        send_buf_size: i32,
        /// Where the client shall connect.
        data_port: u32,
        /// The server's idle rate, counts a second.
        cpu_rate: f32,
        /// Whether copies are avoided when receiving.
        so_rcvavoid: i32,
        /// Whether copies are avoided when sending.
        so_sndavoid: i32,
    }
}

structure! {
    /// What the server counted.
    TcpStreamResults {
        /// Bytes received.
        bytes_received: f64,
        /// Receive calls.
        recv_calls: u32,
        /// Length of the test in seconds.
        elapsed_time: f32,
        /// CPU utilisation in percent; -1 where not measured.
        cpu_util: f32,
        /// Service demand; the client works it out itself.
        serv_dem: f32,
        /// How the CPU utilisation was measured.
        cpu_method: u32,
        /// How many CPUs.
        num_cpus: u32,
        /// Receive buffer at the end, in bytes.
        recv_buf_size: i32,
        /// Send buffer at the end, in bytes.
        send_buf_size: i32,
    }
}

structure! {
    /// The client asks for TCP_CC.
    TcpCcRequest {
        /// Receive buffer of the data socket in bytes; -1 is the default.
        recv_buf_size: i32,
        /// Send buffer of the data socket in bytes; -1 is the default.
        send_buf_size: i32,
        /// Alignment of the receive buffers.
        recv_alignment: i32,
        /// Offset from that alignment.
        recv_offset: i32,
        /// Alignment of the send buffers.
        send_alignment: i32,
        /// Offset from that alignment.
        send_offset: i32,
        /// Unused: nothing is sent.
        request_size: i32,
        /// Unused: nothing is sent.
        response_size: i32,
        /// TCP_NODELAY.
        no_delay: i32,
        /// Whether to measure CPU utilisation.
        measure_cpu: i32,
        /// The server's idle rate, if known.
        cpu_rate: f32,
        /// Seconds when positive; transactions when negative.
        test_length: i32,
        /// Avoid copies when receiving.
        so_rcvavoid: i32,
        /// Avoid copies when sending.
        so_sndavoid: i32,
        /// The server's data port; 0 is any.
        port: u32,
        /// Address family: 0 any, 4, 6.
        ipfamily: u32,
    }
}

structure! {
    /// The server is ready for the connections.
    TcpCcResponse {
        /// Receive buffer in bytes.
        recv_buf_size: i32,
        /// TCP_NODELAY.
        no_delay: i32,
        /// Whether CPU utilisation is measured.
        measure_cpu: i32,
        /// Unused.
        test_length: i32,
        /// Send buffer in bytes.
        send_buf_size: i32,
        /// Where the client shall connect.
        data_port: u32,
        /// The server's idle rate, counts a second.
        cpu_rate: f32,
        /// Whether copies are avoided when receiving.
        so_rcvavoid: i32,
        /// Whether copies are avoided when sending.
        so_sndavoid: i32,
    }
}

structure! {
    /// What the server counted.
    TcpCcResults {
        /// Bytes received.
        bytes_received: u32,
        /// Receive calls.
        recv_calls: u32,
        /// Connections served.
        trans_received: u32,
        /// Length of the test in seconds.
        elapsed_time: f32,
        /// CPU utilisation in percent; -1 where not measured.
        cpu_util: f32,
        /// Service demand; the client works it out itself.
        serv_dem: f32,
        /// How the CPU utilisation was measured.
        cpu_method: u32,
        /// How many CPUs.
        num_cpus: u32,
    }
}
