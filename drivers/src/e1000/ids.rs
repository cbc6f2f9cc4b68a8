//! The members of the 8254x family by PCI device id, and what sets each apart.

use super::offload::Tso;

/// Intel's PCI vendor id.
pub const VENDOR: u16 = 0x8086;

/// The silicon, in the order Intel made it. Later parts compare as greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Generation {
    /// 82543: 256 descriptors a ring, no interrupt throttle, no EERD.
    I82543,
    /// 82544: no interrupt throttle, no EERD, a PCI-X transmit erratum.
    I82544,
    /// 82540, 82545EM and 82546EB.
    I82540,
    /// 82545GM and 82546GB, which have the reset bit in CTRL_DUP as well.
    I82545Rev3,
    /// 82541 and 82547, with a PHY of another make and a new layout of EERD.
    I82541,
    /// 82574L, the PCI Express part that keeps the legacy descriptors.
    I82574,
}

/// What the far end is reached over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    /// Twisted pair behind a PHY.
    Copper,
    /// Fibre: the MAC negotiates itself, and a pin says whether there is light.
    Fibre,
    /// A backplane: as fibre, without the pin.
    Serdes,
}

/// One member of the family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// PCI device id.
    pub device: u16,
    /// Intel's name.
    pub name: &'static str,
    /// The silicon.
    pub generation: Generation,
    /// The medium.
    pub media: Media,
    /// Whether function 1 of the device is a second port, whose address is the
    /// EEPROM's with the last bit turned over.
    pub dual_port: bool,
}

impl Model {
    /// Most descriptors in a ring.
    pub const fn max_ring(&self) -> usize {
        match self.generation {
            Generation::I82543 => 256,
            _ => 4096,
        }
    }

    /// Largest IP packet in bytes.
    pub const fn max_mtu(&self) -> usize {
        let frame_with_crc = match self.generation {
            Generation::I82574 => 9234,
            _ => 16128,
        };
        frame_with_crc - 18
    }

    /// KB of the packet buffer that receive gets; the transmitter has the rest.
    ///
    /// The 82547 and the 82574 have 40 KB in all, the others 64. Where frames
    /// are longer than 8 KB, the transmitter must be able to hold one.
    pub const fn rx_fifo_kb(&self, frame: usize) -> u32 {
        let long = frame > 8192;
        match (self.is_82547(), self.generation) {
            (true, _) => {
                if long {
                    22
                } else {
                    30
                }
            }
            (_, Generation::I82574) => 20,
            _ => {
                if long {
                    40
                } else {
                    48
                }
            }
        }
    }

    /// Whether the NIC cuts super-segments of IPv4, and of IPv6, on a link of
    /// `mbps`. The answer is that of Linux's and the BSDs' drivers.
    ///
    /// The 82543 goes wrong, and so does the 82547 in its FIFO. The PCI Express
    /// part has trouble below 1000 Mbit/s. Of IPv6, the PCI parts get the
    /// payload length wrong: it would hold the IP header too (SDM 3.5.9.1).
    pub fn tso(&self, mbps: u32) -> Tso {
        match self.generation {
            Generation::I82543 => Tso::default(),
            Generation::I82574 => Tso {
                v4: mbps >= 1000,
                v6: mbps >= 1000,
            },
            _ => Tso {
                v4: !self.is_82547(),
                v6: false,
            },
        }
    }

    const fn is_82547(&self) -> bool {
        matches!(self.device, 0x1019 | 0x101a | 0x1075)
    }

    /// Whether there is an interrupt throttle register and the absolute timers.
    pub fn has_itr(&self) -> bool {
        self.generation >= Generation::I82540
    }

    /// Whether RCTL.SECRC may be relied upon. The 82543's manual does not have
    /// the bit, so there the driver takes the CRC off.
    pub fn strips_crc(&self) -> bool {
        self.generation >= Generation::I82544
    }
}

/// Finds the model of a PCI function, if this driver is for it.
pub fn find(vendor: u16, device: u16) -> Option<&'static Model> {
    let model = MODELS.iter().find(|model| model.device == device)?;
    (vendor == VENDOR).then_some(model)
}

const fn model(device: u16, name: &'static str, generation: Generation, media: Media) -> Model {
    Model {
        device,
        name,
        generation,
        media,
        dual_port: false,
    }
}

const fn dual(device: u16, name: &'static str, generation: Generation, media: Media) -> Model {
    Model {
        device,
        name,
        generation,
        media,
        dual_port: true,
    }
}

use Generation::{I82540, I82541, I82543, I82544, I82545Rev3, I82574};
use Media::{Copper, Fibre, Serdes};

/// Every member that the driver knows.
///
/// The 82542 is left out: its registers lie elsewhere.
pub const MODELS: &[Model] = &[
    model(0x1001, "82543GC (fibre)", I82543, Fibre),
    model(0x1004, "82543GC", I82543, Copper),
    model(0x1008, "82544EI", I82544, Copper),
    model(0x1009, "82544EI (fibre)", I82544, Fibre),
    model(0x100c, "82544GC", I82544, Copper),
    model(0x100d, "82544GC (LOM)", I82544, Copper),
    model(0x100e, "82540EM", I82540, Copper),
    model(0x1015, "82540EM (LOM)", I82540, Copper),
    model(0x1016, "82540EP (LOM)", I82540, Copper),
    model(0x1017, "82540EP", I82540, Copper),
    model(0x101e, "82540EP (low power)", I82540, Copper),
    model(0x100f, "82545EM", I82540, Copper),
    model(0x1011, "82545EM (fibre)", I82540, Fibre),
    model(0x1026, "82545GM", I82545Rev3, Copper),
    model(0x1027, "82545GM (fibre)", I82545Rev3, Fibre),
    model(0x1028, "82545GM (SerDes)", I82545Rev3, Serdes),
    dual(0x1010, "82546EB", I82540, Copper),
    dual(0x1012, "82546EB (fibre)", I82540, Fibre),
    dual(0x101d, "82546EB (quad)", I82540, Copper),
    dual(0x1079, "82546GB", I82545Rev3, Copper),
    dual(0x107a, "82546GB (fibre)", I82545Rev3, Fibre),
    dual(0x107b, "82546GB (SerDes)", I82545Rev3, Serdes),
    dual(0x108a, "82546GB (PCIe bridge)", I82545Rev3, Copper),
    dual(0x1099, "82546GB (quad)", I82545Rev3, Copper),
    dual(0x10b5, "82546GB (quad, KSP3)", I82545Rev3, Copper),
    model(0x1013, "82541EI", I82541, Copper),
    model(0x1014, "82541ER (LOM)", I82541, Copper),
    model(0x1018, "82541EI (mobile)", I82541, Copper),
    model(0x1076, "82541GI", I82541, Copper),
    model(0x1077, "82541GI (mobile)", I82541, Copper),
    model(0x1078, "82541ER", I82541, Copper),
    model(0x107c, "82541PI", I82541, Copper),
    model(0x1019, "82547EI", I82541, Copper),
    model(0x101a, "82547EI (mobile)", I82541, Copper),
    model(0x1075, "82547GI", I82541, Copper),
    model(0x10d3, "82574L", I82574, Copper),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_device_id_stands_twice() {
        for (index, model) in MODELS.iter().enumerate() {
            assert!(
                MODELS[..index]
                    .iter()
                    .all(|other| other.device != model.device),
                "{model:?}"
            );
        }
    }

    #[test]
    fn finds_intel_only() {
        assert_eq!(find(0x8086, 0x100e).unwrap().name, "82540EM");
        assert_eq!(find(0x10ec, 0x100e), None);
        assert_eq!(find(0x8086, 0x1000), None);
    }
}
