//! Where the appliance's address comes from: set by hand, or by DHCP
//! (RFC 2131), which may also take it away.

use alloc::boxed::Box;
use alloc::vec;
use core::fmt;

use smoltcp::iface::{Interface, SocketHandle, SocketSet};
use smoltcp::socket::dhcpv4;
use smoltcp::time::Duration;
use smoltcp::wire::{DhcpPacket, DhcpRepr, IpAddress, IpCidr, Ipv4Address, Ipv4Cidr};

use crate::config::AddressConfig;

const SECOND: u64 = 1_000_000_000;
/// How long DHCP servers are asked often before they are asked less often.
const EAGER: u64 = 30 * SECOND;
const EAGER_RETRY: Duration = Duration::from_secs(2);
const PATIENT_RETRY: Duration = Duration::from_secs(10);
/// When the console first says that nobody answers. It says so again after twice that,
/// and twice that, up to the longest pause.
const FIRST_HINT: u64 = 5 * SECOND;
const LONGEST_PAUSE: u64 = 120 * SECOND;
/// Longest DHCP message that is looked into.
const MESSAGE: usize = 1500;

/// What happened to the address, as the console says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// It was set by hand.
    Set {
        /// The address.
        cidr: Ipv4Cidr,
        /// The default gateway.
        gateway: Option<Ipv4Address>,
    },
    /// A DHCP server gave it.
    Leased {
        /// The address.
        cidr: Ipv4Cidr,
        /// The default gateway.
        gateway: Option<Ipv4Address>,
        /// Who gave it.
        server: Ipv4Address,
        /// For how many seconds.
        seconds: u32,
    },
    /// The lease was not renewed, or was taken back.
    Lost {
        /// The address.
        address: Ipv4Address,
    },
    /// No DHCP server has answered so far.
    NoAnswer {
        /// For how many seconds.
        seconds: u64,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gateway_and = |f: &mut fmt::Formatter<'_>, gateway: Option<Ipv4Address>| match gateway {
            Some(gateway) => write!(f, ", gateway {gateway}"),
            None => f.write_str(", no gateway"),
        };
        match *self {
            Notice::Set { cidr, gateway } => {
                write!(f, "address {cidr} as set by ip=")?;
                gateway_and(f, gateway)
            }
            Notice::Leased {
                cidr,
                gateway,
                server,
                seconds,
            } => {
                write!(f, "address {cidr} by DHCP from {server}")?;
                gateway_and(f, gateway)?;
                write!(f, ", lease {seconds} s")
            }
            Notice::Lost { address } => {
                write!(
                    f,
                    "address {address} lost, its DHCP lease has ended; asking again"
                )
            }
            Notice::NoAnswer { seconds } => write!(
                f,
                "no DHCP server has answered for {seconds} s; still asking (is the cable \
                 in the right network? To do without DHCP, boot with ip=ADDRESS/PREFIX \
                 and gw=GATEWAY)"
            ),
        }
    }
}

/// The address and its source.
pub struct Addressing {
    source: Source,
    current: Option<Ipv4Cidr>,
    gateway: Option<Ipv4Address>,
    /// Leases that were renewed.
    pub renewals: u64,
}

enum Source {
    Hand { announced: bool },
    Dhcp(Dhcp),
}

struct Dhcp {
    socket: SocketHandle,
    /// When the lease ends.
    expires: u64,
    /// Whether servers are asked anew while the old lease still holds, because
    /// the link was down and may now lead elsewhere.
    restarted: bool,
    /// Since when servers have been asked in vain.
    asking_since: u64,
    hint_at: u64,
    /// Between the last hint and the next.
    pause: u64,
}

impl Addressing {
    /// Gives `interface` its address, or adds a DHCP client to `sockets`.
    pub fn new(
        config: &AddressConfig,
        interface: &mut Interface,
        sockets: &mut SocketSet<'static>,
        now: u64,
    ) -> Self {
        match *config {
            AddressConfig::Static { cidr, gateway } => {
                let gateway = gateway.filter(is_host);
                configure(interface, Some(cidr), gateway);
                Self {
                    source: Source::Hand { announced: false },
                    current: Some(cidr),
                    gateway,
                    renewals: 0,
                }
            }
            AddressConfig::Dhcp => Self {
                source: Source::Dhcp(Dhcp::new(sockets, now)),
                current: None,
                gateway: None,
                renewals: 0,
            },
        }
    }

    /// The present address.
    pub fn current(&self) -> Option<Ipv4Cidr> {
        self.current
    }

    /// The neighbour that a packet to `peer` goes to: the peer itself, or the
    /// gateway. `None` if there is no way to it, or no host can have its address.
    pub fn next_hop(&self, peer: Ipv4Address) -> Option<Ipv4Address> {
        let ours = self.current?;
        if !ours.contains_addr(&peer) {
            return self.gateway;
        }
        let network = ours.network().address();
        let is_host = ours.prefix_len() > 30 || peer != network && ours.broadcast() != Some(peer);
        (is_host && peer != ours.address()).then_some(peer)
    }

    /// The link came up, perhaps to another network. The address is kept until
    /// a server says otherwise, so that a cable that was out for a moment does
    /// not break connections.
    pub fn link_up(&mut self, sockets: &mut SocketSet<'static>, now: u64) {
        if let Source::Dhcp(dhcp) = &mut self.source {
            dhcp.restart(sockets, self.current.is_some(), now);
        }
    }

    /// When [`update`](Self::update) has something to do though no frame came.
    pub fn deadline(&self) -> Option<u64> {
        let Source::Dhcp(dhcp) = &self.source else {
            return None;
        };
        match self.current {
            None => Some(dhcp.hint_at),
            Some(_) => dhcp.restarted.then_some(dhcp.expires),
        }
    }

    /// Looks whether the address has changed. To be called whenever the set
    /// that holds the DHCP client was driven, and at the deadline.
    pub fn update(
        &mut self,
        interface: &mut Interface,
        sockets: &mut SocketSet<'static>,
        now: u64,
    ) -> Option<Notice> {
        let dhcp = match &mut self.source {
            Source::Dhcp(dhcp) => dhcp,
            Source::Hand { announced: true } => return None,
            Source::Hand { announced } => {
                *announced = true;
                return self.current.map(|cidr| Notice::Set {
                    cidr,
                    gateway: self.gateway,
                });
            }
        };
        match sockets.get_mut::<dhcpv4::Socket>(dhcp.socket).poll() {
            Some(dhcpv4::Event::Configured(lease)) => {
                let seconds = lease.packet.as_ref().map_or(0, lease_seconds);
                dhcp.expires = now + u64::from(seconds) * SECOND;
                dhcp.restarted = false;
                let gateway = lease.router.filter(is_host);
                if self.current == Some(lease.address) && self.gateway == gateway {
                    self.renewals += 1;
                    return None;
                }
                self.current = Some(lease.address);
                self.gateway = gateway;
                configure(interface, self.current, gateway);
                Some(Notice::Leased {
                    cidr: lease.address,
                    gateway,
                    server: lease.server.identifier,
                    seconds,
                })
            }
            Some(dhcpv4::Event::Deconfigured) if !dhcp.restarted => self.lose(interface, now),
            _ if dhcp.restarted && now >= dhcp.expires => self.lose(interface, now),
            _ if self.current.is_none() && now >= dhcp.hint_at => {
                dhcp.pause = (dhcp.pause * 2).min(LONGEST_PAUSE);
                dhcp.hint_at = now + dhcp.pause;
                if now >= dhcp.asking_since + EAGER {
                    dhcp.ask_every(sockets, PATIENT_RETRY);
                }
                Some(Notice::NoAnswer {
                    seconds: (now - dhcp.asking_since) / SECOND,
                })
            }
            _ => None,
        }
    }

    fn lose(&mut self, interface: &mut Interface, now: u64) -> Option<Notice> {
        if let Source::Dhcp(dhcp) = &mut self.source {
            dhcp.restarted = false;
            dhcp.asks_from(now);
        }
        self.gateway = None;
        let lost = self.current.take()?;
        configure(interface, None, None);
        Some(Notice::Lost {
            address: lost.address(),
        })
    }
}

impl Dhcp {
    fn new(sockets: &mut SocketSet<'static>, now: u64) -> Self {
        let mut socket = dhcpv4::Socket::new();
        // For the lease time, which smoltcp keeps to itself. One buffer, which
        // lives as long as the appliance.
        socket.set_receive_packet_buffer(Box::leak(vec![0; MESSAGE].into_boxed_slice()));
        let mut dhcp = Self {
            socket: sockets.add(socket),
            expires: 0,
            restarted: false,
            asking_since: now,
            hint_at: now + FIRST_HINT,
            pause: FIRST_HINT,
        };
        dhcp.ask_every(sockets, EAGER_RETRY);
        dhcp
    }

    fn restart(&mut self, sockets: &mut SocketSet<'static>, has_address: bool, now: u64) {
        sockets.get_mut::<dhcpv4::Socket>(self.socket).reset();
        self.restarted = has_address;
        self.asks_from(now);
        self.ask_every(sockets, EAGER_RETRY);
    }

    fn asks_from(&mut self, now: u64) {
        self.asking_since = now;
        self.pause = FIRST_HINT;
        self.hint_at = now + FIRST_HINT;
    }

    fn ask_every(&mut self, sockets: &mut SocketSet<'static>, interval: Duration) {
        let mut retry = dhcpv4::RetryConfig::default();
        retry.discover_timeout = interval;
        retry.initial_request_timeout = EAGER_RETRY;
        sockets
            .get_mut::<dhcpv4::Socket>(self.socket)
            .set_retry_config(retry);
    }
}

/// Whether an address can be a gateway's: smoltcp must not be made to look for
/// one that no station can have.
fn is_host(address: &Ipv4Address) -> bool {
    IpAddress::from(*address).is_unicast()
}

fn lease_seconds(message: &DhcpPacket<&[u8]>) -> u32 {
    // smoltcp's own choice where the server says nothing.
    const UNSAID: u32 = 120;
    let message = DhcpRepr::parse(message).ok();
    message.and_then(|m| m.lease_duration).unwrap_or(UNSAID)
}

fn configure(interface: &mut Interface, cidr: Option<Ipv4Cidr>, gateway: Option<Ipv4Address>) {
    interface.update_ip_addrs(|addresses| {
        addresses.clear();
        if let Some(cidr) = cidr {
            addresses
                .push(IpCidr::Ipv4(cidr))
                .expect("an interface has room for one address");
        }
    });
    let routes = interface.routes_mut();
    routes.remove_default_ipv4_route();
    if let Some(gateway) = gateway {
        routes
            .add_default_ipv4_route(gateway)
            .expect("a routing table has room for one route");
    }
}
