//! The messages that the server sends.

use super::cpu::{self, METHOD_IDLE_COUNTER, UNKNOWN};
use super::report::Totals;
use super::session::Host;
use super::spec::Errno;
use super::test::Test;
use super::wire::{
    CpuCalibration, Flags, Message, OmniRequest, OmniResponse, OmniResults, Packet, Request,
    TcpCcResponse, TcpCcResults, TcpStreamResponse, TcpStreamResults,
};
use crate::machine::CpuTime;

/// What netperf has for an integer that nobody knows.
const UNKNOWN_NUMBER: i32 = -1;

/// An answer that says no more than that the request is done.
pub fn empty(request: Request) -> Message {
    let mut message = Message::zeroed();
    message.set_code(request.response_code());
    message
}

/// An answer that says why the request is not done.
pub fn refusal(request: Request, errno: Errno) -> Message {
    let mut message = empty(request);
    message.set_status(errno.0);
    message
}

/// The names that old clients ask for: four, each after a comma.
pub fn system(host: &Host) -> Message {
    let mut message = empty(Request::SysInfo);
    let payload = message.payload_mut().iter_mut();
    let name = host.system_model.as_str().as_bytes();
    let text = (0..4).flat_map(|_| b",".iter().chain(name));
    payload.zip(text).for_each(|(to, from)| *to = *from);
    message
}

/// The idle counter's rate.
pub fn calibration(host: &Host, cpu: CpuTime) -> Message {
    let mut message = empty(Request::CpuCalibrate);
    let calibration = CpuCalibration {
        rate: cpu::idle_rate(cpu),
        cpus: host.cpus,
    };
    calibration.emit(&mut message);
    message
}

/// The answer to a test's request once its ports are open.
pub fn response<T: AsRef<[u8]>>(
    request: &Packet<T>,
    test: &Test,
    host: &Host,
    cpu: CpuTime,
) -> Message {
    let mut message = empty(test.spec().request);
    let rate = match test.spec().measure_cpu {
        true => cpu::idle_rate(cpu),
        false => 0.0,
    };
    match test.spec().request {
        Request::TcpStream => tcp_stream_response(test, rate).emit(&mut message),
        Request::TcpCc => tcp_cc_response(test, rate).emit(&mut message),
        _ => {
            let request = OmniRequest::parse(request);
            let mut response = omni_response(&request, test, rate);
            response.cpu_frequency = (cpu.frequency / 1_000_000) as u32;
            response.system_model = host.system_model;
            response.cpu_model = host.cpu_model;
            response.emit(&mut message);
        }
    }
    message
}

/// A test's results.
pub fn results(test: &Test, totals: &Totals, host: &Host) -> Message {
    let mut message = Message::zeroed();
    message.set_code(test.spec().request.results_code());
    match test.spec().request {
        Request::TcpStream => tcp_stream_results(test, totals, host).emit(&mut message),
        Request::TcpCc => tcp_cc_results(totals, host).emit(&mut message),
        _ => omni_results(test, totals, host).emit(&mut message),
    }
    message
}

fn omni_response(request: &OmniRequest, test: &Test, cpu_rate: f32) -> OmniResponse {
    let (spec, opened) = (test.spec(), test.opened());
    let mut flags = 0;
    if spec.measure_cpu {
        flags |= Flags::MEASURE_CPU;
    }
    if opened.no_delay {
        flags |= Flags::NO_DELAY;
    }
    // A size that the test has no use for goes back as it came.
    let receive_size = match spec.open.receives {
        true => int(test.receive_size()),
        false => request.receive_size,
    };
    let send_size = match spec.open.sends {
        true => int(test.send_size()),
        false => request.send_size,
    };
    OmniResponse {
        recv_buf_size: int(opened.recv_buffer),
        receive_size,
        recv_width: 1,
        send_buf_size: int(opened.send_buffer),
        send_size,
        send_width: 1,
        flags: Flags(flags),
        cpu_rate,
        data_port: opened.port.into(),
        socket_prio: UNKNOWN_NUMBER,
        socket_tos: opened.tos.map_or(UNKNOWN_NUMBER, i32::from),
        ..OmniResponse::default()
    }
}

fn omni_results(test: &Test, totals: &Totals, host: &Host) -> OmniResults {
    let (spec, opened) = (test.spec(), test.opened());
    let wants = |flag, text: &str| spec.flags.has(flag) && !text.is_empty();
    let interface = &host.interface;
    let pci = interface
        .pci
        .filter(|_| spec.flags.has(Flags::WANT_PCI_IDS));
    let id = |id: Option<u16>| id.map_or(UNKNOWN_NUMBER, i32::from);
    let cpu_util = totals.cpu.unwrap_or(UNKNOWN);
    let mut results = OmniResults {
        bytes_received_hi: (totals.bytes_received >> 32) as u32,
        bytes_received_lo: totals.bytes_received as u32,
        recv_calls: count(totals.receives),
        recv_buf_size: int(opened.recv_buffer),
        bytes_sent_hi: (totals.bytes_sent >> 32) as u32,
        bytes_sent_lo: totals.bytes_sent as u32,
        send_calls: count(totals.sends),
        send_buf_size: int(opened.send_buffer),
        failed_sends: count(totals.failed_sends),
        trans_received: count(totals.transactions),
        elapsed_time: seconds(totals.elapsed),
        cpu_util,
        // One address space: nothing runs in user mode, nothing waits for a
        // disk, and time in interrupt handlers is not told apart.
        cpu_percent_user: totals.cpu.map_or(UNKNOWN, |_| 0.0),
        cpu_percent_system: cpu_util,
        cpu_percent_iowait: totals.cpu.map_or(UNKNOWN, |_| 0.0),
        cpu_percent_irq: UNKNOWN,
        cpu_percent_swintr: UNKNOWN,
        serv_dem: UNKNOWN,
        cpu_method: METHOD_IDLE_COUNTER,
        num_cpus: host.cpus,
        peak_cpu_id: totals.cpu.map_or(UNKNOWN_NUMBER, |_| 0),
        peak_cpu_util: cpu_util,
        vendor: id(pci.map(|pci| pci.vendor)),
        device: id(pci.map(|pci| pci.device)),
        subvendor: id(pci.map(|pci| pci.subvendor)),
        subdevice: id(pci.map(|pci| pci.subdevice)),
        transport_retrans: UNKNOWN_NUMBER,
        ..OmniResults::default()
    };
    if wants(Flags::WANT_INTERFACE, interface.name.as_str()) {
        results.ifname = interface.name;
    }
    if wants(Flags::WANT_SLOT, interface.slot.as_str()) {
        results.ifslot = interface.slot;
    }
    if wants(Flags::WANT_DRIVER, interface.driver.as_str()) {
        results.driver = interface.driver;
        results.version = interface.version;
        results.firmware = interface.firmware;
        results.bus = interface.bus;
    }
    if spec.flags.has(Flags::WANT_CONGESTION_CONTROL) {
        results.cong_control = opened.congestion_control;
    }
    results
}

fn tcp_stream_response(test: &Test, cpu_rate: f32) -> TcpStreamResponse {
    let opened = test.opened();
    TcpStreamResponse {
        recv_buf_size: int(opened.recv_buffer),
        receive_size: int(test.receive_size()),
        no_delay: opened.no_delay.into(),
        measure_cpu: test.spec().measure_cpu.into(),
        send_buf_size: int(opened.send_buffer),
        data_port: opened.port.into(),
        cpu_rate,
        ..TcpStreamResponse::default()
    }
}

fn tcp_stream_results(test: &Test, totals: &Totals, host: &Host) -> TcpStreamResults {
    TcpStreamResults {
        bytes_received: totals.bytes_received as f64,
        recv_calls: count(totals.receives),
        elapsed_time: seconds(totals.elapsed),
        cpu_util: totals.cpu.unwrap_or(UNKNOWN),
        serv_dem: UNKNOWN,
        cpu_method: METHOD_IDLE_COUNTER,
        num_cpus: host.cpus,
        recv_buf_size: int(test.opened().recv_buffer),
        send_buf_size: int(test.opened().send_buffer),
    }
}

fn tcp_cc_response(test: &Test, cpu_rate: f32) -> TcpCcResponse {
    let opened = test.opened();
    TcpCcResponse {
        recv_buf_size: int(opened.recv_buffer),
        no_delay: opened.no_delay.into(),
        measure_cpu: test.spec().measure_cpu.into(),
        send_buf_size: int(opened.send_buffer),
        data_port: opened.port.into(),
        cpu_rate,
        ..TcpCcResponse::default()
    }
}

fn tcp_cc_results(totals: &Totals, host: &Host) -> TcpCcResults {
    TcpCcResults {
        bytes_received: 0,
        recv_calls: 0,
        trans_received: count(totals.transactions),
        elapsed_time: seconds(totals.elapsed),
        cpu_util: totals.cpu.unwrap_or(UNKNOWN),
        serv_dem: UNKNOWN,
        cpu_method: METHOD_IDLE_COUNTER,
        num_cpus: host.cpus,
    }
}

/// The protocol has 32 bits for a count.
fn count(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn int(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

fn seconds(nanoseconds: u64) -> f32 {
    (nanoseconds as f64 / 1e9) as f32
}
