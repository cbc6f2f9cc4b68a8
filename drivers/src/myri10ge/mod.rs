//! Myricom's Myri-10G cards on PCI Express.
//!
//! The card is a processor that runs firmware, which the driver gives it: it is talked to
//! by commands, takes what is to be sent from a ring in its own memory, and tells of what
//! it received in a queue in the host's. What is known of it is what Myricom's own
//! drivers in Linux (myri10ge) and FreeBSD (mxge) do; `docs/myri10ge.md` says where they
//! differ. The way of a frame is in [`receive`] and [`transmit`].

mod card;
mod checksum;
mod dma;
pub mod ids;
mod image;
mod interrupts;
pub mod receive;
mod regs;
mod requests;
mod start;
mod stats;
pub mod transmit;

#[cfg(test)]
mod tests;

use core::fmt;

use crate::hw::{OutOfDmaMemory, PcieLink, Platform, Window};
use crate::nic::{
    Capabilities, Causes, Config, Event, Identity, InterruptKind, Link, MacAddress, Nic, Register,
    Statistics,
};
use crate::watch::Watch;
use card::Card;
pub use card::{LoadError, Refusal};
pub use image::Unusable;
use image::{Header, Images};
use interrupts::{Handle, Interrupts, field};
use receive::RxRing;
use regs::{Cmd, MCP_HEADER_PTR};
use start::{Answers, Firmware};
use stats::Totals;
use transmit::{TxLayout, TxRing};

/// The driver's name.
pub const NAME: &str = "myri10ge";

/// The smallest MTU that IPv4 allows.
const MIN_MTU: usize = 68;
/// An Ethernet header.
const HEADER: usize = 14;
/// How long the link may take to be told of, when the interface comes up.
const LINK_PATIENCE_US: u32 = 2_000;
/// Reads of the host's memory that can be under way, of a card that has lost none.
const RDMA_TAGS: u32 = 15;
/// How long an interrupt that was raised may be on its way. From a model it takes
/// milliseconds at times; it is waited for only while it has not come.
const ARRIVAL_US: u32 = 50_000;
/// How long the interface may take to go down.
const DOWN_PATIENCE_US: u32 = 1_000_000;
/// Looks between attempts to get a card to run that has not.
const LOOKS_BETWEEN_ATTEMPTS: u32 = 8;

/// Why a card could not be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The driver does not know this PCI device id.
    UnknownDevice(u16),
    /// The memory window reads as all ones.
    NotThere,
    /// A ring of so many descriptors, which is not a multiple of 8.
    RingSize(usize),
    /// An MTU that the card cannot have.
    Mtu {
        /// Bytes asked for.
        asked: usize,
        /// Most that the card can do.
        max: usize,
    },
    /// The EEPROM names no station address.
    NoAddress,
    /// There is no firmware that can be used.
    NoFirmware {
        /// What is wrong with what was loaded, if something was.
        given: Option<Unusable>,
        /// What the card runs is none either.
        running: Option<Unusable>,
    },
    /// The only firmware is for hosts that align their completions, and its test for that
    /// fails in this one.
    NotForThisHost(Refusal),
    /// The firmware could not be loaded.
    Load(LoadError),
    /// The firmware refuses what it must not.
    Refused(Refusal),
    /// The firmware has rings of no use.
    Rings,
    /// There is no DMA memory left.
    OutOfMemory(OutOfDmaMemory),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownDevice(id) => write!(f, "no Myri-10G card has the device id {id:04x}"),
            Self::NotThere => f.write_str(
                "its memory reads as all ones: memory access is off in the PCI command \
                 register, or the card has fallen off the bus",
            ),
            Self::RingSize(asked) => write!(
                f,
                "a ring of {asked} descriptors: it must be a multiple of 8, from 8"
            ),
            Self::Mtu { asked, max } => {
                write!(f, "an MTU of {asked}: this card can do {MIN_MTU} to {max}")
            }
            Self::NoAddress => f.write_str(
                "its EEPROM names no station address; power-cycle the machine, or the card is faulty",
            ),
            Self::NoFirmware { given, running } => {
                match given {
                    None => f.write_str("it wants firmware, and none was loaded beside the image")?,
                    Some(unusable) => write!(f, "the firmware loaded beside the image {unusable}")?,
                }
                match running {
                    None => f.write_str("; the card runs none of its own")?,
                    Some(unusable) => write!(f, "; what the card runs {unusable}")?,
                }
                f.write_str(
                    ". Load myri10ge_eth_z8e.dat and myri10ge_ethp_z8e.dat beside the image, as an \
                     initrd or a module: they are in Debian's package firmware-myricom",
                )
            }
            Self::NotForThisHost(refusal) => write!(
                f,
                "the firmware loaded beside the image is for hosts that align their completions, \
                 and its test says of this one: {refusal}. Load myri10ge_ethp_z8e.dat, alone or \
                 in an archive with the other: it is in Debian's package firmware-myricom"
            ),
            Self::Load(error) => error.fmt(f),
            Self::Refused(refusal) => refusal.fmt(f),
            Self::Rings => f.write_str("its firmware has rings of no use"),
            Self::OutOfMemory(OutOfDmaMemory { requested }) => write!(
                f,
                "no DMA memory for {requested} bytes; ask for smaller rings"
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

impl From<LoadError> for Error {
    fn from(error: LoadError) -> Self {
        Self::Load(error)
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// A started card.
pub struct Myri10ge<W: Window> {
    card: Card<W>,
    firmware: Firmware,
    config: Config,
    identity: Identity,
    capabilities: Capabilities,
    rx: RxRing<W>,
    tx: TxRing<W>,
    interrupts: Interrupts<W>,
    /// What the firmware answered when the interface came up.
    answers: Answers,
    /// Microseconds that an interrupt waits for more to come.
    delay: u32,
    link: Link,
    totals: Totals,
    transmitter: Watch,
    pauses: u64,
    /// Reads of the host's memory that can be under way, as last said.
    rdma_tags: u32,
    /// Looks until the next attempt, of a card that has not come up.
    dead: Option<u32>,
}

impl<W: Window> Myri10ge<W> {
    /// Starts a card, with its interrupts masked.
    ///
    /// `device` is its PCI device id, `pcie` its link to the machine and `firmware` what
    /// was loaded beside the image: one firmware, or an archive of some. Memory access
    /// and bus mastering must be on in its PCI command register.
    ///
    /// # Errors
    ///
    /// [`Error`] says what is wrong and what a person can do about it.
    pub fn start(
        window: W,
        platform: &mut impl Platform,
        device: u16,
        pcie: Option<PcieLink>,
        firmware: Option<&'static [u8]>,
        config: Config,
    ) -> Result<Self, Error> {
        let model = ids::find(ids::VENDOR, device).ok_or(Error::UnknownDevice(device))?;
        check(model, &config)?;
        let mut card = Card::new(window.clone(), platform)?;
        if !card.is_there() {
            return Err(Error::NotThere);
        }
        let mac = card.read_eeprom().ok_or(Error::NoAddress)?;
        let firmware = start::choose(&card, pcie, &Images::find(firmware))?;
        card.command(Cmd::Reset, [0; 3])?;
        let sizes = start::ring_sizes(&card)?;

        let interrupts = Interrupts::new(window.clone(), platform)?;
        let count = config.rx_ring.min(sizes.receive);
        let rx = RxRing::new(window.clone(), platform, count, config.mtu, sizes.queue)?;
        let layout = TxLayout {
            slots: config.tx_ring.min(sizes.send / 2),
            max_frame: config.mtu + HEADER,
        };
        let tx = TxRing::new(window, interrupts.clone(), platform, layout)?;
        let mut this = Self {
            identity: Identity {
                driver: NAME,
                model: model.name,
                pci_id: (ids::VENDOR, device),
                mac,
            },
            capabilities: Capabilities {
                max_mtu: config.mtu,
                rx_ring: rx.count(),
                tx_ring: tx.slots(),
                rx_checksum: true,
                tx_checksum: true,
                scatter_gather: true,
                tso_v4: true,
                tso_v6: firmware.max_tso6 > 0,
                tso_max_bytes: tx.tso_max_bytes(),
                interrupt_throttle: true,
            },
            answers: Answers::default(),
            delay: 0,
            link: Link::Down,
            totals: Totals::default(),
            transmitter: Watch::default(),
            pauses: 0,
            rdma_tags: RDMA_TAGS,
            dead: None,
            card,
            firmware,
            config,
            rx,
            tx,
            interrupts,
        };
        this.bring_up()?;
        Ok(this)
    }

    /// What the card runs.
    pub fn firmware(&self) -> FirmwareInUse<'_> {
        FirmwareInUse(&self.firmware)
    }

    fn mac(&self) -> MacAddress {
        self.identity.mac
    }

    /// Looks at the link; reports it when it has changed.
    fn see_link(&mut self) -> Option<Event> {
        const UP: u32 = 1;
        let link = match self.interrupts.word(field::LINK_UP) {
            UP => Link::Up {
                mbps: 10_000,
                full_duplex: true,
            },
            _ => Link::Down,
        };
        let before = core::mem::replace(&mut self.link, link);
        (before != link).then_some(Event::Link(link))
    }

    /// Whether the transmitter stands still and no peer has asked it to.
    fn is_hung(&mut self) -> bool {
        let pauses = self.totals.pauses();
        let paused = core::mem::replace(&mut self.pauses, pauses) != pauses;
        self.transmitter
            .hung(self.tx.unfinished().filter(|_| !paused))
    }

    /// Whether an interrupt is lost: the card has raised one, and its handler does not run
    /// though it is waited for. Nothing else would give the tokens back.
    fn has_lost_one(&mut self) -> bool {
        if self.interrupts.is_masked() {
            return false;
        }
        let claims = self.interrupts.claims();
        let window = self.card.window();
        for _ in 0..ARRIVAL_US / 10 {
            if !self.interrupts.is_raised() || self.interrupts.claims() != claims {
                return false;
            }
            window.delay_us(10);
        }
        self.interrupts.unmask();
        true
    }

    /// Has the interface go down, and waits until the card says that nothing of it is on
    /// its way any more: the answer to the command does not say that.
    fn go_down(&mut self) {
        self.interrupts.mask();
        self.interrupts.expect_down();
        // What it says is not to wait for anything else.
        self.card.window().write32(self.answers.delay, 0);
        if let Err(refusal) = self.card.command(Cmd::EthernetDown, [0; 3]) {
            log::error!("myri10ge: {refusal}; the card may still write to memory");
            return;
        }
        for _ in 0..DOWN_PATIENCE_US / 10 {
            if self.interrupts.is_down() {
                return;
            }
            self.card.window().delay_us(10);
        }
        log::error!("myri10ge: the card never said that the interface is down");
    }

    /// Gives the card its firmware anew, and what was set. Frames in flight are lost.
    fn recover(&mut self) -> Option<Event> {
        self.totals.read(&self.interrupts);
        let was_masked = self.interrupts.is_masked();
        self.interrupts.mask();
        // What is loaded goes into memory that the firmware uses while it is up. A card
        // that has started anew does not run it.
        if self.dead.is_none() && self.card.running() == Some(self.firmware.header) {
            self.go_down();
        }
        self.transmitter = Watch::default();
        self.rdma_tags = RDMA_TAGS;
        match start::reload(&self.card, &self.firmware).and_then(|()| self.bring_up()) {
            Ok(()) => {
                self.dead = None;
                if !was_masked {
                    self.interrupts.unmask();
                }
                Some(Event::Reset)
            }
            Err(error) => {
                if self.dead.is_none() {
                    log::error!("myri10ge: the card does not come back: {error}");
                }
                self.dead = Some(LOOKS_BETWEEN_ATTEMPTS);
                let before = core::mem::replace(&mut self.link, Link::Down);
                (before != Link::Down).then_some(Event::Link(Link::Down))
            }
        }
    }

    /// What is to be done at a look, about once a second.
    fn look(&mut self) -> Option<Event> {
        if let Some(looks) = &mut self.dead {
            *looks = looks.saturating_sub(1);
            return if *looks == 0 { self.recover() } else { None };
        }
        if self.has_lost_one() {
            return Some(Event::LostInterrupt);
        }
        let rdma_tags = self.interrupts.word(field::RDMA_TAGS);
        if core::mem::replace(&mut self.rdma_tags, rdma_tags) > rdma_tags {
            log::warn!("myri10ge: a read of memory was never answered; {rdma_tags} tags are left");
        }
        if self.is_hung() {
            log::warn!("myri10ge: the transmitter hangs; giving the card its firmware anew");
            return self.recover();
        }
        // So that the next look finds what is true then.
        if self.interrupts.is_masked() {
            self.interrupts.ask();
        }
        None
    }
}

impl<W: Window + Send> Nic for Myri10ge<W> {
    type Rx<'a>
        = &'a mut RxRing<W>
    where
        Self: 'a;
    type Tx<'a>
        = &'a mut TxRing<W>
    where
        Self: 'a;
    type Interrupt = Handle<W>;

    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn link(&self) -> Link {
        self.link
    }

    #[inline]
    fn halves(&mut self) -> (Self::Rx<'_>, Self::Tx<'_>) {
        (&mut self.rx, &mut self.tx)
    }

    fn interrupt(&self) -> Self::Interrupt {
        self.interrupts.handle()
    }

    #[inline]
    fn mask(&mut self) {
        self.interrupts.mask();
    }

    #[inline]
    fn unmask(&mut self) {
        self.interrupts.unmask();
    }

    fn raise_interrupt(&mut self, kind: InterruptKind) {
        self.interrupts.listen(kind);
        // The card tells of the link when the interface comes up.
        if let Err(error) = self.come_up() {
            log::error!("myri10ge: the interface does not come up: {error}");
        }
    }

    fn throttle(&mut self, per_second: u32) {
        self.delay = 1_000_000_u32.checked_div(per_second).unwrap_or(0);
        self.write_delay();
    }

    fn service(&mut self, causes: Causes) -> Option<Event> {
        let causes = causes | self.interrupts.take_untold();
        if causes.contains(Causes::BUS) {
            log::warn!("myri10ge: the card was reset; giving it its firmware anew");
            return self.recover();
        }
        self.totals.read(&self.interrupts);
        let mut event = None;
        if causes.contains(Causes::LINK) && self.dead.is_none() {
            event = self.see_link();
        }
        if event.is_none() && causes.contains(Causes::LOOK) {
            event = self.look();
        }
        event
    }

    fn statistics(&mut self) -> Statistics {
        self.totals.read(&self.interrupts);
        self.totals.collect(&self.rx, &self.tx)
    }

    fn registers(&mut self, visit: &mut dyn FnMut(Register, u32)) {
        visit(
            Register::Nic(MCP_HEADER_PTR),
            self.card.word(MCP_HEADER_PTR),
        );
        let header = self.card.word(MCP_HEADER_PTR) as usize & 0xf_fffc;
        for at in (header..header + Header::LEN).step_by(4) {
            visit(Register::Nic(at), self.card.word(at));
        }
        // What the card has written into memory of ours stands behind its window.
        for at in (0..interrupts::BLOCK_LEN).step_by(4) {
            visit(Register::Nic(start::WINDOW + at), self.interrupts.word(at));
        }
    }

    fn stop(&mut self) {
        self.go_down();
        self.card.dummy_rdma(false);
        self.link = Link::Down;
    }
}

/// What a card runs, to be shown to a person.
pub struct FirmwareInUse<'a>(&'a Firmware);

impl fmt::Display for FirmwareInUse<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Checks what was chosen.
fn check(model: &ids::Model, config: &Config) -> Result<(), Error> {
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
    Ok(())
}
