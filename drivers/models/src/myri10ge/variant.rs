//! Which card it is, in which host.

use std::fmt;
use std::str::FromStr;

use crate::pci::{Bar, Capability, ConfigSpace, Identity};

use super::layout::WINDOW;

/// Myricom's vendor id.
const MYRICOM: u16 = 0x14c1;
/// The Z8E, Myricom's first 10-gigabit chip on PCI Express.
const Z8E: u16 = 0x0008;
/// The vendor-specific capability's offset. What it reads of the card's registers comes
/// up at [`READ32`].
const VENDOR_SPECIFIC: u8 = 0x70;
/// Where it shows the register that is read through it.
pub(super) const READ32: usize = VENDOR_SPECIFIC as usize + 0x14;

/// A card in a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// The host aligns its completions; the card waits for firmware.
    Aligned,
    /// The host does not align them.
    Unaligned,
    /// The card has been given firmware before, and runs it.
    Running,
}

impl Variant {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Aligned, Self::Unaligned, Self::Running];

    /// Whether the host's completions are aligned to 8 bytes.
    pub(super) fn is_aligned(self) -> bool {
        self != Self::Unaligned
    }

    pub(super) fn config_space() -> ConfigSpace {
        let identity = Identity {
            id: (MYRICOM, Z8E),
            revision: 0,
            class: [0x02, 0x00, 0x00],
            subsystem: (MYRICOM, Z8E),
        };
        let mut bars = [Bar::None; 6];
        bars[0] = Bar::Memory64(WINDOW as u32);
        ConfigSpace::new(identity, bars)
            .with_capability(0x44, &Capability::power_management())
            .with_capability(0x50, &Capability::msi(0))
            .with_capability(VENDOR_SPECIFIC, &Capability::vendor_specific(0x1c))
            .with_private(VENDOR_SPECIFIC + 0x10)
            .with_private(VENDOR_SPECIFIC + 0x18)
            .with_capability(0x90, &Capability::pci_express(8))
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Aligned => "aligned",
            Self::Unaligned => "unaligned",
            Self::Running => "running",
        })
    }
}

impl FromStr for Variant {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let variant = Self::ALL.into_iter().find(|one| one.to_string() == name);
        variant
            .ok_or_else(|| format!("'{name}' is no myri10ge: it is aligned, unaligned or running"))
    }
}
