//! Machines that start as real ones do: their firmware finds what to boot.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Where distributions keep OVMF: its code, and a fresh store of its settings.
const OVMF: [[&str; 2]; 4] = [
    [
        "/usr/share/OVMF/OVMF_CODE_4M.fd",
        "/usr/share/OVMF/OVMF_VARS_4M.fd",
    ],
    [
        "/usr/share/OVMF/OVMF_CODE.fd",
        "/usr/share/OVMF/OVMF_VARS.fd",
    ],
    [
        "/usr/share/edk2/ovmf/OVMF_CODE.fd",
        "/usr/share/edk2/ovmf/OVMF_VARS.fd",
    ],
    [
        "/usr/share/edk2/x64/OVMF_CODE.4m.fd",
        "/usr/share/edk2/x64/OVMF_VARS.4m.fd",
    ],
];
/// The MAC address of a NIC that is only booted from.
const BOOT_NIC_MAC: &str = "52:54:00:12:34:60";

/// The firmware of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Firmware {
    /// SeaBIOS.
    Bios,
    /// EDK2's OVMF.
    Uefi,
}

impl Firmware {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::Bios, Self::Uefi];

    /// QEMU's arguments for it. Its settings are kept in `folder`.
    pub(crate) fn arguments(self, folder: &Path) -> Result<Vec<String>> {
        if self == Self::Bios {
            return Ok(Vec::new());
        }
        let [code, fresh] = OVMF
            .into_iter()
            .find(|files| files.iter().all(|file| Path::new(file).exists()))
            .context("UEFI needs OVMF: install Debian's package ovmf")?;
        let settings = folder.join("settings.fd");
        std::fs::copy(fresh, &settings)?;
        let drive = "if=pflash,format=raw";
        let words = [
            "-drive",
            &format!("{drive},readonly=on,file={code}"),
            "-drive",
            &format!("{drive},file={}", escaped(&settings)),
            // Without a source of random numbers EDK2's network stack does not start in
            // newer versions.
            "-device",
            "virtio-rng-pci",
        ];
        Ok(words.map(str::to_owned).to_vec())
    }
}

/// What the firmware boots from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BootDevice {
    /// The first NIC, by the iPXE that QEMU has as its boot ROM.
    Network,
    /// A virtio NIC on the same wire, by the firmware's own network stack: OVMF has
    /// no driver for an e1000 but that ROM's.
    NetworkOfFirmware,
    /// A CD.
    Cd(PathBuf),
    /// A disk. What is written to it is lost.
    Disk(PathBuf),
    /// A USB stick. What is written to it is lost.
    Usb(PathBuf),
}

/// How a machine starts whose firmware finds what to boot.
#[derive(Clone, Debug)]
pub struct FirmwareBoot {
    /// The firmware.
    pub firmware: Firmware,
    /// What it boots from; it has no other device to try.
    pub from: BootDevice,
    /// Whether UEFI may boot from the network by HTTP only, and not by TFTP.
    pub http_only: bool,
}

impl FirmwareBoot {
    /// The firmware boots from that device, in any way it knows.
    pub fn new(firmware: Firmware, from: BootDevice) -> Self {
        Self {
            firmware,
            from,
            http_only: false,
        }
    }

    /// Whether the first NIC takes part.
    pub(crate) fn is_by_network(&self) -> bool {
        matches!(
            self.from,
            BootDevice::Network | BootDevice::NetworkOfFirmware
        )
    }

    /// Options of the first NIC's device.
    pub(crate) fn nic_options(&self) -> &'static str {
        match self.from {
            BootDevice::Network => "netdev=net0,bootindex=0",
            BootDevice::NetworkOfFirmware => "netdev=port0,romfile=",
            BootDevice::Cd(_) | BootDevice::Disk(_) | BootDevice::Usb(_) => "netdev=net0,romfile=",
        }
    }

    /// QEMU's arguments for the firmware and the boot device. Its settings are kept
    /// in `folder`.
    pub(crate) fn arguments(&self, folder: &Path) -> Result<Vec<OsString>> {
        let mut words = self.firmware.arguments(folder)?;
        let mut add = |name: &str, value: &str| words.extend([name.to_owned(), value.to_owned()]);
        if self.http_only {
            for version in ["IPv4", "IPv6"] {
                let name = format!("opt/org.tianocore/{version}PXESupport");
                add("-fw_cfg", &format!("name={name},string=n"));
            }
        }
        match &self.from {
            BootDevice::Network => {}
            BootDevice::NetworkOfFirmware => {
                add("-netdev", "hubport,id=wire,hubid=0,netdev=net0");
                for port in ["port0", "port1"] {
                    add("-netdev", &format!("hubport,id={port},hubid=0"));
                }
                let nic = "virtio-net-pci,netdev=port1,romfile=,bootindex=0";
                add("-device", &format!("{nic},mac={BOOT_NIC_MAC}"));
            }
            BootDevice::Cd(path) => {
                let options = "media=cdrom,readonly=on";
                add("-drive", &drive(path, options));
                add("-device", "ide-cd,drive=boot,bootindex=0");
            }
            BootDevice::Disk(path) => {
                add("-drive", &drive(path, "snapshot=on"));
                add("-device", "ide-hd,drive=boot,bootindex=0");
            }
            BootDevice::Usb(path) => {
                add("-drive", &drive(path, "snapshot=on"));
                add("-device", "qemu-xhci");
                add("-device", "usb-storage,drive=boot,bootindex=0");
            }
        }
        Ok(words.into_iter().map(OsString::from).collect())
    }
}

fn drive(path: &Path, options: &str) -> String {
    let path = escaped(path);
    format!("if=none,id=boot,format=raw,{options},file={path}")
}

fn escaped(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boot_device_comes_first_and_its_path_may_have_commas() {
        let boot = FirmwareBoot::new(Firmware::Bios, BootDevice::Usb("/tmp/a,b".into()));
        let words = boot.arguments(Path::new("/tmp")).unwrap();
        let words = words.join(&OsString::from(" ")).into_string().unwrap();
        assert!(words.contains("file=/tmp/a,,b"), "{words}");
        assert!(words.contains("usb-storage,drive=boot,bootindex=0"));
        assert!(!boot.nic_options().contains("bootindex"));
    }
}
