//! The virtual machine's parts, and QEMU's command line for them.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Result, bail, ensure};

use crate::firmware::{Firmware, FirmwareBoot};
use crate::network::{Network, kvm_usable};

/// A bootable image.
#[derive(Clone, Debug)]
pub struct Image {
    path: PathBuf,
}

impl Image {
    /// The image in file `path`.
    pub fn at(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        ensure!(
            path.is_file(),
            "there is no image {}: build it with qemu-scripts/build",
            path.display()
        );
        Ok(Self { path })
    }

    /// The image that `qemu-scripts/build` made, or the one that the environment
    /// variable `UNIPERF_IMAGE` names.
    pub fn built() -> Result<Self> {
        if let Some(path) = std::env::var_os("UNIPERF_IMAGE") {
            return Self::at(path);
        }
        Self::at(target_folder().join("image/uniperf.efi"))
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The folder for what is built.
pub fn target_folder() -> PathBuf {
    let folder = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    repository().join(folder)
}

/// The folder of the whole project.
pub fn repository() -> PathBuf {
    match std::env::var_os("UNIPERF_ROOT") {
        Some(root) => root.into(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."),
    }
}

/// A NIC that QEMU emulates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NicModel {
    /// Intel 82540EM.
    E1000,
    /// Intel 82544GC.
    E1000_82544gc,
    /// Intel 82545EM.
    E1000_82545em,
    /// Intel 82574L.
    E1000e,
    /// Any other, by QEMU's `-device` name.
    Other(String),
}

impl NicModel {
    /// The three that the e1000 driver is for.
    pub const E1000_FAMILY: [Self; 3] = [Self::E1000, Self::E1000_82544gc, Self::E1000_82545em];

    /// QEMU's name for it.
    pub fn device(&self) -> &str {
        match self {
            Self::E1000 => "e1000",
            Self::E1000_82544gc => "e1000-82544gc",
            Self::E1000_82545em => "e1000-82545em",
            Self::E1000e => "e1000e",
            Self::Other(name) => name,
        }
    }
}

impl FromStr for NicModel {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Ok(match name {
            "e1000" | "e1000-82540em" | "82540em" => Self::E1000,
            "e1000-82544gc" | "82544gc" => Self::E1000_82544gc,
            "e1000-82545em" | "82545em" => Self::E1000_82545em,
            "e1000e" | "82574l" => Self::E1000e,
            "" => return Err("a NIC has a name".into()),
            _ if name.contains(',') => return Err("a NIC's name alone, no options".into()),
            _ => Self::Other(name.into()),
        })
    }
}

impl fmt::Display for NicModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.device())
    }
}

/// QEMU's machine type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum MachineType {
    /// i440FX with PCI.
    #[default]
    Pc,
    /// Q35 with PCI Express.
    Q35,
}

/// What runs the guest's instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Accelerator {
    /// QEMU's translator: the same everywhere.
    #[default]
    Tcg,
    /// The CPU itself, where it can virtualize.
    Kvm,
}

impl Accelerator {
    /// QEMU's name for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcg => "tcg",
            Self::Kvm => "kvm",
        }
    }
}

/// Where the virtual machine has its serial port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SerialPort {
    /// COM1.
    #[default]
    Com1,
    /// COM2.
    Com2,
    /// At this port, with an interrupt line that nobody can know of.
    At(u16),
    /// Nowhere.
    Absent,
}

impl SerialPort {
    /// QEMU's `-device`, with what the chardev `serial` carries.
    fn device(self) -> Option<String> {
        let place = match self {
            Self::Com1 => "index=0".to_owned(),
            Self::Com2 => "index=1".to_owned(),
            Self::At(port) => format!("iobase={port:#x},irq=5"),
            Self::Absent => return None,
        };
        Some(format!("isa-serial,chardev=serial,{place}"))
    }
}

/// What a machine starts with.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Start<'a> {
    /// QEMU loads the image, with the machine's boot arguments.
    Kernel(&'a Image),
    /// Firmware finds what to start. The boot arguments are where it finds that.
    Firmware(&'a FirmwareBoot),
}

/// MiB of memory up to which this machine is asked for all of it at once.
const RESERVED: u32 = 8192;

/// The virtual machine to be started.
#[derive(Clone, Debug)]
pub struct Machine {
    /// NICs in their order on the bus.
    pub nics: Vec<NicModel>,
    /// Boot arguments, without those that the network adds.
    pub append: String,
    /// CPUs.
    pub smp: u32,
    /// QEMU's name of the CPU.
    pub cpu: String,
    /// Memory in MiB.
    pub memory: u32,
    /// Whether instructions are counted, each taking one nanosecond.
    pub icount: bool,
    /// The machine type.
    pub machine: MachineType,
    /// What runs it.
    pub accelerator: Accelerator,
    /// What starts an image that QEMU loads.
    pub firmware: Firmware,
    /// A file beside that image: an initial RAM file system, for a Linux guest.
    pub initrd: Option<PathBuf>,
    /// Where its serial port is.
    pub serial: SerialPort,
    /// Whether it has a screen.
    pub screen: bool,
    /// Whether it stays as it is when the appliance refuses to go on or fails, which
    /// else ends QEMU with an exit code.
    pub stays_when_stopped: bool,
    /// What QEMU's machine is to have or to lack, as `hpet=off`.
    pub parts: Vec<String>,
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            nics: vec![NicModel::E1000],
            append: String::new(),
            smp: 1,
            cpu: "max".into(),
            memory: 64,
            icount: false,
            machine: MachineType::default(),
            accelerator: Accelerator::default(),
            firmware: Firmware::Bios,
            initrd: None,
            serial: SerialPort::default(),
            screen: false,
            stays_when_stopped: false,
            parts: Vec::new(),
        }
    }
}

/// The MAC address of NIC number `index`.
pub fn mac(index: usize) -> [u8; 6] {
    [0x52, 0x54, 0x00, 0x12, 0x34, 0x56 + index as u8]
}

/// `mac` as it is written.
pub fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

impl Machine {
    /// QEMU's arguments. Its serial line and its monitor connect to the sockets
    /// `serial` and `monitor` in `folder`.
    pub(crate) fn arguments(
        &self,
        start: Start<'_>,
        network: &mut Network,
        folder: &Path,
    ) -> Result<Vec<OsString>> {
        let accelerator = match self.accelerator {
            Accelerator::Tcg => "tcg",
            Accelerator::Kvm if self.icount => bail!("instructions are counted by TCG only"),
            Accelerator::Kvm if kvm_usable() => "kvm",
            Accelerator::Kvm => {
                bail!("this CPU does not virtualize (no vmx or svm in /proc/cpuinfo)")
            }
        };
        let machine = match self.machine {
            MachineType::Pc => "pc",
            MachineType::Q35 => "q35",
        };
        let mut arguments: Vec<OsString> = Vec::new();
        let mut add = |name: &str, value: &str| arguments.extend([name.into(), value.into()]);
        add("-accel", accelerator);
        // SeaBIOS shows on the serial line what it would show on a screen.
        match start {
            Start::Firmware(boot) if boot.firmware == Firmware::Bios => {
                add("-machine", &format!("{machine},graphics=off"));
            }
            _ => add("-machine", machine),
        }
        for part in &self.parts {
            add("-machine", part);
        }
        add("-cpu", &self.cpu);
        add("-m", &format!("{}M", self.memory));
        if self.memory > RESERVED {
            // It takes what the guest touches, not what it could.
            let size = format!("size={}M,reserve=off", self.memory);
            add("-object", &format!("memory-backend-ram,id=ram,{size}"));
            add("-machine", "memory-backend=ram");
        }
        add("-smp", &self.smp.to_string());
        if self.icount {
            add("-icount", "shift=0");
        }
        let firmware = match start {
            Start::Kernel(_) => None,
            Start::Firmware(boot) => Some(boot),
        };
        for (index, nic) in self.nics.iter().enumerate() {
            add("-netdev", &network.netdev(index)?);
            let mac = mac_text(mac(index));
            let options = match firmware {
                Some(boot) if index == 0 => boot.nic_options().to_owned(),
                _ => format!("netdev=net{index}"),
            };
            add(
                "-device",
                &format!("{nic},id=nic{index},mac={mac},{options}"),
            );
        }
        for id in ["serial", "monitor"] {
            let path = folder.join(id).display().to_string().replace(',', ",,");
            add("-chardev", &format!("socket,id={id},path={path}"));
        }
        if let Some(device) = self.serial.device() {
            add("-device", &device);
        }
        add("-mon", "chardev=monitor,mode=control");
        if !self.stays_when_stopped {
            add("-device", "isa-debug-exit,iobase=0xf4,iosize=0x04");
        }
        add("-display", "none");
        add("-vga", if self.screen { "std" } else { "none" });
        match start {
            Start::Kernel(image) => {
                let firmware = self.firmware.arguments(folder)?;
                firmware.chunks(2).for_each(|word| add(&word[0], &word[1]));
                add("-append", &network.boot_arguments(&self.append));
                arguments.extend(["-kernel".into(), image.path().into()]);
                if let Some(initrd) = &self.initrd {
                    arguments.extend(["-initrd".into(), initrd.into()]);
                }
            }
            Start::Firmware(boot) => arguments.extend(boot.arguments(folder)?),
        }
        // No configuration files, no default devices, and an end where a machine
        // would start again.
        arguments.extend(["-nodefaults", "-no-user-config", "-no-reboot"].map(OsString::from));
        Ok(arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nics_are_known_by_chip_and_by_qemu_name() {
        assert_eq!("82540em".parse(), Ok(NicModel::E1000));
        let model: NicModel = "virtio-net-pci".parse().unwrap();
        assert_eq!(model.device(), "virtio-net-pci");
        assert!("e1000,mac=x".parse::<NicModel>().is_err());
    }

    #[test]
    fn the_command_line_has_the_network_and_the_users_arguments() {
        let machine = Machine {
            append: "rx=poll".into(),
            ..Machine::default()
        };
        let mut network = Network::user().unwrap();
        let image = Image {
            path: "/tmp/i".into(),
        };
        let words = machine
            .arguments(Start::Kernel(&image), &mut network, Path::new("/tmp"))
            .unwrap();
        let words: Vec<_> = words.iter().filter_map(|word| word.to_str()).collect();
        let after = |name| words[words.iter().position(|word| *word == name).unwrap() + 1];
        assert!(after("-append").starts_with("ports="));
        assert!(after("-append").ends_with(" rx=poll"));
        assert_eq!(after("-m"), "64M");
        assert!(!words.contains(&"-icount"));
    }
}
