//! The omni test's three structures.

use super::{Field, Text, structure};

/// Which way the data flows, as the server sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Direction(pub u32);

impl Direction {
    /// The server sends.
    pub const SEND: u32 = 0x2;
    /// The server receives.
    pub const RECEIVE: u32 = 0x4;

    /// Whether the server sends.
    pub fn sends(self) -> bool {
        self.0 & Self::SEND != 0
    }

    /// Whether the server receives.
    pub fn receives(self) -> bool {
        self.0 & Self::RECEIVE != 0
    }
}

impl Field for Direction {
    const SIZE: usize = u32::SIZE;
    fn parse(bytes: &[u8]) -> Self {
        Direction(u32::parse(bytes))
    }
    fn emit(&self, bytes: &mut [u8]) {
        self.0.emit(bytes);
    }
}

/// The bits of the `flags` word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u32);

impl Flags {
    /// TCP_NODELAY on the server's data socket.
    pub const NO_DELAY: u32 = 0x1;
    /// The server sends with sendfile.
    pub const USE_SENDFILE: u32 = 0x2;
    /// A connection for each transaction.
    pub const CONNECT_TEST: u32 = 0x4;
    /// The client wants the server's CPU utilisation.
    pub const MEASURE_CPU: u32 = 0x8;
    /// The client wants the congestion control's name.
    pub const WANT_CONGESTION_CONTROL: u32 = 0x20;
    /// The client wants the interface's name.
    pub const WANT_INTERFACE: u32 = 0x40;
    /// The client wants the interface's slot.
    pub const WANT_SLOT: u32 = 0x80;
    /// The client wants the interface's PCI ids.
    pub const WANT_PCI_IDS: u32 = 0x100;
    /// The client wants to know the interface's driver.
    pub const WANT_DRIVER: u32 = 0x200;
    /// Keep-alive on the server's data socket.
    pub const KEEP_ALIVE: u32 = 0x8000_0000;

    /// Whether all bits of `mask` are set.
    pub fn has(self, mask: u32) -> bool {
        self.0 & mask == mask
    }
}

impl Field for Flags {
    const SIZE: usize = u32::SIZE;
    fn parse(bytes: &[u8]) -> Self {
        Flags(u32::parse(bytes))
    }
    fn emit(&self, bytes: &mut [u8]) {
        self.0.emit(bytes);
    }
}

structure! {
    /// The client asks for a test. "Send" and "receive" are the server's.
    OmniRequest {
        /// Send buffer of the data socket in bytes; -1 is the system's default.
        send_buf_size: i32,
        /// Bytes a send; -1 is the default.
        send_size: i32,
        /// Alignment of the sent buffers.
        send_alignment: u32,
        /// Offset from that alignment.
        send_offset: u32,
        /// How many buffers to send from in turn.
        send_width: u32,
        /// Bytes of a request; not above 0 in a stream test.
        request_size: i32,
        /// Receive buffer of the data socket in bytes; -1 is the default.
        recv_buf_size: i32,
        /// Bytes a receive; -1 is the default.
        receive_size: i32,
        /// Alignment of the receive buffers.
        recv_alignment: u32,
        /// Offset from that alignment.
        recv_offset: u32,
        /// How many buffers to receive into in turn.
        recv_width: u32,
        /// Bytes of a response; not above 0 in a stream test.
        response_size: i32,
        /// See [`Flags`].
        flags: Flags,
        /// The server's idle rate, if the client knows it from before.
        cpu_rate: f32,
        /// Seconds when positive; bytes or transactions when negative; 0 is
        /// without end.
        test_length: i32,
        /// Avoid copies when receiving.
        so_rcvavoid: i32,
        /// Avoid copies when sending.
        so_sndavoid: i32,
        /// Bytes to write before a send; -1 is not asked.
        send_dirty_count: i32,
        /// Bytes to write before a receive; -1 is not asked.
        recv_dirty_count: i32,
        /// Bytes to read before a receive; -1 is not asked.
        recv_clean_count: i32,
        /// The server's data port; 0 is any.
        data_port: u32,
        /// Address family of the data: 0 any, 4, 6.
        ipfamily: u32,
        /// 1 stream, 2 datagram, 3 DCCP, 4 seqpacket.
        socket_type: u32,
        /// IP protocol number.
        protocol: u32,
        /// Which way the data flows.
        direction: Direction,
        /// The client's data port.
        netperf_port: u32,
        /// Sends in each interval; 0 is unpaced.
        interval_burst: u32,
        /// Microseconds an interval.
        interval_usecs: u32,
        /// The client's data address.
        netperf_ip: [u8; 16],
        /// The server's data address, where the client insists on one.
        netserver_ip: [u8; 16],
        /// SO_PRIORITY; -1 is not asked.
        socket_prio: i32,
        /// IP type of service; -1 is not asked.
        socket_tos: i32,
        /// Congestion control; empty is the default.
        cong_control: Text<16>,
        /// File to fill the send buffers from.
        fill_file: Text<32>,
    }
}

structure! {
    /// The server is ready for the data connection.
    OmniResponse {
        /// Receive buffer of the data socket, in bytes.
        recv_buf_size: i32,
        /// Bytes a receive.
        receive_size: i32,
        /// How many buffers are received into in turn.
        recv_width: i32,
        /// Send buffer of the data socket, in bytes.
        send_buf_size: i32,
        /// Bytes a send.
        send_size: i32,
        /// How many buffers are sent from in turn.
        send_width: i32,
        /// Which of the asked flags are granted.
        flags: Flags,
        /// The server's idle rate, counts a second.
        cpu_rate: f32,
        /// Unused.
        test_length: i32,
        /// Whether copies are avoided when receiving.
        so_rcvavoid: i32,
        /// Whether copies are avoided when sending.
        so_sndavoid: i32,
        /// Where the client's data shall go.
        data_port: u32,
        /// Sends in each interval.
        interval_burst: u32,
        /// Microseconds an interval.
        interval_usecs: u32,
        /// CPU frequency in MHz; read by clients before 2.7.
        cpu_frequency: u32,
        /// Security module and its state; read by clients before 2.7.
        security_info: u32,
        /// SO_PRIORITY in force.
        socket_prio: i32,
        /// IP type of service in force.
        socket_tos: i32,
        /// Name of the machine; read by clients before 2.7.
        system_model: Text<33>,
        /// Name of the CPU; read by clients before 2.7.
        cpu_model: Text<80>,
        /// Name of the security module; read by clients before 2.7.
        security_string: Text<16>,
    }
}

structure! {
    /// What the server counted.
    OmniResults {
        /// Bytes received, upper half.
        bytes_received_hi: u32,
        /// Bytes received, lower half.
        bytes_received_lo: u32,
        /// Receive calls.
        recv_calls: u32,
        /// Receive buffer at the end, in bytes.
        recv_buf_size: i32,
        /// Bytes sent, upper half.
        bytes_sent_hi: u32,
        /// Bytes sent, lower half.
        bytes_sent_lo: u32,
        /// Send calls.
        send_calls: u32,
        /// Send buffer at the end, in bytes.
        send_buf_size: i32,
        /// Sends that the stack refused.
        failed_sends: u32,
        /// Transactions served.
        trans_received: u32,
        /// Length of the test in seconds.
        elapsed_time: f32,
        /// CPU utilisation, in percent of all CPUs; -1 where not measured.
        cpu_util: f32,
        /// Part of it in user mode.
        cpu_percent_user: f32,
        /// Part of it in the kernel.
        cpu_percent_system: f32,
        /// Idle with I/O outstanding.
        cpu_percent_iowait: f32,
        /// Part of it in interrupt handlers.
        cpu_percent_irq: f32,
        /// Part of it in deferred interrupt work.
        cpu_percent_swintr: f32,
        /// Service demand; the client works it out itself.
        serv_dem: f32,
        /// How the CPU utilisation was measured.
        cpu_method: u32,
        /// How many CPUs.
        num_cpus: u32,
        /// The busiest CPU; -1 is unknown.
        peak_cpu_id: i32,
        /// Its utilisation, in percent.
        peak_cpu_util: f32,
        /// PCI vendor of the interface.
        vendor: i32,
        /// PCI device.
        device: i32,
        /// PCI subsystem vendor.
        subvendor: i32,
        /// PCI subsystem device.
        subdevice: i32,
        /// Segments sent again; -1 is unknown.
        transport_retrans: i32,
        /// The interface's name.
        ifname: Text<16>,
        /// Its driver.
        driver: Text<32>,
        /// The driver's version.
        version: Text<32>,
        /// The firmware's version.
        firmware: Text<32>,
        /// Its place on the bus.
        bus: Text<32>,
        /// Its slot.
        ifslot: Text<16>,
        /// Congestion control in force.
        cong_control: Text<16>,
    }
}

impl OmniResults {
    /// Bytes received.
    pub fn bytes_received(&self) -> u64 {
        join(self.bytes_received_hi, self.bytes_received_lo)
    }

    /// Bytes sent.
    pub fn bytes_sent(&self) -> u64 {
        join(self.bytes_sent_hi, self.bytes_sent_lo)
    }
}

fn join(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}
