//! The control connection's message: 656 bytes, of which the first eight say
//! what it is, and the rest is a C structure of the sender's.
//!
//! [`Packet`] is the checked view over the bytes; [`OmniRequest`] and its kin
//! are the meanings. Every structure here is a run of fields without gaps, so a
//! structure is declared as a list, and `parse` and `emit` walk that list.

use core::fmt;

mod classic;
mod omni;

pub use classic::{
    TcpCcRequest, TcpCcResponse, TcpCcResults, TcpStreamRequest, TcpStreamResponse,
    TcpStreamResults,
};
pub use omni::{Direction, Flags, OmniRequest, OmniResponse, OmniResults};

/// Length of every control message of netperf 2.6 and later, in bytes.
pub const MESSAGE_LEN: usize = 656;

/// Where the structure starts in the message, in bytes.
const PAYLOAD: usize = 8;

/// The buffer is shorter than a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncated;

/// A view over one control message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet<T> {
    buffer: T,
}

/// A message that owns its bytes.
pub type Message = Packet<[u8; MESSAGE_LEN]>;

impl Message {
    /// A message of zeros, to be filled.
    pub const fn zeroed() -> Self {
        Packet {
            buffer: [0; MESSAGE_LEN],
        }
    }
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Takes a buffer that holds at least one message.
    pub fn new_checked(buffer: T) -> Result<Self, Truncated> {
        if buffer.as_ref().len() < MESSAGE_LEN {
            return Err(Truncated);
        }
        Ok(Packet { buffer })
    }

    /// The message's bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer.as_ref()[..MESSAGE_LEN]
    }

    /// What the message is: a request's or a response's type code.
    pub fn code(&self) -> u32 {
        self.word(0)
    }

    /// In a request: the CPU that the client would have the server run on, or
    /// -1. In a response: the error number, 0 for none.
    pub fn status(&self) -> i32 {
        self.word(1).cast_signed()
    }

    /// The structure's bytes.
    pub fn payload(&self) -> &[u8] {
        &self.bytes()[PAYLOAD..]
    }

    fn word(&self, index: usize) -> u32 {
        let mut word = [0; 4];
        word.copy_from_slice(&self.bytes()[index * 4..][..4]);
        u32::from_be_bytes(word)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Sets the type code.
    pub fn set_code(&mut self, code: u32) {
        self.buffer.as_mut()[..4].copy_from_slice(&code.to_be_bytes());
    }

    /// Sets the error number (or, in a request, the CPU).
    pub fn set_status(&mut self, status: i32) {
        self.buffer.as_mut()[4..8].copy_from_slice(&status.to_be_bytes());
    }

    /// The structure's bytes.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.buffer.as_mut()[PAYLOAD..MESSAGE_LEN]
    }
}

/// What a client may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// More debug output.
    DebugOn,
    /// Less debug output.
    DebugOff,
    /// The server's idle rate and number of CPUs.
    CpuCalibrate,
    /// The password that the server was started with.
    Passphrase,
    /// The server's system names; deprecated.
    SysInfo,
    /// A test, as omni.
    Omni,
    /// The old TCP_STREAM, which today's TCP_SENDFILE still uses.
    TcpStream,
    /// The old TCP_CC, which today's TCP_CC still uses.
    TcpCc,
    /// A test that netperf knows and this server does not serve.
    Foreign(u32),
    /// Nothing that netperf knows.
    Unknown(u32),
}

/// Codes of requests; a test's response has the next code, its results the one
/// after.
mod code {
    pub const DEBUG_ON: u32 = 1;
    pub const DEBUG_OFF: u32 = 2;
    pub const DEBUG_OK: u32 = 3;
    pub const CPU_CALIBRATE: u32 = 5;
    pub const PASSPHRASE: u32 = 6;
    pub const TCP_STREAM: u32 = 10;
    pub const OMNI: u32 = 97;
    pub const TCP_CC: u32 = 300;
    pub const SYSINFO: u32 = 600;
    /// No code of netperf's is above this.
    pub const LAST: u32 = 601;
}

impl Request {
    /// The meaning of a type code.
    pub fn from_code(code: u32) -> Self {
        match code {
            code::DEBUG_ON => Request::DebugOn,
            code::DEBUG_OFF => Request::DebugOff,
            code::CPU_CALIBRATE => Request::CpuCalibrate,
            code::PASSPHRASE => Request::Passphrase,
            code::SYSINFO => Request::SysInfo,
            code::OMNI => Request::Omni,
            code::TCP_STREAM => Request::TcpStream,
            code::TCP_CC => Request::TcpCc,
            other if test_name(other).is_some() => Request::Foreign(other),
            other => Request::Unknown(other),
        }
    }

    /// The type code.
    pub fn code(self) -> u32 {
        match self {
            Request::DebugOn => code::DEBUG_ON,
            Request::DebugOff => code::DEBUG_OFF,
            Request::CpuCalibrate => code::CPU_CALIBRATE,
            Request::Passphrase => code::PASSPHRASE,
            Request::SysInfo => code::SYSINFO,
            Request::Omni => code::OMNI,
            Request::TcpStream => code::TCP_STREAM,
            Request::TcpCc => code::TCP_CC,
            Request::Foreign(code) | Request::Unknown(code) => code,
        }
    }

    /// The type code of the answer.
    pub fn response_code(self) -> u32 {
        match self {
            Request::DebugOn | Request::DebugOff => code::DEBUG_OK,
            Request::CpuCalibrate => code::CPU_CALIBRATE,
            other => other.code().saturating_add(1),
        }
    }

    /// The type code of a test's results.
    pub fn results_code(self) -> u32 {
        self.code().saturating_add(2)
    }

    /// Whether a first word can be the start of a message of netperf's at all.
    pub fn is_plausible(code: u32) -> bool {
        (1..=code::LAST).contains(&code)
    }
}

/// The name that netperf's `-t` has for the test of a request code.
pub fn test_name(code: u32) -> Option<&'static str> {
    Some(match code {
        10 => "TCP_STREAM",
        13 => "TCP_RR",
        16 => "UDP_STREAM",
        19 => "UDP_RR",
        22 => "DLCO_STREAM",
        25 => "DLCO_RR",
        28 => "DLCL_STREAM",
        31 => "DLCL_RR",
        34 => "TCP_CRR",
        37 => "STREAM_STREAM",
        40 => "STREAM_RR",
        43 => "DG_STREAM",
        46 => "DG_RR",
        49 => "FORE_STREAM",
        52 => "FORE_RR",
        55 => "XTI_TCP_STREAM",
        58 => "XTI_TCP_RR",
        61 => "XTI_UDP_STREAM",
        64 => "XTI_UDP_RR",
        67 => "XTI_TCP_CRR",
        70 => "TCP_TRR",
        73 => "TCP_NBRR",
        76 => "TCPIPV6_STREAM",
        79 => "TCPIPV6_RR",
        82 => "UDPIPV6_STREAM",
        85 => "UDPIPV6_RR",
        88 => "TCPIPV6_CRR",
        91 => "TCPIPV6_TRR",
        94 => "TCP_MAERTS",
        97 => "OMNI",
        100 => "LWPSTR_STREAM",
        130 => "LWPSTR_RR",
        160 => "LWPDG_STREAM",
        190 => "LWPDG_RR",
        300 => "TCP_CC",
        400 => "DNS_RR",
        500 => "SCTP_STREAM",
        510 => "SCTP_STREAM_MANY",
        520 => "SCTP_RR",
        530 => "SCTP_RR_MANY",
        540 => "SDP_STREAM",
        543 => "SDP_RR",
        546 => "SDP_MAERTS",
        549 => "SDP_CRR",
        552 => "SDP_CC",
        _ => return None,
    })
}

/// A fixed array of characters: ended by a zero byte, or full.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Text<const N: usize>(pub [u8; N]);

impl<const N: usize> Text<N> {
    /// No characters.
    pub const EMPTY: Self = Text([0; N]);

    /// Takes as much of `text` as fits before a final zero byte.
    pub fn new(text: &str) -> Self {
        let mut bytes = [0; N];
        let len = text.len().min(N.saturating_sub(1));
        bytes[..len].copy_from_slice(&text.as_bytes()[..len]);
        Text(bytes)
    }

    /// The characters before the zero byte, as far as they are UTF-8.
    pub fn as_str(&self) -> &str {
        let text = self.0.split(|&byte| byte == 0).next().unwrap_or(&[]);
        match core::str::from_utf8(text) {
            Ok(text) => text,
            Err(error) => core::str::from_utf8(&text[..error.valid_up_to()]).unwrap_or(""),
        }
    }
}

impl<const N: usize> Default for Text<N> {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl<const N: usize> fmt::Debug for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl<const N: usize> fmt::Display for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A field of a structure. `SIZE` is what it takes on the wire, in bytes; the
/// slices given are exactly that long.
trait Field: Sized {
    const SIZE: usize;
    fn parse(bytes: &[u8]) -> Self;
    fn emit(&self, bytes: &mut [u8]);
}

/// Numbers are big-endian. That goes for floating point too, since the sender
/// byte-swaps it as if it were an integer.
macro_rules! number_fields {
    ($($number:ty),*) => {$(
        impl Field for $number {
            const SIZE: usize = size_of::<$number>();
            fn parse(bytes: &[u8]) -> Self {
                let mut number = [0; size_of::<$number>()];
                number.copy_from_slice(bytes);
                <$number>::from_be_bytes(number)
            }
            fn emit(&self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_be_bytes());
            }
        }
    )*};
}
number_fields!(i32, u32, f32, f64);

/// Characters are not swapped. Neither are the bytes of an IP address.
impl<const N: usize> Field for [u8; N] {
    const SIZE: usize = N;
    fn parse(bytes: &[u8]) -> Self {
        let mut array = [0; N];
        array.copy_from_slice(bytes);
        array
    }
    fn emit(&self, bytes: &mut [u8]) {
        bytes.copy_from_slice(self);
    }
}

impl<const N: usize> Field for Text<N> {
    const SIZE: usize = N;
    fn parse(bytes: &[u8]) -> Self {
        Text(Field::parse(bytes))
    }
    fn emit(&self, bytes: &mut [u8]) {
        self.0.emit(bytes);
    }
}

fn take_field<F: Field>(bytes: &[u8], at: &mut usize) -> F {
    let field = F::parse(&bytes[*at..][..F::SIZE]);
    *at += F::SIZE;
    field
}

fn put_field<F: Field>(field: &F, bytes: &mut [u8], at: &mut usize) {
    field.emit(&mut bytes[*at..][..F::SIZE]);
    *at += F::SIZE;
}

/// Declares a structure in wire order.
macro_rules! structure {
    ($(#[$attribute:meta])* $name:ident { $($(#[$doc:meta])* $field:ident: $kind:ty,)* }) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        pub struct $name { $($(#[$doc])* pub $field: $kind,)* }

        impl $name {
            /// What the structure takes of the message, in bytes.
            pub const SIZE: usize = 0 $(+ <$kind as $crate::netperf::wire::Field>::SIZE)*;

            /// Reads the structure. Any bytes will do; the values are as sent.
            pub fn parse<T: AsRef<[u8]>>(packet: &$crate::netperf::wire::Packet<T>) -> Self {
                const { assert!(Self::SIZE <= $crate::netperf::wire::MESSAGE_LEN - 8) };
                let (bytes, mut at) = (packet.payload(), 0);
                $(let $field = $crate::netperf::wire::take_field(bytes, &mut at);)*
                let _ = at;
                $name { $($field,)* }
            }

            /// Writes the structure and leaves the bytes after it alone.
            pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(
                &self,
                packet: &mut $crate::netperf::wire::Packet<T>,
            ) {
                let (bytes, mut at) = (packet.payload_mut(), 0);
                $($crate::netperf::wire::put_field(&self.$field, bytes, &mut at);)*
                let _ = at;
            }
        }
    };
}
use structure;

structure! {
    /// The answer to [`Request::CpuCalibrate`].
    CpuCalibration {
        /// Idle counts a second of a CPU that does nothing.
        rate: f32,
        /// How many CPUs the server has.
        cpus: u32,
    }
}

#[cfg(test)]
mod tests;
