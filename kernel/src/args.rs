//! Boot arguments: `key=value` words, whatever boot protocol brought them.
//!
//! A word that is unknown or malformed is reported and skipped; the appliance
//! comes up all the same.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::net::Ipv4Addr;
use core::ops::RangeInclusive;

use crate::console::choice::Choice;

/// Every boot argument. What was not given is `None`, or has its default here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Args {
    /// `ip=`: how the appliance gets its address.
    pub ip: Ip,
    /// `gw=`: the gateway of a static address.
    pub gateway: Option<Ipv4Addr>,
    /// `mtu=`: largest IP packet in bytes.
    pub mtu: Option<u16>,
    /// `nic=`: which NIC, as [`NicChoice`] reads it.
    pub nic: Option<NicChoice>,
    /// `rx=`: the receive mode.
    pub rx: Option<RxMode>,
    /// `weight=`: frames a poll (NAPI's weight).
    pub weight: Option<u16>,
    /// `itr=`: interrupts a second at the most; 0 is no limit.
    pub itr: Option<u32>,
    /// `replenish=`: frames after which receive descriptors go back to the ring.
    pub replenish: Option<u16>,
    /// `rxring=`: receive descriptors.
    pub rx_ring: Option<u16>,
    /// `txring=`: transmit descriptors.
    pub tx_ring: Option<u16>,
    /// `tso=on|off`: whether the NIC may cut super-segments.
    pub tso: bool,
    /// `csum=on|off`: whether the NIC may fill in and check checksums.
    pub csum: bool,
    /// `gro=on|off`: whether received segments of one flow are joined.
    pub gro: bool,
    /// `ports=FIRST-LAST`: ports for data connections.
    pub ports: Option<RangeInclusive<u16>>,
    /// `log=`: how much the log says.
    pub log: log::LevelFilter,
    /// `console=`: where text goes; `None` is where it finds somebody.
    pub console: Option<Choice>,
}

impl Default for Args {
    fn default() -> Self {
        Self {
            ip: Ip::Dhcp,
            gateway: None,
            mtu: None,
            nic: None,
            rx: None,
            weight: None,
            itr: None,
            replenish: None,
            rx_ring: None,
            tx_ring: None,
            tso: true,
            csum: true,
            gro: true,
            ports: None,
            log: log::LevelFilter::Warn,
            console: None,
        }
    }
}

/// Where the IPv4 address comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ip {
    /// `ip=dhcp`.
    Dhcp,
    /// `ip=10.77.0.2/24`; without a prefix length it is 24.
    Static {
        /// The address.
        address: Ipv4Addr,
        /// Bits of the network part.
        prefix_len: u8,
    },
}

/// How frames are fetched from the NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RxMode {
    /// Interrupts, then polls.
    Napi,
    /// Polls only.
    Poll,
    /// Polls while there is traffic, else waits for an interrupt.
    Adaptive,
    /// No stack: frames are answered in the receive loop.
    Reflect,
}

/// Which NIC to take when several are present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NicChoice {
    /// The n-th that has a driver, from 0, in PCI order.
    Index(usize),
    /// By PCI address, `BUS:DEVICE.FUNCTION` in hexadecimal.
    Pci {
        /// Bus number.
        bus: u8,
        /// Device number.
        device: u8,
        /// Function number.
        function: u8,
    },
    /// By station address.
    Mac([u8; 6]),
    /// The first that this driver takes, by the driver's name.
    Driver(String),
}

/// A boot argument that was skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// The word as it was given.
    pub word: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "boot argument '{}' ignored: {}", self.word, self.reason)
    }
}

const UNKNOWN: &str = "no such argument (known: ip gw mtu nic rx weight itr replenish rxring \
                       txring tso csum gro ports log console)";

/// Keys of words that boot loaders add for Linux, of their own accord.
const LOADERS_OWN: [&str; 4] = ["BOOT_IMAGE", "BOOTIF", "acpi_rsdp", "initrd"];

/// The words of a command line, which white space sets apart.
pub(crate) fn words(command_line: &[u8]) -> impl Iterator<Item = &[u8]> {
    command_line
        .split(|byte| byte.is_ascii_whitespace() || *byte == 0)
        .filter(|word| !word.is_empty())
}

/// Reads a command line. Where a key comes twice, the later one counts; several
/// `console=` add up.
pub fn parse(command_line: &[u8]) -> (Args, Vec<Rejected>) {
    let mut args = Args::default();
    let mut rejected = Vec::new();
    for word in words(command_line) {
        let result = match core::str::from_utf8(word) {
            Ok(text) => apply(&mut args, text),
            Err(_) => Err("not valid UTF-8"),
        };
        if let Err(reason) = result {
            rejected.push(Rejected {
                word: printable(word),
                reason,
            });
        }
    }
    let reason = match (args.gateway, args.ip) {
        (Some(_), Ip::Dhcp) => Some("only used with a static ip=ADDRESS/PREFIX"),
        (
            Some(gateway),
            Ip::Static {
                address,
                prefix_len,
            },
        ) if !is_neighbour(gateway, address, prefix_len) => {
            Some("not another host of the network that ip= names")
        }
        _ => None,
    };
    if let (Some(gateway), Some(reason)) = (args.gateway, reason) {
        args.gateway = None;
        rejected.push(Rejected {
            word: alloc::format!("gw={gateway}"),
            reason,
        });
    }
    (args, rejected)
}

fn apply(args: &mut Args, word: &str) -> Result<(), &'static str> {
    let (key, value) = word.split_once('=').ok_or("not of the form key=value")?;
    match key {
        "ip" => args.ip = ip(value)?,
        "gw" => args.gateway = Some(host(value).ok_or("want an IPv4 address")?),
        "mtu" => args.mtu = Some(number(value, 576, 16110).ok_or("want 576 to 16110")?),
        "nic" => args.nic = Some(nic(value)?),
        "rx" => args.rx = Some(rx(value)?),
        "weight" => args.weight = Some(number(value, 1, 4096).ok_or("want 1 to 4096")?),
        "itr" => args.itr = Some(number(value, 0, 1_000_000).ok_or("want 0 to 1000000")?),
        "replenish" => args.replenish = Some(number(value, 1, 4096).ok_or("want 1 to 4096")?),
        "rxring" => args.rx_ring = Some(ring(value)?),
        "txring" => args.tx_ring = Some(ring(value)?),
        "tso" => args.tso = switch(value)?,
        "csum" => args.csum = switch(value)?,
        "gro" => args.gro = switch(value)?,
        "ports" => args.ports = Some(ports(value)?),
        "log" => {
            args.log = value
                .parse()
                .map_err(|_| "want off, error, warn, info or debug")?
        }
        "console" => args.console = Some(args.console.unwrap_or_default().with(value)?),
        _ if LOADERS_OWN.contains(&key) => {}
        _ => return Err(UNKNOWN),
    }
    Ok(())
}

fn number<T: TryFrom<u64>>(text: &str, least: u64, most: u64) -> Option<T> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let value: u64 = text.parse().ok()?;
    (least..=most)
        .contains(&value)
        .then_some(value)?
        .try_into()
        .ok()
}

fn switch(text: &str) -> Result<bool, &'static str> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("want on or off"),
    }
}

fn ring(text: &str) -> Result<u16, &'static str> {
    const WANT: &str = "want a multiple of 8 from 16 to 4096";
    number(text, 16, 4096)
        .filter(|count: &u16| count.is_multiple_of(8))
        .ok_or(WANT)
}

fn host(text: &str) -> Option<Ipv4Addr> {
    text.parse().ok().filter(|address: &Ipv4Addr| {
        !(address.is_unspecified()
            || address.is_multicast()
            || address.is_broadcast()
            || address.is_loopback())
    })
}

fn ip(text: &str) -> Result<Ip, &'static str> {
    const WANT: &str = "want 'dhcp', or an address with its prefix length like 10.77.0.2/24";
    if text == "dhcp" {
        return Ok(Ip::Dhcp);
    }
    let (address, prefix_len) = text.split_once('/').unwrap_or((text, "24"));
    let address = host(address).ok_or(WANT)?;
    let prefix_len = number(prefix_len, 1, 31).ok_or(WANT)?;
    if is_edge(address, prefix_len) {
        return Err("that is the network's own or its broadcast address");
    }
    Ok(Ip::Static {
        address,
        prefix_len,
    })
}

/// Whether an address is its network's first or last. A network of two has only
/// hosts (RFC 3021).
fn is_edge(address: Ipv4Addr, prefix_len: u8) -> bool {
    let hosts = u32::MAX >> prefix_len;
    let host = u32::from(address) & hosts;
    prefix_len < 31 && (host == 0 || host == hosts)
}

/// Whether a gateway is another host of the network.
fn is_neighbour(gateway: Ipv4Addr, address: Ipv4Addr, prefix_len: u8) -> bool {
    let network = !(u32::MAX >> prefix_len);
    gateway != address && (u32::from(gateway) ^ u32::from(address)) & network == 0
}

fn rx(text: &str) -> Result<RxMode, &'static str> {
    match text {
        "napi" => Ok(RxMode::Napi),
        "poll" => Ok(RxMode::Poll),
        "adaptive" => Ok(RxMode::Adaptive),
        "reflect" => Ok(RxMode::Reflect),
        _ => Err("want napi, poll, adaptive or reflect"),
    }
}

fn ports(text: &str) -> Result<RangeInclusive<u16>, &'static str> {
    const WANT: &str = "want FIRST-LAST, at least two ports from 1024 to 65535 without 12865";
    let (first, last) = text.split_once('-').ok_or(WANT)?;
    let first: u16 = number(first, 1024, 65535).ok_or(WANT)?;
    let last: u16 = number(last, 1024, 65535).ok_or(WANT)?;
    if last <= first || (first..=last).contains(&12865) {
        return Err(WANT);
    }
    Ok(first..=last)
}

fn nic(text: &str) -> Result<NicChoice, &'static str> {
    const WANT: &str = "want a driver's name, an index from 0, a PCI address like 00:03.0, or a \
                        MAC address";
    if let Some(choice) = pci_address(text).or_else(|| mac_address(text)) {
        return Ok(choice);
    }
    if let Ok(index) = text.parse() {
        return Ok(NicChoice::Index(index));
    }
    let is_name = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    is_name
        .then(|| NicChoice::Driver(text.to_string()))
        .ok_or(WANT)
}

fn pci_address(text: &str) -> Option<NicChoice> {
    let text = text.strip_prefix("0000:").unwrap_or(text);
    let (bus, rest) = text.split_once(':')?;
    let (device, function) = rest.split_once('.')?;
    let device = hex_byte(device).filter(|device| *device < 32)?;
    let function = hex_byte(function).filter(|function| *function < 8)?;
    Some(NicChoice::Pci {
        bus: hex_byte(bus)?,
        device,
        function,
    })
}

fn mac_address(text: &str) -> Option<NicChoice> {
    let mut mac = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut mac {
        *byte = hex_byte(parts.next()?)?;
    }
    parts.next().is_none().then_some(NicChoice::Mac(mac))
}

fn hex_byte(text: &str) -> Option<u8> {
    ((1..=2).contains(&text.len()) && text.bytes().all(|c| c.is_ascii_hexdigit()))
        .then(|| u8::from_str_radix(text, 16).ok())
        .flatten()
}

fn printable(word: &[u8]) -> String {
    const LONGEST: usize = 60;
    let shown = &word[..word.len().min(LONGEST)];
    let mut text: String = shown
        .iter()
        .map(|byte| match byte {
            b' '..=b'~' => char::from(*byte),
            _ => '?',
        })
        .collect();
    if word.len() > LONGEST {
        text.push_str("...");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn accepted(line: &str) -> Args {
        let (args, rejected) = parse(line.as_bytes());
        assert_eq!(rejected, [], "{line}");
        args
    }

    fn refused(line: &str) -> Rejected {
        let (args, mut rejected) = parse(line.as_bytes());
        assert_eq!(args, Args::default(), "{line} must change nothing");
        assert_eq!(rejected.len(), 1, "{line}");
        rejected.remove(0)
    }

    #[test]
    fn what_boot_loaders_add_is_taken_without_a_word() {
        let line = "BOOT_IMAGE=(hd0)/uniperf.efi initrd=fw.bin BOOTIF=01-52-54-00-12-34-56 \
                    acpi_rsdp=0x7fb7e014";
        assert_eq!(accepted(line), Args::default());
    }

    #[test]
    fn an_empty_line_gives_the_defaults() {
        assert_eq!(accepted("  \t\n "), Args::default());
    }

    #[test]
    fn a_full_line_is_read() {
        let args = accepted(
            "ip=10.77.0.2/16 gw=10.77.0.1 mtu=1500 nic=00:03.0 rx=napi weight=16 itr=8000 \
             replenish=8 rxring=512 txring=1024 tso=off csum=off gro=off ports=5000-5009 log=debug \
             console=screen",
        );
        assert_eq!(
            args,
            Args {
                ip: Ip::Static {
                    address: Ipv4Addr::new(10, 77, 0, 2),
                    prefix_len: 16
                },
                gateway: Some(Ipv4Addr::new(10, 77, 0, 1)),
                mtu: Some(1500),
                nic: Some(NicChoice::Pci {
                    bus: 0,
                    device: 3,
                    function: 0
                }),
                rx: Some(RxMode::Napi),
                weight: Some(16),
                itr: Some(8000),
                replenish: Some(8),
                rx_ring: Some(512),
                tx_ring: Some(1024),
                tso: false,
                csum: false,
                gro: false,
                ports: Some(5000..=5009),
                log: log::LevelFilter::Debug,
                console: Choice::of(b"console=screen"),
            }
        );
    }

    #[test]
    fn nics_are_named_in_four_ways() {
        assert_eq!(accepted("nic=1").nic, Some(NicChoice::Index(1)));
        assert_eq!(
            accepted("nic=e1000").nic,
            Some(NicChoice::Driver("e1000".into()))
        );
        assert_eq!(
            accepted("nic=0000:1f:1e.7").nic,
            Some(NicChoice::Pci {
                bus: 0x1f,
                device: 0x1e,
                function: 7
            })
        );
        assert_eq!(
            accepted("nic=52:54:00:12:34:56").nic,
            Some(NicChoice::Mac([0x52, 0x54, 0, 0x12, 0x34, 0x56]))
        );
    }

    #[test]
    fn an_address_without_prefix_length_is_a_slash_24() {
        assert_eq!(
            accepted("ip=192.0.2.7").ip,
            Ip::Static {
                address: Ipv4Addr::new(192, 0, 2, 7),
                prefix_len: 24
            }
        );
    }

    #[test]
    fn malformed_words_change_nothing() {
        for line in [
            "ip=",
            "ip=10.0.0",
            "ip=10.0.0.1/0",
            "ip=10.0.0.1/33",
            "ip=224.0.0.1/24",
            "ip=0.0.0.0",
            "ip=127.0.0.1/8",
            "ip=10.77.0.0/24",
            "ip=10.77.0.255/24",
            "ip=10.77.0.2/+24",
            "gw=x",
            "mtu=99999",
            "mtu=-1",
            "nic=",
            "nic=52:54:00:12:34",
            "nic=00:20.0",
            "nic=00:03.8",
            "rx=fast",
            "weight=0",
            "itr=x",
            "replenish=0",
            "rxring=17",
            "txring=8192",
            "ports=5000",
            "ports=80-90",
            "ports=5010-5000",
            "ports=12000-13000",
            "log=loud",
            "console=lpt1",
            "tso=1",
            "csum=",
            "quiet",
            "frobnicate=1",
            "=",
            "=x",
        ] {
            refused(line);
        }
    }

    #[test]
    fn the_message_names_the_word_and_the_remedy() {
        assert_eq!(
            refused("rx=fast").to_string(),
            "boot argument 'rx=fast' ignored: want napi, poll, adaptive or reflect"
        );
    }

    #[test]
    fn the_later_of_two_words_counts() {
        assert_eq!(accepted("weight=1 weight=2").weight, Some(2));
    }

    #[test]
    fn a_gateway_must_be_a_neighbour() {
        for line in [
            "ip=10.0.0.1/24 gw=10.0.1.1",
            "ip=10.0.0.1/24 gw=10.0.0.1",
            "gw=10.0.0.2",
        ] {
            let (args, rejected) = parse(line.as_bytes());
            assert_eq!((args.gateway, rejected.len()), (None, 1), "{line}");
        }
        let args = accepted("gw=10.0.0.1 ip=10.0.0.0/31");
        assert_eq!(args.gateway, Some(Ipv4Addr::new(10, 0, 0, 1)));
    }

    #[test]
    fn a_gateway_without_static_address_is_reported() {
        let (args, rejected) = parse(b"gw=10.0.0.1");
        assert_eq!(args.ip, Ip::Dhcp);
        assert_eq!(rejected.len(), 1);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(line in proptest::collection::vec(any::<u8>(), 0..300)) {
            let (_, rejected) = parse(&line);
            for word in rejected {
                prop_assert!(word.to_string().is_ascii());
            }
        }

        #[test]
        fn a_bad_word_does_not_spoil_its_neighbours(junk in "[a-z]{1,9}=[^ \t\r\n\x0b\x0c]{0,9}") {
            let line = std::format!("weight=7 {junk} mtu=1400");
            let (args, rejected) = parse(line.as_bytes());
            if !rejected.is_empty() {
                prop_assert_eq!(args.weight, Some(7));
                prop_assert_eq!(args.mtu, Some(1400));
            }
        }
    }
}
