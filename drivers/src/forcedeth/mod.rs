//! The Ethernet MAC of NVIDIA's nForce chipsets, nForce to MCP89.
//!
//! NVIDIA has published no manual. What is known is what Linux's forcedeth and the BSDs'
//! nfe have found out; `docs/forcedeth.md` says where the two differ. The way of a frame
//! is in [`receive`] and [`transmit`].

mod descriptor;
mod dma;
pub mod ids;
mod interrupts;
mod link;
mod management;
mod phy;
pub mod receive;
mod regs;
mod start;
mod stats;
pub mod transmit;

#[cfg(test)]
mod tests;

use core::fmt;

use crate::hw::{OutOfDmaMemory, Platform, Registers, wait_by_reading};
use crate::nic::{
    Capabilities, Causes, Config, Event, Identity, InterruptKind, Link, MacAddress, Nic, Register,
    Statistics,
};
use crate::watch::Watch;
use ids::{Features, Model};
use interrupts::{Handle, Interrupts};
use phy::{Negotiated, Phy};
use receive::RxRing;
use regs::{IRQ_STATUS, Irq, MAC_ADDR_A, MII_STATUS, MiiStatus, RX_HEADERS};
use start::{Mac, RUNNING_PATIENCE_US, Rings, Stuck};
use stats::Totals;
use transmit::{TxLayout, TxRing};

/// The driver's name.
pub const NAME: &str = "forcedeth";

/// The smallest MTU that IPv4 allows.
const MIN_MTU: usize = 68;
/// An MTU that every member has.
const ETHERNET_MTU: usize = 1500;
/// An Ethernet header.
const HEADER: usize = 14;

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
    /// The receiver or the transmitter does not stop.
    DoesNotStop,
    /// The registers hold an address that is no station's.
    BadAddress(MacAddress),
    /// No PHY answers.
    PhySilent,
    /// There is no DMA memory left.
    OutOfMemory(OutOfDmaMemory),
    /// DMA memory lies where the NIC does not reach.
    MemoryTooHigh {
        /// Where it ends on the bus.
        end: u64,
        /// Where the NIC's reach ends.
        reach: u64,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownDevice(id) => write!(f, "no nForce NIC has the device id {id:04x}"),
            Self::NotThere => f.write_str(
                "the registers read as all ones: memory access is off in the PCI command \
                 register, or the NIC has fallen off the bus",
            ),
            Self::RingSize(asked) => write!(
                f,
                "a ring of {asked} descriptors: it must be a multiple of 8, from 8"
            ),
            Self::Mtu { asked, max } => {
                write!(f, "an MTU of {asked}: this NIC can do {MIN_MTU} to {max}")
            }
            Self::DoesNotStop => f.write_str(
                "the receiver or the transmitter does not stop; power-cycle the machine",
            ),
            Self::BadAddress(mac) => write!(
                f,
                "the firmware has set the station address {mac}, which is no station's"
            ),
            Self::PhySilent => {
                f.write_str("no PHY answers on the management interface; power-cycle the machine")
            }
            Self::OutOfMemory(OutOfDmaMemory { requested }) => write!(
                f,
                "no DMA memory for {requested} bytes; ask for smaller rings"
            ),
            Self::MemoryTooHigh { end, reach } => write!(
                f,
                "memory for DMA ends at {end:#x}, and this NIC reaches to {reach:#x} only"
            ),
        }
    }
}

impl core::error::Error for Error {}

impl From<OutOfDmaMemory> for Error {
    fn from(error: OutOfDmaMemory) -> Self {
        Self::OutOfMemory(error)
    }
}

impl From<phy::Silent> for Error {
    fn from(_: phy::Silent) -> Self {
        Self::PhySilent
    }
}

/// A started NIC of the family.
pub struct Forcedeth<R: Registers> {
    regs: R,
    mac: Mac,
    phy: Phy,
    identity: Identity,
    capabilities: Capabilities,
    rx: RxRing,
    tx: TxRing<R>,
    interrupts: Interrupts<R>,
    negotiated: Negotiated,
    totals: Totals,
    transmitter: Watch,
    /// Pause frames at the last look.
    pauses: u64,
    /// The PHY has not answered at the last look.
    phy_is_silent: bool,
}

impl<R: Registers> Forcedeth<R> {
    /// Starts a NIC, with its interrupts masked.
    ///
    /// `device` is its PCI device id and `revision` its revision. Memory access and bus
    /// mastering must be on in its PCI command register.
    ///
    /// # Errors
    ///
    /// [`Error`] says what is wrong and what a person can do about it.
    pub fn start(
        regs: R,
        platform: &mut impl Platform,
        device: u16,
        revision: u8,
        config: Config,
    ) -> Result<Self, Error> {
        let model = ids::find(ids::VENDOR, device).ok_or(Error::UnknownDevice(device))?;
        let config = check(model, config)?;
        if regs.read32(MAC_ADDR_A) == !0 && regs.read32(IRQ_STATUS) == !0 {
            return Err(Error::NotThere);
        }
        let (mac, phy) = wake(&regs, model, revision, &config, platform)?;

        let max_frame = config.mtu + HEADER;
        let offloads = model.features.contains(Features::CHECKSUM);
        let layout = TxLayout {
            format: model.format(),
            ring: config.tx_ring,
            max_frame,
            offloads,
            limit: model.tx_limit(revision),
            dma_end: model.dma_end(),
            control: mac.control(),
        };
        let rx = RxRing::new(platform, model.format(), offloads, config.rx_ring, mac.room)?;
        let tx = TxRing::new(regs.clone(), platform, layout)?;
        let end = rx.bus_end().max(tx.bus_end());
        let reach = model.dma_end();
        if end > reach {
            return Err(Error::MemoryTooHigh { end, reach });
        }
        let mut this = Self {
            identity: Identity {
                driver: NAME,
                model: model.name,
                pci_id: (ids::VENDOR, device),
                mac: mac.address,
            },
            capabilities: Capabilities {
                max_mtu: config.mtu,
                rx_ring: config.rx_ring,
                tx_ring: config.tx_ring,
                rx_checksum: offloads,
                tx_checksum: offloads,
                scatter_gather: true,
                tso_v4: tx.tso_max_bytes() > 0,
                tso_v6: false,
                tso_max_bytes: tx.tso_max_bytes(),
                interrupt_throttle: true,
            },
            interrupts: Interrupts::new(regs.clone(), model.features.contains(Features::MSI)),
            totals: Totals::new(model, &regs),
            negotiated: Negotiated::default(),
            transmitter: Watch::default(),
            pauses: 0,
            phy_is_silent: false,
            rx,
            tx,
            mac,
            phy,
            regs,
        };
        let mut delay = |us| platform.delay_us(us);
        this.bring_up(&mut delay);
        this.see_link(&mut delay);
        Ok(this)
    }

    /// Everything from a stopped NIC to one that runs at the link's last known speed.
    fn bring_up(&mut self, delay: &mut dyn FnMut(u32)) {
        self.rx.restart();
        self.tx.restart();
        let rings = Rings {
            rx: self.rx.bus(),
            rx_len: self.rx.descriptors(),
            tx: self.tx.bus(),
            tx_len: self.tx.descriptors(),
        };
        let address = self.phy.address();
        self.mac.configure(&self.regs, &rings, address, delay);
        self.interrupts.start_timer();
        link::fit(&self.mac, &self.regs, &self.phy, &self.negotiated);
        self.mac.run(&self.regs);
    }

    /// Resets a NIC that has hung. Frames in flight are lost.
    fn recover(&mut self) {
        let regs = self.regs.clone();
        let mut delay = |us| wait_by_reading(&regs, MAC_ADDR_A, us);
        let mask = self.interrupts.save();
        self.interrupts.mask();
        // A reset may clear what they have counted.
        self.totals.read_all(&regs);
        if self
            .mac
            .stop(&regs, RUNNING_PATIENCE_US, &mut delay)
            .is_err()
        {
            log::error!("forcedeth: the receiver or the transmitter does not stop");
        }
        self.bring_up(&mut delay);
        self.transmitter = Watch::default();
        self.interrupts.restore(mask);
    }

    /// Looks at the link; fits the MAC to it and reports it when it has changed.
    fn see_link(&mut self, delay: &mut dyn FnMut(u32)) -> Option<Event> {
        // Taken away before the look, so that a change behind it is a new one.
        let change = MiiStatus::LINK_CHANGE;
        let has_changed = self.regs.read32(MII_STATUS) & change.bits() != 0;
        self.interrupts.acknowledge(Irq::LINK);
        self.regs.write32(MII_STATUS, change.bits());
        let Ok(negotiated) = self.negotiated_now(has_changed) else {
            if !core::mem::replace(&mut self.phy_is_silent, true) {
                log::error!(
                    "forcedeth: the PHY does not answer; the link is taken to be as it was"
                );
            }
            return None;
        };
        self.phy_is_silent = false;
        if negotiated == self.negotiated {
            return None;
        }
        let before = core::mem::replace(&mut self.negotiated, negotiated);
        // The open drivers stop both ends for this, and so does this one.
        if self
            .mac
            .halt(&self.regs, RUNNING_PATIENCE_US, delay)
            .is_err()
        {
            log::error!("forcedeth: the receiver or the transmitter does not stop");
        }
        link::fit(&self.mac, &self.regs, &self.phy, &negotiated);
        self.mac.run(&self.regs);
        if self.tx.unfinished().is_some() {
            self.tx.kick();
        }
        (before.link != negotiated.link).then_some(Event::Link(negotiated.link))
    }

    /// What is negotiated. Each of the PHY's registers takes some 30 µs in which nothing
    /// else is done, so a link that has stayed up costs one of them. The MAC's word that
    /// it changed counts besides: whoever reads the PHY takes the PHY's away.
    fn negotiated_now(&self, has_changed: bool) -> Result<Negotiated, phy::Silent> {
        let has_stayed_up = self.phy.has_stayed_up(&self.regs)?;
        if has_stayed_up && !has_changed && self.negotiated.link != Link::Down {
            return Ok(self.negotiated);
        }
        self.phy.look(&self.regs)
    }

    /// Whether the transmitter stands still and no peer has asked it to.
    fn is_hung(&mut self) -> bool {
        let pauses = self.totals.pauses(&self.regs);
        let paused = core::mem::replace(&mut self.pauses, pauses) != pauses;
        let unfinished = self.tx.unfinished().filter(|_| !paused);
        let hung = self.transmitter.hung(unfinished);
        if self.transmitter.is_suspicious() {
            // FreeBSD has seen doorbells lost.
            self.tx.kick();
        }
        hung
    }
}

impl<R: Registers + Send> Nic for Forcedeth<R> {
    type Rx<'a>
        = &'a mut RxRing
    where
        Self: 'a;
    type Tx<'a>
        = &'a mut TxRing<R>
    where
        Self: 'a;
    type Interrupt = Handle<R>;

    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn link(&self) -> Link {
        self.negotiated.link
    }

    fn halves(&mut self) -> (Self::Rx<'_>, Self::Tx<'_>) {
        (&mut self.rx, &mut self.tx)
    }

    fn interrupt(&self) -> Self::Interrupt {
        self.interrupts.handle()
    }

    fn mask(&mut self) {
        self.interrupts.mask();
    }

    fn unmask(&mut self) {
        self.interrupts.unmask(self.tx.is_holding_back());
    }

    fn raise_interrupt(&mut self, _kind: InterruptKind) {
        self.interrupts.raise();
    }

    fn throttle(&mut self, per_second: u32) {
        self.interrupts.throttle(per_second);
    }

    fn service(&mut self, causes: Causes) -> Option<Event> {
        let look = causes.contains(Causes::LOOK);
        if look {
            self.totals.tend(&self.regs);
        }
        let status = if causes.contains(Causes::FAULT) {
            self.interrupts.status()
        } else {
            Irq::empty()
        };
        // The cause alone does not tell: it also means that somebody else holds the line.
        if causes.contains(Causes::FAULT) && self.interrupts.take_ring_error(status) {
            log::warn!("forcedeth: the NIC reports that its rings went wrong; resetting it");
            self.recover();
            return Some(Event::Reset);
        }
        if look && self.is_hung() {
            log::warn!("forcedeth: the transmitter hangs; resetting the NIC");
            self.recover();
            return Some(Event::Reset);
        }
        let mut event = None;
        if causes.contains(Causes::LINK) {
            let regs = self.regs.clone();
            event = self.see_link(&mut |us| wait_by_reading(&regs, MAC_ADDR_A, us));
        }
        // What was seen of the link just now is no longer a cause.
        let lost = look && self.interrupts.has_lost_one(status.difference(Irq::LINK));
        event.or(lost.then_some(Event::LostInterrupt))
    }

    fn statistics(&mut self) -> Statistics {
        self.totals.collect(&self.regs, &self.rx, &self.tx)
    }

    fn registers(&mut self, visit: &mut dyn FnMut(Register, u32)) {
        for register in regs::QUIET.into_iter().flat_map(|range| range.step_by(4)) {
            visit(Register::Nic(register), self.regs.read32(register));
        }
        self.phy.registers(&self.regs, &mut |number, value| {
            visit(Register::Phy(number), value.into());
        });
    }

    fn stop(&mut self) {
        let regs = self.regs.clone();
        let mut delay = |us| wait_by_reading(&regs, MAC_ADDR_A, us);
        if self
            .mac
            .stop(&regs, RUNNING_PATIENCE_US, &mut delay)
            .is_err()
        {
            log::error!("forcedeth: the NIC does not stop; it may still write to memory");
        }
        self.mac.leave(&regs);
        self.negotiated = Negotiated::default();
    }
}

/// Wakes the NIC up, stops what runs in it, and sets its PHY up.
fn wake<R: Registers>(
    regs: &R,
    model: &'static Model,
    revision: u8,
    config: &Config,
    platform: &mut impl Platform,
) -> Result<(Mac, Phy), Error> {
    let mut delay = |us| platform.delay_us(us);
    let (address, original) = start::read_address(regs, model);
    if address.0 == [0; 6] || address.0[0] & 1 != 0 {
        return Err(Error::BadAddress(address));
    }
    let mut mac = Mac {
        model,
        revision,
        shared: false,
        address,
        original,
        room: config.mtu.max(ETHERNET_MTU) + RX_HEADERS,
    };
    mac.wake(regs);
    let management = if model.features.contains(Features::MANAGEMENT_UNIT) {
        management::ask(regs, &mut delay)
    } else {
        management::Management::default()
    };
    mac.shared = management.uses_mac;
    mac.stop_found(regs, &mut delay)
        .map_err(|Stuck| Error::DoesNotStop)?;
    let phy = Phy::find(regs)?;
    if !management.has_set_phy_up {
        phy.set_up(regs, model, &mut delay)?;
    }
    Ok((mac, phy))
}

/// Checks what was chosen, and cuts it to what the NIC has.
fn check(model: &Model, config: Config) -> Result<Config, Error> {
    for asked in [config.rx_ring, config.tx_ring] {
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
