//! The appliance as its peer sees it: exchanges over a wire made of memory.

mod basics;
mod console;
mod dhcp;
mod guard;
mod hostile;
mod icmp;
mod limits;
mod lossy;
mod many;
mod netperf;
mod path_mtu;
mod receive;
mod recovery;
mod tcp;
mod udp;
