//! The wire between this machine and the appliance.

use std::ffi::OsStr;
use std::net::{IpAddr, Ipv4Addr, TcpListener, UdpSocket};
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::Command;
use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};

use crate::dhcp::{BootOffer, DhcpOptions, DhcpServer};
use crate::impair::ImpairedLink;
use crate::namespace::Namespace;

/// Port of netperf's control connection, on the appliance.
pub const CONTROL_PORT: u16 = 12865;
/// How many data ports user networking forwards.
const DATA_PORTS: u16 = 32;
/// The first of QEMU's hubs that connect device models to user networks.
const FIRST_HUB: usize = 1;

/// Which kind of network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetKind {
    /// A tap device in a namespace of its own. Needs root.
    Tap,
    /// QEMU's user network, with ports forwarded on 127.0.0.1.
    User,
}

impl NetKind {
    /// Tap where it is possible.
    pub fn best() -> Self {
        let root = nix::unistd::geteuid().is_root();
        let tun = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/net/tun");
        if root && tun.is_ok() {
            Self::Tap
        } else {
            Self::User
        }
    }
}

impl FromStr for NetKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "tap" => Ok(Self::Tap),
            "user" => Ok(Self::User),
            _ => Err("it is tap or user".into()),
        }
    }
}

/// A network that one appliance is attached to.
#[derive(Debug)]
pub enum Network {
    /// See [`NetKind::Tap`].
    Tap(TapNetwork),
    /// See [`NetKind::User`].
    User(UserNetwork),
}

/// Taps `tap0`, `tap1` … in a namespace, the host's side of number `n` being
/// 10.77.`n`.1/24.
#[derive(Debug)]
pub struct TapNetwork {
    dhcp: Option<DhcpServer>,
    without_dhcp: bool,
    taps: usize,
    link: Option<Box<ImpairedLink>>,
    namespace: Namespace,
}

/// QEMU's user network.
#[derive(Clone, Debug)]
pub struct UserNetwork {
    control: u16,
    data: RangeInclusive<u16>,
    boot: Option<BootOffer>,
}

impl Network {
    /// A network of that kind for a person's run, in the namespace `name` if it is
    /// a tap.
    pub fn of_kind(kind: NetKind, name: &str) -> Result<Self> {
        match kind {
            NetKind::Tap => Ok(Self::Tap(TapNetwork::new(Namespace::create(name)?))),
            NetKind::User => Self::user(),
        }
    }

    /// A tap network in a namespace that nobody else uses.
    pub fn tap() -> Result<Self> {
        Ok(Self::Tap(TapNetwork::new(Namespace::create_private()?)))
    }

    /// User networking on ports that are free now.
    pub fn user() -> Result<Self> {
        let data = free_range(DATA_PORTS)?;
        // Bound for a moment only, as QEMU is to bind it.
        let control = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
            .local_addr()?
            .port();
        Ok(Self::User(UserNetwork {
            control,
            data,
            boot: None,
        }))
    }

    /// Which kind it is.
    pub fn kind(&self) -> NetKind {
        match self {
            Self::Tap(_) => NetKind::Tap,
            Self::User(_) => NetKind::User,
        }
    }

    /// The tap network, or an error for user networking.
    pub fn as_tap(&self) -> Result<&TapNetwork> {
        match self {
            Self::Tap(tap) => Ok(tap),
            Self::User(_) => bail!("this needs a tap"),
        }
    }

    /// The tap network for changes, or an error for user networking.
    pub fn as_tap_mut(&mut self) -> Result<&mut TapNetwork> {
        match self {
            Self::Tap(tap) => Ok(tap),
            Self::User(_) => bail!("this needs a tap"),
        }
    }

    /// A command that will run where the appliance can be reached from.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        if let Self::Tap(tap) = self {
            tap.namespace.hold(&mut command);
        }
        command
    }

    /// Runs `task` where the appliance can be reached from.
    pub fn enter<T: Send>(&self, task: impl FnOnce() -> T + Send) -> Result<T> {
        match self {
            Self::Tap(tap) => tap.namespace.enter(task),
            Self::User(_) => Ok(task()),
        }
    }

    /// What to type before a command so that it runs there.
    pub fn prefix(&self) -> String {
        match self {
            Self::Tap(tap) => format!("ip netns exec {} ", tap.namespace.name()),
            Self::User(_) => String::new(),
        }
    }

    /// Where netperf reaches an appliance that says it has the address `own`.
    pub fn endpoint(&self, own: IpAddr) -> (IpAddr, u16) {
        match self {
            Self::Tap(_) => (own, CONTROL_PORT),
            Self::User(user) => (Ipv4Addr::LOCALHOST.into(), user.control),
        }
    }

    /// All boot arguments of an appliance on this network that is given the user's
    /// own, `given`.
    pub fn boot_arguments(&self, given: &str) -> String {
        let mut all = self.arguments(given);
        all.extend((!given.is_empty()).then(|| given.to_owned()));
        all.join(" ")
    }

    /// Lends addresses, and offers a file to boot from the network.
    pub fn serve_boot(&mut self, offer: BootOffer) -> Result<()> {
        match self {
            Self::Tap(tap) => tap.serve_dhcp(&DhcpOptions {
                boot: Some(offer),
                ..DhcpOptions::default()
            }),
            Self::User(user) => {
                user.boot = Some(offer);
                Ok(())
            }
        }
    }

    /// The boot arguments this network asks for, given the user's.
    fn arguments(&self, given: &str) -> Vec<String> {
        let lacks = |key: &str| !given.split_whitespace().any(|word| word.starts_with(key));
        let mut arguments = Vec::new();
        match self {
            Self::Tap(_) if lacks("ip=") => arguments.push("ip=10.77.0.2/24".into()),
            Self::User(user) if lacks("ports=") => {
                arguments.push(format!("ports={}-{}", user.data.start(), user.data.end()));
            }
            _ => {}
        }
        arguments
    }

    /// Makes the network fit to the boot arguments: a DHCP server where the
    /// appliance is told to ask for one on a tap, and the user's own data ports.
    pub(crate) fn fit(&mut self, arguments: &str) -> Result<()> {
        let value = |key: &str| {
            let mut words = arguments.split_whitespace();
            words.rfind(|word| word.starts_with(key))?.strip_prefix(key)
        };
        match self {
            Self::Tap(tap) => {
                if value("ip=") == Some("dhcp") && tap.dhcp.is_none() && !tap.without_dhcp {
                    tap.serve_dhcp(&DhcpOptions::default())?;
                }
            }
            Self::User(user) => {
                if let Some(ports) = value("ports=") {
                    user.data = parse_range(ports)
                        .with_context(|| format!("ports={ports} is no FIRST-LAST"))?;
                }
            }
        }
        Ok(())
    }

    /// The `-netdev` of NIC number `index`, which QEMU emulates.
    pub(crate) fn netdev(&mut self, index: usize) -> Result<String> {
        match self {
            Self::Tap(tap) => {
                let name = tap.tap(index)?;
                if let (0, Some(link)) = (index, &tap.link) {
                    return Ok(format!("{},id=net0", link.netdev()));
                }
                Ok(format!(
                    "tap,id=net{index},ifname={name},script=no,downscript=no"
                ))
            }
            Self::User(user) => user.netdev(index),
        }
    }

    /// What connects NIC number `index` where a device model of ours emulates it, with
    /// sockets in `folder`.
    pub(crate) fn cable(&mut self, index: usize, folder: &Path) -> Result<Cable> {
        match self {
            Self::Tap(tap) => {
                let name = tap.tap(index)?;
                let model = match (index, &tap.link) {
                    (0, Some(link)) => ["--dgram".into(), link.model_sockets()],
                    _ => ["--tap".into(), name],
                };
                Ok(Cable {
                    model: model.into(),
                    netdevs: Vec::new(),
                })
            }
            Self::User(user) => {
                let socket = |end| folder.join(format!("cable{index}-{end}"));
                let (model, qemu) = (socket("model"), socket("qemu"));
                let hub = index + FIRST_HUB;
                let port = |netdev: String| {
                    format!("hubport,id=port-{netdev},hubid={hub},netdev={netdev}")
                };
                Ok(Cable {
                    model: vec!["--dgram".into(), socket_pair(&model, &qemu)],
                    netdevs: vec![
                        user.netdev(index)?,
                        format!("{},id=cable{index}", dgram(&qemu, &model)),
                        port(format!("net{index}")),
                        port(format!("cable{index}")),
                    ],
                })
            }
        }
    }
}

/// How a device model is connected.
#[derive(Debug)]
pub(crate) struct Cable {
    /// Its own arguments for that.
    pub(crate) model: Vec<String>,
    /// The values of QEMU's `-netdev`, which is the far end of some.
    pub(crate) netdevs: Vec<String>,
}

/// QEMU's `-netdev` for datagrams between the Unix sockets `own` and `peer`, but for
/// the id.
pub(crate) fn dgram(own: &Path, peer: &Path) -> String {
    let text = |path: &Path| path.display().to_string().replace(',', ",,");
    format!(
        "dgram,local.type=unix,local.path={},remote.type=unix,remote.path={}",
        text(own),
        text(peer)
    )
}

/// The same for a device model.
pub(crate) fn socket_pair(own: &Path, peer: &Path) -> String {
    format!("{},{}", own.display(), peer.display())
}

impl UserNetwork {
    fn netdev(&self, index: usize) -> Result<String> {
        let mut option = format!("user,id=net{index},ipv6=off");
        if index > 0 {
            return Ok(option);
        }
        option += &format!(",hostfwd=tcp:127.0.0.1:{}-:{CONTROL_PORT}", self.control);
        for port in self.data.clone() {
            for protocol in ["tcp", "udp"] {
                option += &format!(",hostfwd={protocol}:127.0.0.1:{port}-:{port}");
            }
        }
        if let Some(boot) = &self.boot {
            option += &boot.user_options()?;
        }
        Ok(option)
    }
}

impl TapNetwork {
    fn new(namespace: Namespace) -> Self {
        Self {
            dhcp: None,
            without_dhcp: false,
            taps: 0,
            link: None,
            namespace,
        }
    }

    /// The namespace the taps are in.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// The DHCP server, if one was started.
    pub fn dhcp(&self) -> Option<&DhcpServer> {
        self.dhcp.as_ref()
    }

    /// Makes tap number `index` and those before it, and names it.
    pub fn tap(&mut self, index: usize) -> Result<String> {
        while self.taps <= index {
            let tap = format!("tap{}", self.taps);
            let address = format!("10.77.{}.1/24", self.taps);
            self.namespace
                .ip(&["tuntap", "add", "dev", &tap, "mode", "tap"])?;
            self.namespace.ip(&["addr", "add", &address, "dev", &tap])?;
            self.namespace.ip(&["link", "set", &tap, "up"])?;
            self.taps += 1;
        }
        Ok(format!("tap{index}"))
    }

    /// Puts a link between `tap0` and the guest that is going to start; it can be
    /// told to lose frames and worse.
    pub fn impair(&mut self) -> Result<&ImpairedLink> {
        let name = self.tap(0)?;
        let link = match self.link.take() {
            Some(link) => link,
            None => Box::new(ImpairedLink::start(&self.namespace, &name)?),
        };
        Ok(self.link.insert(link))
    }

    /// The link that [`impair`](Self::impair) has made, if it has.
    pub fn link(&self) -> Option<&ImpairedLink> {
        self.link.as_deref()
    }

    /// Takes `tap0` down or up.
    pub fn set_up(&self, up: bool) -> Result<()> {
        let state = if up { "up" } else { "down" };
        self.namespace.ip(&["link", "set", "tap0", state])?;
        Ok(())
    }

    /// Starts a DHCP server on `tap0`.
    pub fn serve_dhcp(&mut self, options: &DhcpOptions) -> Result<()> {
        self.tap(0)?;
        self.dhcp = None;
        self.dhcp = Some(DhcpServer::start(&self.namespace, options)?);
        Ok(())
    }

    /// Has no DHCP server started for an appliance that will ask for one.
    pub fn keep_without_dhcp(&mut self) {
        self.without_dhcp = true;
    }

    /// Ends the DHCP server.
    pub fn stop_dhcp(&mut self) {
        self.dhcp = None;
    }
}

fn parse_range(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-')?;
    let range = first.parse().ok()?..=last.parse().ok()?;
    (!range.is_empty()).then_some(range)
}

/// A range of ports below the ephemeral ones that are all free on 127.0.0.1.
fn free_range(count: u16) -> Result<RangeInclusive<u16>> {
    let ephemeral = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")
        .ok()
        .and_then(|text| text.split_whitespace().next()?.parse::<u16>().ok())
        .unwrap_or(32768);
    let first = 20000_u16;
    let ranges = ephemeral.saturating_sub(first) / count;
    ensure!(ranges > 0, "no room for {count} data ports");
    // Processes that start together look at different places first.
    let start = u16::try_from(std::process::id() % u32::from(ranges))?;
    (0..ranges)
        .map(|n| first + (start + n) % ranges * count)
        .map(|first| first..=first + (count - 1))
        .find(|range| range.clone().all(is_free))
        .with_context(|| format!("no {count} free ports in a row"))
}

fn is_free(port: u16) -> bool {
    let address = (Ipv4Addr::LOCALHOST, port);
    TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok()
}

/// Whether KVM can be used: a `/dev/kvm` can exist where it cannot.
pub(crate) fn kvm_usable() -> bool {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut words = cpuinfo.split_whitespace();
    words.any(|word| word == "vmx" || word == "svm") && Path::new("/dev/kvm").exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_ranges_are_read_and_nonsense_is_not() {
        assert_eq!(parse_range("20000-20031"), Some(20000..=20031));
        for text in ["20000", "5-4", "a-b", "1-70000", ""] {
            assert_eq!(parse_range(text), None, "{text}");
        }
    }

    #[test]
    fn free_ranges_are_free() {
        let range = free_range(8).unwrap();
        assert_eq!(range.len(), 8);
        let _taken = TcpListener::bind((Ipv4Addr::LOCALHOST, *range.start())).unwrap();
        assert!(!is_free(*range.start()));
        assert_ne!(free_range(8).unwrap(), range);
    }

    #[test]
    fn what_the_user_gives_is_not_given_again() {
        let network = Network::user().unwrap();
        assert_eq!(network.arguments("rx=poll").len(), 1);
        assert!(network.arguments("rx=poll ports=5000-5009").is_empty());
    }
}
