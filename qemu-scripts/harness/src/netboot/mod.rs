//! Booting from the network: what the servers have to offer for each way, and how the
//! machine is to start.

mod http;
mod loaders;

use std::fmt;
use std::path::Path;

use anyhow::{Result, bail, ensure};

use crate::dhcp::BootOffer;
use crate::firmware::{BootDevice, Firmware, FirmwareBoot};
use crate::folder::Folder;
use crate::machine::Image;
use crate::media::ensure_plain;
use crate::network::{NetKind, Network};
use http::FileServer;

/// The image's name on the servers.
const IMAGE: &str = "uniperf.efi";

/// What loads the image, from where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Via {
    /// iPXE, as in the NIC's boot ROM: a script, by TFTP.
    Ipxe,
    /// PXELINUX.
    Pxelinux,
    /// GRUB's network image, command `linux`.
    Grub,
    /// GRUB's network image, command `multiboot2`.
    GrubMultiboot2,
    /// UEFI itself, by TFTP.
    Tftp,
    /// UEFI itself, by HTTP.
    Http,
}

/// A way to boot from the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetBoot {
    firmware: Firmware,
    via: Via,
}

/// The servers' files, and the HTTP server, for as long as this lives.
#[derive(Debug)]
pub struct BootServer {
    http: Option<FileServer>,
    _folder: Folder,
}

impl BootServer {
    /// What was asked of the HTTP server, a line a request.
    pub fn requests(&self) -> Vec<String> {
        let http = self.http.as_ref();
        http.map(FileServer::requests).unwrap_or_default()
    }
}

impl NetBoot {
    /// Every way that there is.
    pub const ALL: [Self; 9] = [
        Self::of(Firmware::Bios, Via::Ipxe),
        Self::of(Firmware::Bios, Via::Pxelinux),
        Self::of(Firmware::Bios, Via::Grub),
        Self::of(Firmware::Bios, Via::GrubMultiboot2),
        Self::of(Firmware::Uefi, Via::Ipxe),
        Self::of(Firmware::Uefi, Via::Grub),
        Self::of(Firmware::Uefi, Via::GrubMultiboot2),
        Self::of(Firmware::Uefi, Via::Tftp),
        Self::of(Firmware::Uefi, Via::Http),
    ];

    const fn of(firmware: Firmware, via: Via) -> Self {
        Self { firmware, via }
    }

    /// `via` under `firmware`, or an error where there is no such thing.
    pub fn new(firmware: Firmware, via: Via) -> Result<Self> {
        let way = Self::of(firmware, via);
        if Self::ALL.contains(&way) {
            return Ok(way);
        }
        match firmware {
            Firmware::Bios => bail!("a BIOS boots nothing via {via}: use --firmware uefi"),
            Firmware::Uefi => bail!("UEFI boots nothing via {via}: use --firmware bios"),
        }
    }

    /// Whether the image gets boot arguments in this way.
    pub fn has_arguments(self) -> bool {
        !matches!(self.via, Via::Tftp | Via::Http)
    }

    /// How the machine starts.
    pub fn start(self) -> FirmwareBoot {
        let from = match self.via {
            Via::Tftp | Via::Http => BootDevice::NetworkOfFirmware,
            _ => BootDevice::Network,
        };
        FirmwareBoot {
            http_only: self.via == Via::Http,
            ..FirmwareBoot::new(self.firmware, from)
        }
    }

    /// Has `network` offer `image` in this way, with the boot arguments `given`. The
    /// appliance asks DHCP for its address unless there is an `ip=` among them.
    pub fn serve(self, image: &Image, given: &str, network: &mut Network) -> Result<BootServer> {
        let arguments = self.arguments(given, network)?;
        let folder = Folder::new()?;
        std::fs::copy(image.path(), folder.path().join(IMAGE))?;
        let http = match self.via {
            Via::Http => Some(FileServer::start(
                network.as_tap()?.namespace(),
                folder.path(),
            )?),
            _ => None,
        };
        network.serve_boot(BootOffer {
            folder: folder.path().into(),
            file: self.prepare(folder.path(), &arguments)?,
            http: http.is_some(),
        })?;
        Ok(BootServer {
            http,
            _folder: folder,
        })
    }

    fn arguments(self, given: &str, network: &Network) -> Result<String> {
        if self.has_arguments() {
            let has_address = given.split_whitespace().any(|word| word.starts_with("ip="));
            let address = if has_address { "" } else { "ip=dhcp" };
            let arguments = network.boot_arguments(format!("{given} {address}").trim());
            ensure_plain(&arguments)?;
            return Ok(arguments);
        }
        ensure!(
            given.is_empty(),
            "via {} there are no boot arguments: the appliance asks DHCP for its address",
            self.via
        );
        ensure!(
            network.kind() == NetKind::Tap,
            "via {} needs a tap: on the user network, the appliance has to be told its ports",
            self.via
        );
        Ok(String::new())
    }

    /// Puts the loader and its configuration into `folder`, and returns the file that
    /// the firmware is to boot.
    fn prepare(self, folder: &Path, arguments: &str) -> Result<String> {
        Ok(match self.via {
            Via::Ipxe => loaders::ipxe(folder, arguments)?,
            Via::Pxelinux => loaders::pxelinux(folder, arguments)?,
            Via::Grub => loaders::grub(folder, self.firmware, "linux", arguments)?,
            Via::GrubMultiboot2 => loaders::grub(folder, self.firmware, "multiboot2", arguments)?,
            Via::Tftp => IMAGE.into(),
            Via::Http => format!("http://10.77.0.1/{IMAGE}"),
        })
    }
}

impl fmt::Display for Via {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ipxe => "ipxe",
            Self::Pxelinux => "pxelinux",
            Self::Grub => "grub",
            Self::GrubMultiboot2 => "grub-multiboot2",
            Self::Tftp => "tftp",
            Self::Http => "http",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_that_do_not_exist_are_refused() {
        for (firmware, via) in [
            (Firmware::Bios, Via::Tftp),
            (Firmware::Bios, Via::Http),
            (Firmware::Uefi, Via::Pxelinux),
        ] {
            assert!(NetBoot::new(firmware, via).is_err());
        }
        assert!(NetBoot::new(Firmware::Uefi, Via::Grub).is_ok());
    }

    #[test]
    fn the_address_is_dhcps_unless_given() {
        let network = Network::user().unwrap();
        let way = NetBoot::new(Firmware::Bios, Via::Ipxe).unwrap();
        let arguments = way.arguments("rx=poll", &network).unwrap();
        assert!(arguments.starts_with("ports="), "{arguments}");
        assert!(arguments.ends_with(" rx=poll ip=dhcp"), "{arguments}");
        let arguments = way.arguments("ip=10.0.2.15/24", &network).unwrap();
        assert!(!arguments.contains("dhcp"), "{arguments}");
        assert!(way.arguments("rx=poll;reboot", &network).is_err());
    }

    #[test]
    fn boot_arguments_are_refused_where_there_is_no_place_for_them() {
        let network = Network::user().unwrap();
        let way = NetBoot::new(Firmware::Uefi, Via::Tftp).unwrap();
        let error = way.arguments("rx=poll", &network).unwrap_err();
        assert!(error.to_string().contains("no boot arguments"), "{error}");
        let error = way.arguments("", &network).unwrap_err();
        assert!(error.to_string().contains("needs a tap"), "{error}");
    }
}
