//! The generations of the MAC, and what each has.

use std::fmt;
use std::str::FromStr;

use super::phy::PhyModel;
use super::registers::WINDOW;
use crate::pci::{Bar, Capability, ConfigSpace, Identity};

const NVIDIA: u16 = 0x10de;
/// Base classes as `lspci` shows them: some are bridges of no kind in particular.
const BRIDGE: [u8; 3] = [0x06, 0x80, 0x00];
const ETHERNET: [u8; 3] = [0x02, 0x00, 0x00];
/// MSI and MSI-X messages, of those that have them.
const MESSAGES_LOG2: u8 = 3;
const MESSAGES: u16 = 8;

/// A generation, named after a chip that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// The first: 32-bit descriptors, 100 Mbit/s, interrupts that need the timer.
    Nforce2,
    /// 32-bit descriptors of the second format: checksums, segmentation, jumbo frames.
    Nforce3,
    /// 64-bit descriptors: the same, and the first statistics.
    Ck804,
    /// 64-bit descriptors, power control, and no offloads.
    Mcp51,
    /// Everything: VLAN tags, MSI, MSI-X, pause frames, a management unit that is idle.
    Mcp55,
    /// No offloads, the address in its right order, a management unit at work.
    Mcp61,
    /// The last: statistics of the third kind, gear mode, pause frames of the third.
    Mcp79,
}

/// What a management unit is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Management {
    Absent,
    /// It runs, and leaves the MAC to the host.
    Idle,
    /// It sends and receives through the MAC, and has set the PHY up.
    InUse,
}

/// What a generation has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traits {
    pub(super) device: u16,
    pub(super) revision: u8,
    pub(super) class: [u8; 3],
    /// The descriptor formats it knows, 1 to 3.
    pub(super) formats: &'static [u8],
    /// Large frames.
    pub(super) jumbo: bool,
    /// Checksums and segmentation.
    pub(super) checksum: bool,
    pub(super) vlan: bool,
    pub(super) msi: bool,
    pub(super) msix: bool,
    pub(super) power_control: bool,
    /// Which of the three groups of counters there are: so many.
    pub(super) statistics: u8,
    /// The address registers come up with the address in its right order.
    pub(super) mac_in_order: bool,
    pub(super) pause_tx: bool,
    pub(super) management: Management,
    /// It goes wrong with more than 16 frames under way.
    pub(super) tx_limit: bool,
    pub(super) phy: PhyModel,
}

const NFORCE2: Traits = Traits {
    device: 0x0066,
    revision: 0xa1,
    class: ETHERNET,
    formats: &[1],
    jumbo: false,
    checksum: false,
    vlan: false,
    msi: false,
    msix: false,
    power_control: false,
    statistics: 0,
    mac_in_order: false,
    pause_tx: false,
    management: Management::Absent,
    tx_limit: false,
    phy: PhyModel::Realtek8201,
};

const NFORCE3: Traits = Traits {
    device: 0x00df,
    revision: 0xa2,
    class: BRIDGE,
    formats: &[1, 2],
    jumbo: true,
    checksum: true,
    phy: PhyModel::Marvell88e1111,
    ..NFORCE2
};

const CK804: Traits = Traits {
    device: 0x0057,
    revision: 0xa3,
    formats: &[1, 2, 3],
    statistics: 1,
    tx_limit: true,
    ..NFORCE3
};

const MCP51: Traits = Traits {
    device: 0x0269,
    revision: 0xa3,
    formats: &[1, 3],
    jumbo: false,
    checksum: false,
    power_control: true,
    tx_limit: false,
    phy: PhyModel::CicadaCs8201,
    ..CK804
};

const MCP55: Traits = Traits {
    device: 0x0373,
    revision: 0xa3,
    vlan: true,
    msi: true,
    msix: true,
    power_control: true,
    statistics: 2,
    pause_tx: true,
    management: Management::Idle,
    phy: PhyModel::VitesseVsc8601,
    ..CK804
};

const MCP61: Traits = Traits {
    device: 0x03ef,
    revision: 0xa2,
    formats: &[1, 3],
    jumbo: false,
    checksum: false,
    vlan: false,
    msix: false,
    mac_in_order: true,
    management: Management::InUse,
    tx_limit: false,
    phy: PhyModel::Realtek8211b,
    ..MCP55
};

const MCP79: Traits = Traits {
    device: 0x0ab0,
    revision: 0xb1,
    class: ETHERNET,
    vlan: false,
    msix: false,
    statistics: 3,
    mac_in_order: true,
    management: Management::Absent,
    tx_limit: false,
    phy: PhyModel::Realtek8211c,
    ..MCP55
};

impl Generation {
    /// All of them, oldest first.
    pub const ALL: [Self; 7] = [
        Self::Nforce2,
        Self::Nforce3,
        Self::Ck804,
        Self::Mcp51,
        Self::Mcp55,
        Self::Mcp61,
        Self::Mcp79,
    ];

    /// Its name on command lines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nforce2 => "nforce2",
            Self::Nforce3 => "nforce3",
            Self::Ck804 => "ck804",
            Self::Mcp51 => "mcp51",
            Self::Mcp55 => "mcp55",
            Self::Mcp61 => "mcp61",
            Self::Mcp79 => "mcp79",
        }
    }

    /// Its PCI device id; the vendor is 10de.
    pub fn device_id(self) -> u16 {
        self.traits().device
    }

    /// Its PCI revision.
    pub fn revision(self) -> u8 {
        self.traits().revision
    }

    pub(super) fn traits(self) -> &'static Traits {
        match self {
            Self::Nforce2 => &NFORCE2,
            Self::Nforce3 => &NFORCE3,
            Self::Ck804 => &CK804,
            Self::Mcp51 => &MCP51,
            Self::Mcp55 => &MCP55,
            Self::Mcp61 => &MCP61,
            Self::Mcp79 => &MCP79,
        }
    }

    /// Its configuration space, laid out as `lspci` shows an MCP55's.
    pub(super) fn config_space(self) -> ConfigSpace {
        let traits = self.traits();
        let identity = Identity {
            id: (NVIDIA, traits.device),
            revision: traits.revision,
            class: traits.class,
            subsystem: (NVIDIA, traits.device),
        };
        let mut bars = [Bar::None; 6];
        bars[0] = Bar::Memory(WINDOW as u32);
        bars[1] = Bar::Ports(8);
        if traits.msix {
            bars[2] = Bar::Memory(256);
            bars[3] = Bar::Memory(16);
        }
        let mut space =
            ConfigSpace::new(identity, bars).with_capability(0x44, &Capability::power_management());
        if traits.msi {
            space = space
                .with_capability(0x50, &Capability::msi(MESSAGES_LOG2))
                .with_private(0x68)
                .with_capability(0x6c, &Capability::hypertransport_msi());
        }
        if traits.msix {
            space = space.with_capability(0x70, &Capability::msi_x(MESSAGES, 2, 3));
        }
        space
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Generation {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|each| each.name() == name);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("there is no generation '{name}': it is one of {names}")
        })
    }
}
