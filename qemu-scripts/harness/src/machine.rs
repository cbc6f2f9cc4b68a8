//! The virtual machine's parts, and QEMU's command line for them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;

use crate::firmware::{Firmware, FirmwareBoot};
use crate::network::{Network, kvm_usable};
use crate::nic::NicModel;
use crate::nic_model;

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

/// Where `qemu-scripts/setup` keeps what it has downloaded.
pub(crate) fn cache_folder() -> Result<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(cache) = variable("UNIPERF_CACHE") {
        return Ok(cache.into());
    }
    let home = || Some(PathBuf::from(variable("HOME")?).join(".cache"));
    let caches = variable("XDG_CACHE_HOME").map(PathBuf::from).or_else(home);
    let caches = caches.context("where is the cache? HOME is not set")?;
    Ok(caches.join("uniperf"))
}

/// Where `qemu-scripts/setup` puts the firmware of Myri-10G cards, where it can get it: an
/// archive to be loaded beside the image.
pub fn myri10ge_firmware() -> Result<PathBuf> {
    Ok(cache_folder()?.join("myri10ge/firmware.cpio"))
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

/// What QEMU loads beside an image that it starts, as boot loaders load an initial RAM
/// file system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Beside {
    /// The firmware of its NICs, where they want any and `qemu-scripts/setup` has got it.
    #[default]
    NicFirmware,
    /// Nothing.
    Nothing,
    /// This file.
    File(PathBuf),
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
/// The first PCI slot of NICs whose order QEMU would change.
const FIRST_SLOT: usize = 0x10;

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
    /// The file beside that image.
    pub beside: Beside,
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
            beside: Beside::default(),
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
        // Under -icount QEMU 11 ends itself ("Bad icount read") when a guest reaches its
        // local APIC by x2APIC's registers; older ones have no x2APIC under TCG.
        let without = if self.icount { ",-x2apic" } else { "" };
        add("-cpu", &format!("{}{without}", self.cpu));
        add("-m", &format!("{}M", self.memory));
        if let Some(memory) = self.memory_object() {
            add("-object", &memory);
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
            if nic.is_modelled() {
                ensure!(
                    index > 0 || firmware.is_none_or(|boot| !boot.is_by_network()),
                    "{nic} has no boot ROM: boot from the network by an e1000"
                );
                for netdev in network.cable(index, folder)?.netdevs {
                    add("-netdev", &netdev);
                }
                let device = self.modelled_device(index, folder);
                add("-device", &device);
                continue;
            }
            add("-netdev", &network.netdev(index)?);
            let mac = mac_text(mac(index));
            let mut options = match firmware {
                Some(boot) if index == 0 => boot.nic_options().to_owned(),
                _ => format!("netdev=net{index}"),
            };
            if let Some(slot) = self.slot(index) {
                options += &format!(",addr={slot}");
            }
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
                if let Some(file) = self.file_beside()? {
                    arguments.extend(["-initrd".into(), file.into()]);
                }
            }
            Start::Firmware(boot) => arguments.extend(boot.arguments(folder)?),
        }
        // No configuration files, no default devices, and an end where a machine
        // would start again.
        arguments.extend(["-nodefaults", "-no-user-config", "-no-reboot"].map(OsString::from));
        Ok(arguments)
    }

    /// QEMU's `-object` for the memory, where its own way is not good enough.
    fn memory_object(&self) -> Option<String> {
        let kind = match self.has_models() {
            // The models' processes map it.
            true => "memory-backend-memfd,share=on",
            false if self.memory > RESERVED => "memory-backend-ram",
            false => return None,
        };
        // It takes what the guest touches, not what it could.
        let reserve = match self.memory > RESERVED {
            true => ",reserve=off",
            false => "",
        };
        Some(format!("{kind},id=ram,size={}M{reserve}", self.memory))
    }

    /// The file that QEMU is to load beside the image.
    fn file_beside(&self) -> Result<Option<PathBuf>> {
        match &self.beside {
            Beside::Nothing => Ok(None),
            Beside::File(path) => Ok(Some(path.clone())),
            Beside::NicFirmware if self.nics.iter().any(NicModel::wants_firmware) => {
                let file = myri10ge_firmware()?;
                Ok(file.is_file().then_some(file))
            }
            Beside::NicFirmware => Ok(None),
        }
    }

    /// Whether one of its NICs is a device model of ours.
    pub(crate) fn has_models(&self) -> bool {
        self.nics.iter().any(NicModel::is_modelled)
    }

    /// QEMU's `-device` for NIC number `index`, whose model listens in `folder`.
    fn modelled_device(&self, index: usize, folder: &Path) -> String {
        let mut device = json!({
            "driver": "vfio-user-pci",
            "id": format!("nic{index}"),
            "socket": { "type": "unix", "path": nic_model::socket(folder, index) },
        });
        if let Some(slot) = self.slot(index) {
            device["addr"] = slot.into();
        }
        device.to_string()
    }

    /// The PCI slot of NIC number `index`, in hexadecimal, where QEMU is not to choose:
    /// it makes devices that are written as JSON after all others.
    fn slot(&self, index: usize) -> Option<String> {
        let mixed = self.has_models() && !self.nics.iter().all(NicModel::is_modelled);
        mixed.then(|| format!("{:x}", FIRST_SLOT + index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::firmware::BootDevice;

    /// QEMU's arguments for `machine` on user networking.
    fn words(machine: &Machine) -> Vec<String> {
        let mut network = Network::user().unwrap();
        let image = Image {
            path: "/tmp/i".into(),
        };
        let words = machine
            .arguments(Start::Kernel(&image), &mut network, Path::new("/tmp"))
            .unwrap();
        let text = |word: OsString| word.into_string().unwrap();
        words.into_iter().map(text).collect()
    }

    /// All values of option `name`.
    fn values<'a>(words: &'a [String], name: &str) -> Vec<&'a str> {
        let pairs = words.windows(2).filter(|pair| pair[0] == name);
        pairs.map(|pair| pair[1].as_str()).collect()
    }

    #[test]
    fn the_command_line_has_the_network_and_the_users_arguments() {
        let words = words(&Machine {
            append: "rx=poll".into(),
            ..Machine::default()
        });
        let append = values(&words, "-append")[0];
        assert!(append.starts_with("ports="));
        assert!(append.ends_with(" rx=poll"));
        assert_eq!(values(&words, "-m"), ["64M"]);
        assert_eq!(values(&words, "-cpu"), ["max"]);
        assert!(values(&words, "-icount").is_empty());
        assert!(values(&words, "-object").is_empty());
    }

    #[test]
    fn instructions_are_counted_without_x2apic() {
        let words = words(&Machine {
            icount: true,
            ..Machine::default()
        });
        assert_eq!(values(&words, "-cpu"), ["max,-x2apic"]);
        assert_eq!(values(&words, "-icount"), ["shift=0"]);
    }

    #[test]
    fn a_modelled_nic_has_a_socket_shared_memory_and_a_hub() {
        let words = words(&Machine {
            nics: vec![NicModel::Modelled("forcedeth:ck804".into())],
            ..Machine::default()
        });
        let device: serde_json::Value = values(&words, "-device")
            .iter()
            .find_map(|device| serde_json::from_str(device).ok())
            .unwrap();
        let expected = json!({
            "driver": "vfio-user-pci",
            "id": "nic0",
            "socket": { "type": "unix", "path": "/tmp/nic0" },
        });
        assert_eq!(device, expected);
        let memory = "memory-backend-memfd,share=on,id=ram,size=64M";
        assert_eq!(values(&words, "-object"), [memory]);
        assert!(values(&words, "-machine").contains(&"memory-backend=ram"));
        let netdevs = values(&words, "-netdev");
        assert!(netdevs[0].starts_with("user,id=net0,ipv6=off,hostfwd="));
        assert_eq!(
            netdevs[1..],
            [
                "dgram,local.type=unix,local.path=/tmp/cable0-qemu,remote.type=unix,\
                 remote.path=/tmp/cable0-model,id=cable0",
                "hubport,id=port-net0,hubid=1,netdev=net0",
                "hubport,id=port-cable0,hubid=1,netdev=cable0",
            ]
        );
    }

    #[test]
    fn nics_of_both_kinds_keep_their_order_on_the_bus() {
        let words = words(&Machine {
            nics: vec![NicModel::Modelled("forcedeth".into()), NicModel::E1000],
            ..Machine::default()
        });
        let devices = values(&words, "-device");
        assert!(devices[0].contains(r#""addr":"10""#), "{}", devices[0]);
        assert!(devices[1].starts_with("e1000,id=nic1,") && devices[1].ends_with(",addr=11"));
    }

    #[test]
    fn a_modelled_nic_boots_from_no_network() {
        let machine = Machine {
            nics: vec![NicModel::Modelled("forcedeth".into())],
            ..Machine::default()
        };
        let boot = FirmwareBoot::new(Firmware::Bios, BootDevice::Network);
        let mut network = Network::user().unwrap();
        let error = machine
            .arguments(Start::Firmware(&boot), &mut network, Path::new("/tmp"))
            .unwrap_err();
        assert!(error.to_string().contains("no boot ROM"), "{error}");
    }
}
