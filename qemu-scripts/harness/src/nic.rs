//! The NICs that a machine can have.

use std::fmt;
use std::str::FromStr;

/// A NIC that QEMU emulates, or that a device model of ours does.
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
    /// A model in `drivers/models`, by its name there: `forcedeth`, `myri10ge`, or one
    /// with its variant, as `forcedeth:ck804`.
    Modelled(String),
    /// Any other, by QEMU's `-device` name.
    Other(String),
}

impl NicModel {
    /// The three that the e1000 driver is for.
    pub const E1000_FAMILY: [Self; 3] = [Self::E1000, Self::E1000_82544gc, Self::E1000_82545em];
    /// The devices in `drivers/models`.
    const MODELS: [&str; 2] = ["forcedeth", "myri10ge"];

    /// QEMU's name for it, or that of its model.
    pub fn device(&self) -> &str {
        match self {
            Self::E1000 => "e1000",
            Self::E1000_82544gc => "e1000-82544gc",
            Self::E1000_82545em => "e1000-82545em",
            Self::E1000e => "e1000e",
            Self::Modelled(name) | Self::Other(name) => name,
        }
    }

    /// Whether a process of ours emulates it.
    pub fn is_modelled(&self) -> bool {
        matches!(self, Self::Modelled(_))
    }

    /// Whether its driver has to load firmware into it.
    pub fn wants_firmware(&self) -> bool {
        let device = self.device();
        self.is_modelled() && device.split(':').next() == Some("myri10ge")
    }

    /// Whether the Linux guest has a driver for it.
    pub fn is_known_to_linux(&self) -> bool {
        self.is_modelled() || Self::E1000_FAMILY.contains(self)
    }
}

impl FromStr for NicModel {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let device = name.split_once(':').map_or(name, |(device, _)| device);
        Ok(match name {
            "e1000" | "e1000-82540em" | "82540em" => Self::E1000,
            "e1000-82544gc" | "82544gc" => Self::E1000_82544gc,
            "e1000-82545em" | "82545em" => Self::E1000_82545em,
            "e1000e" | "82574l" => Self::E1000e,
            "" => return Err("a NIC has a name".into()),
            _ if name.contains(',') => return Err("a NIC's name alone, no options".into()),
            _ if Self::MODELS.contains(&device) => Self::Modelled(name.into()),
            _ => Self::Other(name.into()),
        })
    }
}

impl fmt::Display for NicModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.device())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nics_are_known_by_chip_by_model_and_by_qemus_name() {
        assert_eq!("82540em".parse(), Ok(NicModel::E1000));
        let model: NicModel = "virtio-net-pci".parse().unwrap();
        assert_eq!(model.device(), "virtio-net-pci");
        assert!(!model.is_modelled() && !model.is_known_to_linux());
        for (name, firmware) in [
            ("forcedeth", false),
            ("forcedeth:ck804", false),
            ("myri10ge", true),
            ("myri10ge:unaligned", true),
        ] {
            let model: NicModel = name.parse().unwrap();
            assert_eq!(model, NicModel::Modelled(name.into()));
            assert!(model.is_known_to_linux());
            assert_eq!(model.wants_firmware(), firmware, "{name}");
        }
        assert!("e1000,mac=x".parse::<NicModel>().is_err());
    }
}
