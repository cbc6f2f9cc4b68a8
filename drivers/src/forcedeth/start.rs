//! From a NIC in any state to one that runs, and back.
//!
//! The order of the steps is that of Linux, where FreeBSD's does not matter: it starts
//! the DMA engine last.

use super::ids::{Features, Format, Model};
use super::management;
use super::regs::*;
use crate::hw::Registers;
use crate::nic::MacAddress;

/// How long each of transmitter and receiver may take to stop when the driver starts, in
/// µs.
pub const STARTING_PATIENCE_US: u32 = 500_000;
/// The same while the loop waits: longer than the longest frame takes at 10 Mbit/s. There
/// is no clock then, and a bus that takes longer for a read, as an emulated one does,
/// makes this longer.
pub const RUNNING_PATIENCE_US: u32 = 10_000;
/// What the open drivers wait besides when both say that they have stopped, in µs.
const STOPPED_US: u32 = 100;
/// How long the DMA engine may take to be ready, in µs.
const READY_TIMEOUT_US: u32 = 50_000;
/// How long a reset of the DMA engine takes, in µs.
const ENGINE_RESET_US: u32 = 10;
/// How long the MAC's reset takes, in µs (Linux: 64, FreeBSD: 100).
const MAC_RESET_US: u32 = 100;

/// Where the NIC finds its rings.
pub struct Rings {
    /// Bus address of the receive ring.
    pub rx: u64,
    /// Its descriptors.
    pub rx_len: usize,
    /// Bus address of the transmit ring.
    pub tx: u64,
    /// Its descriptors.
    pub tx_len: usize,
}

/// A NIC before it runs: what does not change from one start to the next.
#[derive(Clone, Copy)]
pub struct Mac {
    /// What it is.
    pub model: &'static Model,
    /// PCI revision.
    pub revision: u8,
    /// The management unit uses the MAC as well: it must not be stopped.
    pub shared: bool,
    /// The station address.
    pub address: MacAddress,
    /// What the address registers held, to be put back when the NIC is left.
    pub original: [u32; 2],
    /// Bytes that a receive buffer has room for.
    pub room: usize,
}

/// The transmitter or the receiver did not stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stuck;

impl Mac {
    fn has(&self, feature: Features) -> bool {
        self.model.features.contains(feature)
    }

    /// What TX_RX_CONTROL holds while it runs, without the doorbell.
    pub fn control(&self) -> TxRx {
        let format = match self.model.format() {
            Format::V1 => TxRx::empty(),
            Format::V2 => TxRx::DESC_2,
            Format::V3 => TxRx::DESC_3,
        };
        let mut control = format;
        control.set(TxRx::RXCHECK, self.has(Features::CHECKSUM));
        control
    }

    /// Masks all interrupts, and forgets their causes.
    pub fn quiet<R: Registers>(&self, regs: &R) {
        if self.has(Features::MSI) {
            regs.write32(MSI_IRQ_MASK, 0);
        }
        regs.write32(IRQ_MASK, 0);
        regs.write32(MII_MASK, 0);
        regs.write32(MII_STATUS, MiiStatus::ALL.bits());
        regs.write32(IRQ_STATUS, Irq::ALL.bits());
    }

    /// Wakes the NIC up, with its interrupts masked.
    pub fn wake<R: Registers>(&self, regs: &R) {
        self.quiet(regs);
        regs.write32(WAKE_UP_FLAGS, 0);
        if self.has(Features::POWER_CONTROL) {
            let power = PowerState2::from_bits_retain(regs.read32(POWER_STATE2));
            let mut awake = power.difference(PowerState2::POWER_UP_MASK);
            let late = self.has(Features::LOW_POWER_FIX) && self.revision >= 0xa3;
            awake.set(PowerState2::POWER_UP_REV_A3, late);
            regs.write32(POWER_STATE2, awake.bits());
        }
        let adapter = Adapter::from_bits_retain(regs.read32(ADAPTER_CONTROL));
        regs.write32(ADAPTER_CONTROL, adapter.difference(Adapter::RUNNING).bits());
    }

    /// Stops receiver and transmitter, and resets the DMA engine.
    ///
    /// # Errors
    ///
    /// One of them does not stop.
    pub fn stop<R: Registers>(
        &self,
        regs: &R,
        patience_us: u32,
        delay: &mut dyn FnMut(u32),
    ) -> Result<(), Stuck> {
        let stopped = self.halt(regs, patience_us, delay);
        self.reset_engine(regs, delay);
        stopped
    }

    /// Stops a NIC in whatever state it was found. Some members freeze when they are
    /// stopped while they may send pause frames, and stay so when the machine is reset;
    /// as Linux has it, they come back when that is taken away and the transmitter is
    /// started and stopped.
    ///
    /// # Errors
    ///
    /// Receiver or transmitter does not stop.
    pub fn stop_found<R: Registers>(
        &self,
        regs: &R,
        delay: &mut dyn FnMut(u32),
    ) -> Result<(), Stuck> {
        if self.stop(regs, STARTING_PATIENCE_US, delay).is_ok() {
            return Ok(());
        }
        self.reset(regs, delay);
        // Cleared by it, and to be found by the next driver if this one gives up.
        self.write_address(regs);
        let transmitter = Transmitter::from_bits_retain(regs.read32(TRANSMITTER_CONTROL));
        regs.write32(
            TRANSMITTER_CONTROL,
            (transmitter | Transmitter::START).bits(),
        );
        self.stop(regs, STARTING_PATIENCE_US, delay)
    }

    /// Stops receiver and transmitter, to go on where they are.
    ///
    /// # Errors
    ///
    /// One of them does not stop.
    pub fn halt<R: Registers>(
        &self,
        regs: &R,
        patience_us: u32,
        delay: &mut dyn FnMut(u32),
    ) -> Result<(), Stuck> {
        // A NIC that is stopped while it may send pause frames does not start again.
        if self.sends_pause_frames() {
            regs.write32(TX_PAUSE_FRAME, PAUSE_FRAME_DISABLE);
            let misc = regs.read32(MISC1) & !Misc1::PAUSE_TX.bits();
            regs.write32(MISC1, misc);
        }
        let mut receiver = Receiver::from_bits_retain(regs.read32(RECEIVER_CONTROL));
        let mut transmitter = Transmitter::from_bits_retain(regs.read32(TRANSMITTER_CONTROL));
        receiver.set(Receiver::START, self.shared);
        receiver.set(Receiver::PATH_EN, self.shared);
        transmitter.set(Transmitter::START, self.shared);
        transmitter.set(Transmitter::PATH_EN, self.shared);
        regs.write32(RECEIVER_CONTROL, receiver.bits());
        let receiver = wait(patience_us, delay, || {
            regs.read32(RECEIVER_STATUS) & BUSY == 0
        });
        regs.write32(TRANSMITTER_CONTROL, transmitter.bits());
        let transmitter = wait(patience_us, delay, || {
            regs.read32(TRANSMITTER_STATUS) & BUSY == 0
        });
        delay(STOPPED_US);
        if !self.shared {
            regs.write32(LINK_SPEED, 0);
        }
        if receiver && transmitter {
            Ok(())
        } else {
            Err(Stuck)
        }
    }

    fn sends_pause_frames(&self) -> bool {
        let ways = Features::PAUSE_TX_V1 | Features::PAUSE_TX_V2 | Features::PAUSE_TX_V3;
        self.model.features.intersects(ways)
    }

    fn reset_engine<R: Registers>(&self, regs: &R, delay: &mut dyn FnMut(u32)) {
        let control = self.control() | TxRx::BIT2;
        regs.write32(TX_RX_CONTROL, (control | TxRx::RESET).bits());
        delay(ENGINE_RESET_US);
        regs.write32(TX_RX_CONTROL, control.bits());
        delay(ENGINE_RESET_US);
    }

    /// Resets the MAC, where that can be done.
    fn reset<R: Registers>(&self, regs: &R, delay: &mut dyn FnMut(u32)) {
        if !self.has(Features::POWER_CONTROL) {
            return;
        }
        let control = self.control() | TxRx::BIT2;
        regs.write32(TX_RX_CONTROL, (control | TxRx::RESET).bits());
        regs.write32(MAC_RESET, MAC_RESET_ASSERT);
        delay(MAC_RESET_US);
        regs.write32(MAC_RESET, 0);
        delay(MAC_RESET_US);
        regs.write32(TX_RX_CONTROL, control.bits());
    }

    /// Sets up everything but the link and the interrupts, with receiver and transmitter
    /// off. The rings are ready for the NIC.
    pub fn configure<R: Registers>(
        &self,
        regs: &R,
        rings: &Rings,
        phy_address: u32,
        delay: &mut dyn FnMut(u32),
    ) {
        self.reset(regs, delay);
        // The reset has cleared it.
        self.write_address(regs);
        regs.write32(MULTICAST_ADDR_A, MULTICAST_FORCE);
        regs.write32(MULTICAST_ADDR_B, 0);
        regs.write32(MULTICAST_MASK_A, MULTICAST_NONE_A);
        regs.write32(MULTICAST_MASK_B, MULTICAST_NONE_B);
        regs.write32(PACKET_FILTER_FLAGS, 0);
        if !self.shared {
            regs.write32(TRANSMITTER_CONTROL, 0);
            regs.write32(RECEIVER_CONTROL, 0);
        }
        regs.write32(ADAPTER_CONTROL, 0);
        if self.sends_pause_frames() {
            regs.write32(TX_PAUSE_FRAME, PAUSE_FRAME_DISABLE);
        }
        regs.write32(LINK_SPEED, 0);
        self.reset_engine(regs, delay);
        regs.write32(UNKNOWN_SETUP_REG6, 0);
        self.write_rings(regs, rings);
        self.start_engine(regs, delay);
        regs.write32(MISC1, (Misc1::FORCE | Misc1::HALF_DUPLEX).bits());
        regs.write32(TRANSMITTER_STATUS, regs.read32(TRANSMITTER_STATUS));
        regs.write32(PACKET_FILTER_FLAGS, Filter::ALWAYS.bits());
        regs.write32(OFFLOAD_CONFIG, self.room as u32);
        regs.write32(RECEIVER_STATUS, regs.read32(RECEIVER_STATUS));
        self.seed_back_off(regs);
        regs.write32(TX_DEFERRAL, TX_DEFERRAL_DEFAULT);
        regs.write32(RX_DEFERRAL, RX_DEFERRAL_DEFAULT);
        let adapter = Adapter::PHY_VALID | Adapter::RUNNING;
        regs.write32(
            ADAPTER_CONTROL,
            phy_address << ADAPTER_PHY_SHIFT | adapter.bits(),
        );
        regs.write32(MII_SPEED, MII_SPEED_DEFAULT);
        regs.write32(MII_MASK, MiiStatus::LINK_CHANGE.bits());
        self.power_up(regs, delay);
        if self.has(Features::MSI) {
            regs.write32(MSI_MAP0, 0);
            regs.write32(MSI_MAP1, 0);
        }
        regs.write32(MII_STATUS, MiiStatus::ALL.bits());
        regs.write32(IRQ_STATUS, Irq::ALL.bits());
    }

    fn write_address<R: Registers>(&self, regs: &R) {
        let [a, b, c, d, e, f] = self.address.0;
        regs.write32(MAC_ADDR_A, u32::from_le_bytes([a, b, c, d]));
        regs.write32(MAC_ADDR_B, u32::from_le_bytes([e, f, 0, 0]));
        let order = if self.has(Features::MAC_IN_ORDER) {
            regs.read32(TRANSMIT_POLL) & MAC_ADDR_REV
        } else {
            MAC_ADDR_REV
        };
        regs.write32(TRANSMIT_POLL, order);
    }

    fn write_rings<R: Registers>(&self, regs: &R, rings: &Rings) {
        regs.write32(RX_RING_PHYS_ADDR, rings.rx as u32);
        regs.write32(TX_RING_PHYS_ADDR, rings.tx as u32);
        if self.model.format() == Format::V3 {
            regs.write32(RX_RING_PHYS_ADDR_HIGH, (rings.rx >> 32) as u32);
            regs.write32(TX_RING_PHYS_ADDR_HIGH, (rings.tx >> 32) as u32);
        }
        let sizes = (rings.rx_len as u32 - 1) << 16 | (rings.tx_len as u32 - 1);
        regs.write32(RING_SIZES, sizes);
    }

    fn start_engine<R: Registers>(&self, regs: &R, delay: &mut dyn FnMut(u32)) {
        let watermark = match self.model.format() {
            Format::V1 => WATERMARK_V1,
            Format::V2 | Format::V3 => WATERMARK_V2,
        };
        regs.write32(TX_WATERMARK, watermark);
        regs.write32(TX_RX_CONTROL, self.control().bits());
        regs.write32(VLAN_CONTROL, 0);
        regs.write32(TX_RX_CONTROL, (self.control() | TxRx::BIT1).bits());
        let ready = wait(READY_TIMEOUT_US, delay, || {
            regs.read32(UNKNOWN_SETUP_REG5) & SETUP5_READY != 0
        });
        if !ready {
            // Linux says so and goes on, and FreeBSD does not look.
            log::warn!("forcedeth: the DMA engine does not say that it is ready");
        }
    }

    /// Half duplex waits for a random time after a collision. The seeds need not be
    /// good, only unlike those of a neighbour: the station address is.
    fn seed_back_off<R: Registers>(&self, regs: &R) {
        let [.., d, e, f] = self.address.0;
        let seed = u32::from_le_bytes([f, e, d, 0]);
        if self.model.format() == Format::V1 {
            regs.write32(SLOT_TIME, SLOT_TIME_10_100 | seed & 0xff);
        } else if self.has(Features::GEAR_MODE) {
            regs.write32(SLOT_TIME, SLOT_TIME_10_100);
            for generator in 0..16 {
                // None of the sixteen may be 0.
                let mixed = seed.wrapping_add(generator).wrapping_mul(0x9e37_79b1) | 0x8008;
                let seeds = mixed & 0x3ff | (mixed >> 12 & 0x3ff | 8) << BACK_OFF_GEAR_SHIFT;
                let select = generator << BACK_OFF_SELECT_SHIFT;
                regs.write32(BACK_OFF_CONTROL, BACK_OFF_DEFAULT | select | seeds);
            }
        } else {
            let slot = SLOT_TIME_LEGACY_BACK_OFF | SLOT_TIME_10_100 | seed & 0xff;
            regs.write32(SLOT_TIME, slot);
        }
    }

    fn power_up<R: Registers>(&self, regs: &R, delay: &mut dyn FnMut(u32)) {
        let state = PowerState::from_bits_retain(regs.read32(POWER_STATE));
        if !state.contains(PowerState::POWERED_UP) {
            regs.write32(POWER_STATE, (state | PowerState::POWERED_UP).bits());
        }
        delay(10);
        let state = PowerState::from_bits_retain(regs.read32(POWER_STATE));
        regs.write32(POWER_STATE, (state | PowerState::VALID).bits());
    }

    /// Starts the receiver and the transmitter at the speed that LINK_SPEED says.
    pub fn run<R: Registers>(&self, regs: &R) {
        let receiver = Receiver::from_bits_retain(regs.read32(RECEIVER_CONTROL));
        let receiver = receiver.difference(Receiver::PATH_EN) | Receiver::START;
        regs.write32(RECEIVER_CONTROL, receiver.bits());
        let transmitter = Transmitter::from_bits_retain(regs.read32(TRANSMITTER_CONTROL));
        let transmitter = transmitter.difference(Transmitter::PATH_EN) | Transmitter::START;
        regs.write32(TRANSMITTER_CONTROL, transmitter.bits());
    }

    /// Leaves the NIC as it was found, so that the next driver reads the station address
    /// right. Receiver and transmitter are off.
    pub fn leave<R: Registers>(&self, regs: &R) {
        self.quiet(regs);
        if !self.has(Features::MAC_IN_ORDER) {
            regs.write32(MAC_ADDR_A, self.original[0]);
            regs.write32(MAC_ADDR_B, self.original[1]);
            regs.write32(TRANSMIT_POLL, regs.read32(TRANSMIT_POLL) & !MAC_ADDR_REV);
        }
        if self.has(Features::MANAGEMENT_UNIT) {
            management::release(regs);
        }
    }
}

/// The station address, and what the registers hold before anyone has turned it round:
/// the older members have it last byte first, unless a bit says that somebody has.
pub fn read_address<R: Registers>(regs: &R, model: &Model) -> (MacAddress, [u32; 2]) {
    let held = [regs.read32(MAC_ADDR_A), regs.read32(MAC_ADDR_B)];
    let [a, b, c, d] = held[0].to_le_bytes();
    let [e, f, ..] = held[1].to_le_bytes();
    let straight = [a, b, c, d, e, f];
    let mut turned = straight;
    turned.reverse();
    if model.features.contains(Features::MAC_IN_ORDER) {
        return (MacAddress(straight), held);
    }
    if regs.read32(TRANSMIT_POLL) & MAC_ADDR_REV == 0 {
        return (MacAddress(turned), held);
    }
    // A driver before us has turned it round, and not put it back.
    let original = [
        u32::from_le_bytes([f, e, d, c]),
        u32::from_le_bytes([b, a, 0, 0]),
    ];
    (MacAddress(straight), original)
}

/// Waits until `condition` holds. Whether it does.
fn wait(timeout_us: u32, delay: &mut dyn FnMut(u32), mut condition: impl FnMut() -> bool) -> bool {
    const STEP_US: u32 = 10;
    for _ in 0..timeout_us / STEP_US {
        if condition() {
            return true;
        }
        delay(STEP_US);
    }
    condition()
}
