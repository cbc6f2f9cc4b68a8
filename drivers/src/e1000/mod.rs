//! Intel's 8254x family: 82543 to 82547, and the 82574L.
//!
//! Register names and section numbers are those of Intel's *PCI/PCI-X Family of
//! Gigabit Ethernet Controllers Software Developer's Manual* (SDM). The way of a
//! frame is in [`rings`]; `docs/e1000.md` has the errata.

mod dma;
mod eeprom;
pub mod ids;
mod link;
pub mod offload;
mod phy;
pub mod pieces;
mod received;
pub mod regs;
mod reset;
pub mod rings;
mod stats;

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

use core::fmt;

use crate::hw::{OutOfDmaMemory, Platform, Registers, wait_by_reading};
use crate::nic::{
    Capabilities, Causes, Config, Event, Identity, Interrupt, InterruptKind, Link, MacAddress, Nic,
    Register, Statistics,
};
use crate::watch::Watch;
pub use eeprom::EepromError;
use ids::{Generation, Model};
use link::LinkCare;
use offload::Tso;
use pieces::Rules;
use regs::{
    CTRL_EXT, ICR, ICS, IMC, IMS, ITR, ITR_UNIT_NS, Icr, RAH, RAH_AV, RAL, RCTL, Rctl, STATUS,
    Status,
};
use rings::{RxLayout, RxRing, TxLayout, TxRing};
use stats::Totals;

/// The driver's name.
pub const NAME: &str = "e1000";

/// What may raise an interrupt. Sent frames do not: the loop reclaims them when
/// it polls.
const INTERRUPTS: Icr = Icr::RXT0.union(Icr::RXO).union(Icr::LSC).union(Icr::RXSEQ);

/// Buffers of 64 KB for super-segments: a dozen segments each at the least, so
/// that the wire stays busy while some are being filled.
const LARGE_BUFFERS: usize = 32;

/// The smallest MTU that IPv4 allows.
const MIN_MTU: usize = 68;

/// An Ethernet header, and a VLAN tag and CRC around it.
const HEADER: usize = 14;
const TAG_AND_CRC: usize = 8;

/// Why a NIC could not be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The driver does not know this PCI device id.
    UnknownDevice(u16),
    /// The registers read as all ones.
    NotThere,
    /// A ring of so many descriptors, which is not a multiple of 8.
    RingSize(usize),
    /// An MTU that the NIC cannot have.
    Mtu {
        /// Bytes asked for.
        asked: usize,
        /// Most that the NIC can do.
        max: usize,
    },
    /// The reset never ended.
    ResetStuck,
    /// Neither the EEPROM nor the registers have a station address.
    NoAddress {
        /// What is wrong with the EEPROM.
        eeprom: EepromError,
    },
    /// The EEPROM's station address is no station's.
    BadAddress(MacAddress),
    /// The PHY does not answer.
    PhySilent,
    /// There is no DMA memory left.
    OutOfMemory(OutOfDmaMemory),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownDevice(id) => write!(f, "no 8254x has the device id {id:04x}"),
            Self::NotThere => f.write_str(
                "the registers read as all ones: memory access is off in the PCI command \
                 register, or the NIC has fallen off the bus",
            ),
            Self::RingSize(asked) => {
                write!(
                    f,
                    "a ring of {asked} descriptors: it must be a multiple of 8, from 8"
                )
            }
            Self::Mtu { asked, max } => {
                write!(f, "an MTU of {asked}: this NIC can do {MIN_MTU} to {max}")
            }
            Self::ResetStuck => f.write_str("the reset did not end; power-cycle the machine"),
            Self::NoAddress {
                eeprom: EepromError::NoAnswer,
            } => f.write_str("no station address: the EEPROM does not answer"),
            Self::NoAddress {
                eeprom: EepromError::Checksum { sum },
            } => write!(
                f,
                "no station address: the EEPROM's checksum is {sum:04x}, not baba; \
                 it needs to be programmed again"
            ),
            Self::BadAddress(mac) => {
                write!(f, "the EEPROM holds {mac}, which is no station address")
            }
            Self::PhySilent => {
                f.write_str("the PHY does not answer on the MDI bus; power-cycle the machine")
            }
            Self::OutOfMemory(OutOfDmaMemory { requested }) => {
                write!(
                    f,
                    "no DMA memory for {requested} bytes; ask for smaller rings"
                )
            }
        }
    }
}

impl core::error::Error for Error {}

impl From<OutOfDmaMemory> for Error {
    fn from(error: OutOfDmaMemory) -> Self {
        Self::OutOfMemory(error)
    }
}

impl From<reset::Stuck> for Error {
    fn from(_: reset::Stuck) -> Self {
        Self::ResetStuck
    }
}

/// A started NIC of the family.
pub struct E1000<R: Registers> {
    regs: R,
    model: &'static Model,
    identity: Identity,
    capabilities: Capabilities,
    rx: RxRing<R>,
    tx: TxRing<R>,
    link_care: LinkCare,
    link: Link,
    totals: Totals,
    receive_control: Rctl,
    max_frame: usize,
    throttle: u32,
    /// CTRL_EXT's pins as an 82543's EEPROM wants them.
    extended_pins: u32,
    transmitter: Watch,
}

impl<R: Registers> E1000<R> {
    /// Resets a NIC and starts it, with its interrupts masked.
    ///
    /// `device` is its PCI device id. Memory access and bus mastering must be on
    /// in its PCI command register.
    ///
    /// # Errors
    ///
    /// [`Error`] says what is wrong and what a person can do about it.
    pub fn start(
        regs: R,
        platform: &mut impl Platform,
        device: u16,
        config: Config,
    ) -> Result<Self, Error> {
        let model = ids::find(ids::VENDOR, device).ok_or(Error::UnknownDevice(device))?;
        let config = check(model, config)?;
        if regs.read32(STATUS) == !0 {
            return Err(Error::NotThere);
        }
        let max_frame = config.mtu + HEADER;
        reset::reset(&regs, model, max_frame, &mut |us| platform.delay_us(us))?;
        let (mac, control2) = read_eeprom(&regs, model, &mut |us| platform.delay_us(us))?;

        let (buffer, receive_control) = receive_control(model, &config);
        let status = Status::from_bits_retain(regs.read32(STATUS));
        let rx_layout = RxLayout {
            ring: config.rx_ring,
            buffer,
            crc_stripped: model.strips_crc(),
        };
        let pci_x = status.contains(Status::PCIX_MODE);
        let tx_layout = TxLayout {
            ring: config.tx_ring,
            max_frame,
            rules: Rules {
                pci_x,
                split_ends: pci_x && model.generation == Generation::I82544,
                four_segments: model.generation < Generation::I82574,
            },
            large: if model.tso(1000) == Tso::default() {
                0
            } else {
                LARGE_BUFFERS
            },
        };
        let mut this = Self {
            rx: RxRing::new(regs.clone(), platform, &rx_layout)?,
            tx: TxRing::new(regs.clone(), platform, &tx_layout)?,
            identity: Identity {
                driver: NAME,
                model: model.name,
                pci_id: (ids::VENDOR, device),
                mac,
            },
            capabilities: capabilities(model, &config),
            link_care: LinkCare::new(model),
            link: Link::Down,
            totals: Totals::default(),
            receive_control,
            max_frame,
            throttle: 0,
            extended_pins: u32::from(control2 & 0xf0) << 4,
            transmitter: Watch::default(),
            regs,
            model,
        };
        let mut delay = |us| platform.delay_us(us);
        this.bring_up(&mut delay)
            .map_err(|phy::Silent| Error::PhySilent)?;
        this.totals.clear(&this.regs);
        this.fit_tso(1000);
        this.see_link(&mut delay);
        Ok(this)
    }

    /// Everything from a reset NIC to a running one (SDM 14.3 to 14.5).
    fn bring_up(&mut self, delay: &mut dyn FnMut(u32)) -> Result<(), phy::Silent> {
        if self.model.generation == Generation::I82543 {
            self.regs.write32(CTRL_EXT, self.extended_pins);
        }
        reset::configure(&self.regs, self.model, self.identity.mac);
        self.write_throttle();
        self.rx.restart();
        self.tx.restart();
        let link = self.link_care.set_up(&self.regs, delay);
        reset::enable_transmitter(&self.regs);
        self.regs.write32(RCTL, self.receive_control.bits());
        self.rx.open();
        link
    }

    /// Resets a NIC that has hung. Frames in flight are lost.
    fn recover(&mut self) {
        self.totals.collect(&self.regs);
        let mask = self.regs.read32(IMS);
        let regs = self.regs.clone();
        let mut delay = |us| wait_by_reading(&regs, STATUS, us);
        if reset::reset(&regs, self.model, self.max_frame, &mut delay).is_err() {
            log::error!("e1000: the reset of a hung transmitter did not end");
        }
        self.totals.registers_reset(&regs);
        if self.bring_up(&mut delay).is_err() {
            log::error!("e1000: the PHY does not answer after a reset");
        }
        // Fit the MAC to the link anew, but leave it to the next look to report
        // a change: this one reports the reset.
        let reported = core::mem::take(&mut self.link);
        self.see_link(&mut delay);
        self.link = reported;
        self.transmitter = Watch::default();
        reset::set_mask(&regs, mask);
    }

    /// Looks at the link; fits the MAC to it and reports it when it has changed.
    fn see_link(&mut self, delay: &mut dyn FnMut(u32)) -> Option<Event> {
        let link = self.link_care.look(&self.regs, delay);
        if link == self.link {
            return None;
        }
        self.link = link;
        if let Link::Up { mbps, full_duplex } = link {
            self.link_care.came_up(&self.regs, mbps, full_duplex, delay);
            self.fit_tso(mbps);
        }
        Some(Event::Link(link))
    }

    /// Says what can be cut on a link of `mbps`.
    fn fit_tso(&mut self, mbps: u32) {
        let (tso, max_bytes) = self.tx.set_tso(self.model.tso(mbps));
        self.capabilities.tso_v4 = tso.v4;
        self.capabilities.tso_v6 = tso.v6;
        self.capabilities.tso_max_bytes = max_bytes;
    }

    fn write_throttle(&self) {
        if self.model.has_itr() {
            self.regs.write32(ITR, self.throttle);
        }
    }
}

impl<R: Registers + Send> Nic for E1000<R> {
    type Rx<'a>
        = &'a mut RxRing<R>
    where
        Self: 'a;
    type Tx<'a>
        = &'a mut TxRing<R>
    where
        Self: 'a;
    type Interrupt = E1000Interrupt<R>;

    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn link(&self) -> Link {
        self.link
    }

    fn halves(&mut self) -> (Self::Rx<'_>, Self::Tx<'_>) {
        (&mut self.rx, &mut self.tx)
    }

    fn interrupt(&self) -> Self::Interrupt {
        E1000Interrupt {
            regs: self.regs.clone(),
            write_to_clear: self.model.generation == Generation::I82574,
        }
    }

    fn mask(&mut self) {
        self.regs.write32(IMC, !0);
    }

    fn unmask(&mut self) {
        self.regs.write32(IMS, INTERRUPTS.bits());
    }

    fn raise_interrupt(&mut self, _kind: InterruptKind) {
        self.unmask();
        // The least of a surprise: a poll that finds no frame (SDM 13.4.18).
        self.regs.write32(ICS, Icr::RXT0.bits());
    }

    fn throttle(&mut self, per_second: u32) {
        const UNITS_A_SECOND: u32 = 1_000_000_000 / ITR_UNIT_NS;
        self.throttle = match UNITS_A_SECOND.checked_div(per_second) {
            None => 0,
            Some(units) => units.clamp(1, 0xffff),
        };
        self.write_throttle();
    }

    fn service(&mut self, causes: Causes) -> Option<Event> {
        let regs = self.regs.clone();
        if causes.contains(Causes::LOOK) {
            self.link_care.tend(&regs);
            let paused = Status::from_bits_retain(regs.read32(STATUS)).contains(Status::TXOFF);
            if self
                .transmitter
                .hung(self.tx.unfinished().filter(|_| !paused))
            {
                log::warn!("e1000: the transmitter hangs; resetting the NIC");
                self.recover();
                return Some(Event::Reset);
            }
        }
        if causes.contains(Causes::LINK) {
            return self.see_link(&mut |us| wait_by_reading(&regs, STATUS, us));
        }
        None
    }

    fn statistics(&mut self) -> Statistics {
        self.totals.collect(&self.regs)
    }

    fn registers(&mut self, visit: &mut dyn FnMut(Register, u32)) {
        for register in regs::QUIET {
            visit(Register::Nic(register), self.regs.read32(register));
        }
    }

    fn stop(&mut self) {
        let regs = self.regs.clone();
        let mut delay = |us| wait_by_reading(&regs, STATUS, us);
        if reset::reset(&regs, self.model, self.max_frame, &mut delay).is_err() {
            log::error!("e1000: the NIC could not be reset; it may still write to memory");
        }
        self.link = Link::Down;
    }
}

/// The interrupt handler's hold on the NIC.
#[derive(Clone)]
pub struct E1000Interrupt<R> {
    regs: R,
    write_to_clear: bool,
}

impl<R: Registers + Send> Interrupt for E1000Interrupt<R> {
    /// Reading ICR clears it (SDM 13.4.17), so whatever is read is handed on,
    /// even if another device on the line raised the interrupt while this NIC
    /// was masked: the causes would be lost otherwise. The NIC is then masked
    /// already, and one poll too many does no harm.
    fn claim(&self) -> Option<Causes> {
        let icr = Icr::from_bits_retain(self.regs.read32(ICR));
        if !icr.intersects(INTERRUPTS) {
            return None;
        }
        self.regs.write32(IMC, !0);
        if self.write_to_clear {
            // The 82574 clears on reading in some modes only.
            self.regs.write32(ICR, icr.bits());
        }
        Some(causes(icr))
    }
}

fn causes(icr: Icr) -> Causes {
    let mut causes = Causes::empty();
    causes.set(Causes::RECEIVE, icr.intersects(Icr::RXT0 | Icr::RXDMT0));
    causes.set(Causes::TRANSMIT, icr.intersects(Icr::TXDW | Icr::TXQE));
    causes.set(Causes::LINK, icr.intersects(Icr::LSC | Icr::RXSEQ));
    causes.set(Causes::OVERRUN, icr.contains(Icr::RXO));
    causes
}

/// Checks what was chosen, and cuts it to what the NIC has.
fn check(model: &Model, config: Config) -> Result<Config, Error> {
    for asked in [config.rx_ring, config.tx_ring] {
        // RDLEN and TDLEN count 128 bytes, which is 8 descriptors.
        if asked == 0 || !asked.is_multiple_of(8) {
            return Err(Error::RingSize(asked));
        }
    }
    let max = model.max_mtu();
    if !(MIN_MTU..=max).contains(&config.mtu) {
        return Err(Error::Mtu {
            asked: config.mtu,
            max,
        });
    }
    Ok(Config {
        rx_ring: config.rx_ring.min(model.max_ring()),
        tx_ring: config.tx_ring.min(model.max_ring()),
        mtu: config.mtu,
    })
}

/// The station address, and word 0x0f of the EEPROM.
///
/// An EEPROM that cannot be used is not the end: some machines and hypervisors
/// set the address registers themselves.
fn read_eeprom<R: Registers>(
    regs: &R,
    model: &Model,
    delay: &mut dyn FnMut(u32),
) -> Result<(MacAddress, u16), Error> {
    let (mac, control2) = match eeprom::read(regs, model.generation, delay) {
        Ok(contents) => {
            let mut address = contents.address;
            let status = Status::from_bits_retain(regs.read32(STATUS));
            if model.dual_port && status.contains(Status::FUNC_1) {
                address[5] ^= 1;
            }
            (MacAddress(address), contents.control2)
        }
        Err(eeprom) => {
            let mac = register_address(regs).ok_or(Error::NoAddress { eeprom })?;
            log::warn!("e1000: EEPROM unusable ({eeprom:?}); {mac} is from the registers");
            (mac, 0)
        }
    };
    if mac.0 == [0; 6] || mac.0[0] & 1 != 0 {
        return Err(Error::BadAddress(mac));
    }
    Ok((mac, control2))
}

/// The station address in the registers, if it is marked valid.
fn register_address<R: Registers>(regs: &R) -> Option<MacAddress> {
    let high = regs.read32(RAH);
    let [a, b, c, d] = regs.read32(RAL).to_le_bytes();
    let [e, f, ..] = high.to_le_bytes();
    (high & RAH_AV != 0).then_some(MacAddress([a, b, c, d, e, f]))
}

/// The size of the receive buffers, and RCTL (SDM 13.4.22).
fn receive_control(model: &Model, config: &Config) -> (usize, Rctl) {
    let (size, bits) = match config.mtu + HEADER + TAG_AND_CRC {
        ..=2048 => (2048, Rctl::empty()),
        2049..=4096 => (4096, Rctl::BSEX | Rctl::BSIZE_HIGH | Rctl::BSIZE_LOW),
        4097..=8192 => (8192, Rctl::BSEX | Rctl::BSIZE_HIGH),
        _ => (16384, Rctl::BSEX | Rctl::BSIZE_LOW),
    };
    let mut rctl = Rctl::EN | Rctl::BAM | bits;
    rctl.set(Rctl::LPE, config.mtu > 1500);
    rctl.set(Rctl::SECRC, model.strips_crc());
    (size, rctl)
}

fn capabilities(model: &Model, config: &Config) -> Capabilities {
    Capabilities {
        max_mtu: config.mtu,
        rx_ring: config.rx_ring,
        tx_ring: config.tx_ring,
        rx_checksum: true,
        tx_checksum: true,
        scatter_gather: true,
        tso_v4: false,
        tso_v6: false,
        tso_max_bytes: 0,
        interrupt_throttle: model.has_itr(),
    }
}
