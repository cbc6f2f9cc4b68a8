//! The host at the other end: a plain smoltcp interface.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::{tcp, udp};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, IpAddress, IpCidr, IpEndpoint};

use super::frames::{OUR_IP, PEER_IP, PEER_MAC};

pub struct Peer {
    pub interface: Interface,
    pub sockets: SocketSet<'static>,
    pub wire: Wire,
    next_port: u16,
}

#[derive(Default)]
pub struct Wire {
    pub inbound: VecDeque<Vec<u8>>,
    pub outbound: VecDeque<Vec<u8>>,
    pub mtu: usize,
}

impl Peer {
    pub fn new(mtu: usize) -> Self {
        let mut wire = Wire {
            mtu,
            ..Wire::default()
        };
        let mut config = Config::new(EthernetAddress(PEER_MAC).into());
        config.random_seed = 7;
        let mut interface = Interface::new(config, &mut wire, Instant::ZERO);
        interface.update_ip_addrs(|addresses| {
            addresses.push(IpCidr::new(PEER_IP.into(), 24)).unwrap();
        });
        Self {
            interface,
            sockets: SocketSet::new(Vec::new()),
            wire,
            next_port: 40_000,
        }
    }

    pub fn poll(&mut self, now: Instant) {
        self.interface.poll(now, &mut self.wire, &mut self.sockets);
    }

    pub fn poll_at(&mut self, now: Instant) -> Option<Instant> {
        self.interface.poll_at(now, &self.sockets)
    }

    pub fn port(&mut self) -> u16 {
        self.next_port += 1;
        self.next_port
    }

    /// Begins a connection to the appliance.
    pub fn connect(&mut self, port: u16) -> SocketHandle {
        let local = self.port();
        self.connect_from(local, port)
    }

    pub fn connect_from(&mut self, local: u16, port: u16) -> SocketHandle {
        let buffer = || tcp::SocketBuffer::new(vec![0; 65_535]);
        let mut socket = tcp::Socket::new(buffer(), buffer());
        socket
            .connect(
                self.interface.context(),
                (IpAddress::from(OUR_IP), port),
                local,
            )
            .unwrap();
        self.sockets.add(socket)
    }

    pub fn tcp(&mut self, handle: SocketHandle) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(handle)
    }

    pub fn udp_socket(&mut self) -> SocketHandle {
        let buffer =
            || udp::PacketBuffer::new(vec![udp::PacketMetadata::EMPTY; 256], vec![0; 300_000]);
        let mut socket = udp::Socket::new(buffer(), buffer());
        socket.bind(self.port()).unwrap();
        self.sockets.add(socket)
    }

    pub fn udp(&mut self, handle: SocketHandle) -> &mut udp::Socket<'static> {
        self.sockets.get_mut(handle)
    }
}

/// Where the appliance's `port` is.
pub fn appliance(port: u16) -> IpEndpoint {
    IpEndpoint::new(OUR_IP.into(), port)
}

impl Device for Wire {
    type RxToken<'a> = In;
    type TxToken<'a> = Out<'a>;

    fn receive(&mut self, _: Instant) -> Option<(In, Out<'_>)> {
        let frame = self.inbound.pop_front()?;
        Some((In(frame), Out(&mut self.outbound)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Out<'_>> {
        Some(Out(&mut self.outbound))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = self.mtu + 14;
        capabilities
    }
}

pub struct In(Vec<u8>);

impl RxToken for In {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

pub struct Out<'a>(&'a mut VecDeque<Vec<u8>>);

impl TxToken for Out<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut frame = vec![0; len];
        let result = f(&mut frame);
        self.0.push_back(frame);
        result
    }
}
