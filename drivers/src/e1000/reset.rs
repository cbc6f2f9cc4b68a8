//! Reset and the order of initialisation (SDM chapter 14).

use super::ids::{Generation, Media, Model};
use super::regs::{
    CTRL, CTRL_DUP, CTRL_EXT, Ctrl, CtrlExt, EECD, Eecd, ICR, IMC, IMS, MANC, MANC_ARP_EN, MTA,
    PBA, RADV, RAH, RAH_AV, RAL, RCTL, RDTR, RXCSUM, Rctl, Rxcsum, STATUS, Status, TADV, TCTL,
    TCTL_COLD_SHIFT, TIDV, TIPG, TXDCTL, TXDCTL_COUNT_DESC, TXDCTL_WRITE_BACK, TXDCTL_WTHRESH_MASK,
    Tctl, VET, VFTA,
};
use crate::hw::Registers;
use crate::nic::MacAddress;

/// How long bus transactions under way get to finish.
const BUS_QUIET_US: u32 = 10_000;
/// How long the reset bit may stand.
const RESET_TIMEOUT_US: u32 = 100_000;
/// Entries in the receive address table.
const RECEIVE_ADDRESSES: usize = 16;
/// Entries in the multicast and in the VLAN table.
const TABLE: usize = 128;

/// The reset bit did not clear itself: the NIC is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stuck;

/// Stops interrupts and DMA.
pub fn quiesce<R: Registers>(regs: &R, delay: &mut dyn FnMut(u32)) {
    regs.write32(IMC, !0);
    let receiving = regs.read32(RCTL) & Rctl::EN.bits() != 0;
    let sending = regs.read32(TCTL) & Tctl::EN.bits() != 0;
    regs.write32(RCTL, 0);
    regs.write32(TCTL, Tctl::PSP.bits());
    regs.read32(STATUS);
    if receiving || sending {
        delay(BUS_QUIET_US);
    }
}

/// Resets the MAC and waits until it has read its EEPROM again (SDM 14.3).
///
/// Open drivers write the reset bit of the 82544, 82540, 82545EM, 82546EB and
/// 82541 through I/O space, because those parts do not acknowledge a 64-bit
/// write that resets them. Here it goes through memory: the registers are mapped
/// uncached, and between reads, so the write is one dword that no bridge has
/// anything to join with into a 64-bit one.
///
/// # Errors
///
/// The reset bit stays set.
pub fn reset<R: Registers>(
    regs: &R,
    model: &Model,
    max_frame: usize,
    delay: &mut dyn FnMut(u32),
) -> Result<(), Stuck> {
    quiesce(regs, delay);
    // The new split of the packet buffer takes effect with the reset.
    regs.write32(PBA, model.rx_fifo_kb(max_frame));
    if model.generation == Generation::I82574 {
        stop_bus_master(regs, delay);
    }
    if model.generation == Generation::I82541 {
        // The PHY of the 82541 and 82547 has to be reset before the MAC.
        let ctrl = Ctrl::from_bits_retain(regs.read32(CTRL));
        regs.write32(CTRL, (ctrl | Ctrl::PHY_RST).bits());
        delay(5_000);
    }
    let register = match model.generation {
        Generation::I82545Rev3 => CTRL_DUP,
        _ => CTRL,
    };
    let ctrl = Ctrl::from_bits_retain(regs.read32(CTRL)).difference(Ctrl::PHY_RST);
    regs.write32(register, (ctrl | Ctrl::RST).bits());
    // The registers must be left alone for 1 µs (SDM 13.4.1).
    delay(10);
    wait_for(RESET_TIMEOUT_US, delay, || {
        regs.read32(CTRL) & Ctrl::RST.bits() == 0
    })?;
    wait_for_eeprom(regs, model, delay);

    regs.write32(IMC, !0);
    regs.read32(ICR);
    Ok(())
}

/// PCI Express: no request may be under way when the reset comes.
fn stop_bus_master<R: Registers>(regs: &R, delay: &mut dyn FnMut(u32)) {
    let ctrl = Ctrl::from_bits_retain(regs.read32(CTRL));
    regs.write32(CTRL, (ctrl | Ctrl::GIO_MASTER_DISABLE).bits());
    let stopped = wait_for(80_000, delay, || {
        regs.read32(STATUS) & Status::GIO_MASTER_ENABLE.bits() == 0
    });
    if stopped.is_err() {
        log::warn!("e1000: bus requests still pending at reset");
    }
}

fn wait_for_eeprom<R: Registers>(regs: &R, model: &Model, delay: &mut dyn FnMut(u32)) {
    match model.generation {
        Generation::I82543 | Generation::I82544 => {
            // These do not read it after a software reset unless told to.
            let ext = CtrlExt::from_bits_retain(regs.read32(CTRL_EXT)) | CtrlExt::EE_RST;
            regs.write32(CTRL_EXT, ext.bits());
            delay(2_000);
        }
        Generation::I82540 | Generation::I82545Rev3 => delay(5_000),
        Generation::I82541 => delay(20_000),
        Generation::I82574 => {
            let done = Eecd::SIZE_OR_AUTO_RD.bits();
            if wait_for(10_000, delay, || regs.read32(EECD) & done != 0).is_err() {
                log::warn!("e1000: the EEPROM was not read within 10 ms of the reset");
            }
        }
    }
}

/// Sets up everything but link and rings, with receiver and transmitter off
/// (SDM 14.4 and 14.5).
pub fn configure<R: Registers>(regs: &R, model: &Model, mac: MacAddress) {
    if model.has_itr() && model.generation != Generation::I82574 {
        // Otherwise the management firmware answers ARP in our place.
        regs.write32(MANC, regs.read32(MANC) & !MANC_ARP_EN);
    }
    if matches!(model.device, 0x1099 | 0x10b5) {
        // Relaxed ordering gives parity errors on the quad-port 82546GB.
        let ext = CtrlExt::from_bits_retain(regs.read32(CTRL_EXT)) | CtrlExt::RO_DIS;
        regs.write32(CTRL_EXT, ext.bits());
    }
    set_filters(regs, mac);

    // No timers: a frame's interrupt comes at once, or as ITR says.
    regs.write32(RDTR, 0);
    regs.write32(TIDV, 0);
    if model.has_itr() {
        regs.write32(RADV, 0);
        regs.write32(TADV, 0);
    }
    regs.write32(RXCSUM, (Rxcsum::IPOFLD | Rxcsum::TUOFLD).bits());

    let gap = if model.media == Media::Copper { 8 } else { 9 };
    regs.write32(TIPG, 6 << 20 | 8 << 10 | gap);
    if model.has_itr() {
        let mut txdctl = regs.read32(TXDCTL) & !TXDCTL_WTHRESH_MASK | TXDCTL_WRITE_BACK;
        if model.generation == Generation::I82574 {
            txdctl |= TXDCTL_COUNT_DESC;
        }
        regs.write32(TXDCTL, txdctl);
    }
}

/// Own address and broadcast, nothing else.
fn set_filters<R: Registers>(regs: &R, mac: MacAddress) {
    regs.write32(VET, 0);
    // Reading between the writes keeps bridges from joining them into bursts,
    // which the 82545GM and 82546GB take wrongly.
    for index in 0..TABLE {
        regs.write32(VFTA + 4 * index, 0);
        regs.read32(STATUS);
        regs.write32(MTA + 4 * index, 0);
        regs.read32(STATUS);
    }
    for index in 1..RECEIVE_ADDRESSES {
        regs.write32(RAL + 8 * index, 0);
        regs.read32(STATUS);
        regs.write32(RAH + 8 * index, 0);
        regs.read32(STATUS);
    }
    let [a, b, c, d, e, f] = mac.0;
    regs.write32(RAL, u32::from_le_bytes([a, b, c, d]));
    regs.read32(STATUS);
    regs.write32(RAH, u32::from_le_bytes([e, f, 0, 0]) | RAH_AV);
    regs.read32(STATUS);
}

/// Switches the transmitter on, for full duplex until the link says otherwise.
pub fn enable_transmitter<R: Registers>(regs: &R) {
    let bits = Tctl::EN | Tctl::PSP | Tctl::CT_15;
    regs.write32(TCTL, bits.bits() | 0x40 << TCTL_COLD_SHIFT);
}

/// Lets the NIC raise the interrupts of `mask`; with 0, none.
pub fn set_mask<R: Registers>(regs: &R, mask: u32) {
    regs.write32(IMC, !mask);
    regs.write32(IMS, mask);
}

fn wait_for(
    timeout_us: u32,
    delay: &mut dyn FnMut(u32),
    mut condition: impl FnMut() -> bool,
) -> Result<(), Stuck> {
    const STEP_US: u32 = 10;
    for _ in 0..timeout_us / STEP_US {
        if condition() {
            return Ok(());
        }
        delay(STEP_US);
    }
    if condition() { Ok(()) } else { Err(Stuck) }
}
