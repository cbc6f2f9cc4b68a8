//! The arguments of `pxe`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use uniperf_harness::netboot::{NetBoot, Via};
use uniperf_harness::{Firmware, Image, Machine, MachineType, NetKind, Network, NicModel};

/// How to boot from the network.
#[derive(Args, Debug)]
pub struct PxeOptions {
    /// The machine's firmware.
    #[arg(long, value_enum, default_value = "bios")]
    firmware: Firmware,
    /// What loads the image: ipxe under a BIOS and tftp under UEFI, unless given.
    #[arg(long, value_enum)]
    via: Option<Via>,
    /// The image to boot.
    #[arg(long, value_name = "FILE", env = "UNIPERF_IMAGE")]
    image: Option<PathBuf>,
    /// tap (needs root) or user; tap where it is possible.
    #[arg(long, value_name = "tap|user")]
    net: Option<NetKind>,
    /// The network namespace of a tap.
    #[arg(long, value_name = "NAME", default_value = "uniperf")]
    namespace: String,
    /// Boot arguments, for the boot loader's configuration. The address is DHCP's
    /// unless there is an ip= among them.
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true)]
    append: Vec<String>,
    /// The NIC, with its boot ROM.
    #[arg(long, value_name = "NAME", default_value = "e1000")]
    nic: NicModel,
    /// QEMU's machine.
    #[arg(long, value_enum, default_value = "q35")]
    machine: MachineType,
    /// Memory in MiB: OVMF takes 100 for itself.
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    mem: u32,
    /// Seconds that netperf's test takes.
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub length: u64,
}

impl PxeOptions {
    pub fn way(&self) -> Result<NetBoot> {
        let default = match self.firmware {
            Firmware::Bios => Via::Ipxe,
            Firmware::Uefi => Via::Tftp,
        };
        NetBoot::new(self.firmware, self.via.unwrap_or(default))
    }

    pub fn image(&self) -> Result<Image> {
        match &self.image {
            Some(path) => Image::at(path),
            None => Image::built(),
        }
    }

    pub fn network(&self) -> Result<Network> {
        Network::of_kind(self.net.unwrap_or_else(NetKind::best), &self.namespace)
    }

    pub fn machine(&self) -> Machine {
        Machine {
            nics: vec![self.nic.clone()],
            append: self.arguments(),
            memory: self.mem,
            machine: self.machine,
            ..Machine::default()
        }
    }

    /// The boot arguments: the address is the DHCP server's that boots the machine,
    /// which is the default where there are none.
    pub fn arguments(&self) -> String {
        self.append.join(" ")
    }
}
