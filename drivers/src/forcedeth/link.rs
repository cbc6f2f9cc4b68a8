//! Fitting the MAC to the link.

use super::ids::{Features, Format};
use super::phy::{Negotiated, Phy};
use super::regs::*;
use super::start::Mac;
use crate::hw::Registers;
use crate::nic::Link;

/// LINK_SPEED counts in a unit of its own: 1000 is 10 Mbit/s, 50 is 1000.
fn speed_code(mbps: u32) -> u32 {
    match mbps {
        1000 => 50,
        100 => 100,
        _ => 1000,
    }
}

/// Fits the MAC, whose receiver and transmitter are off, to what was negotiated. Without
/// a link it runs at 10 Mbit/s in half duplex, as the open drivers have it.
pub fn fit<R: Registers>(mac: &Mac, regs: &R, phy: &Phy, negotiated: &Negotiated) {
    let (mbps, full_duplex) = match negotiated.link {
        Link::Up { mbps, full_duplex } => (mbps, full_duplex),
        Link::Down => (10, false),
    };
    if phy.is_gigabit() {
        let slot = match mbps {
            1000 => SLOT_TIME_1000,
            _ => SLOT_TIME_10_100,
        };
        let other = regs.read32(SLOT_TIME) & !SLOT_TIME_SPEED;
        regs.write32(SLOT_TIME, other | slot);
    }
    let mut interface = PhyInterface::from_bits_retain(regs.read32(PHY_INTERFACE));
    interface.set(PhyInterface::HALF, !full_duplex);
    interface.set(PhyInterface::MBPS_100, mbps == 100);
    interface.set(PhyInterface::MBPS_1000, mbps == 1000);
    regs.write32(PHY_INTERFACE, interface.bits());

    let stretch = mac.model.features.contains(Features::COLLISION_FIX)
        && !full_duplex
        && !negotiated.partner_negotiates;
    let rgmii = interface.contains(PhyInterface::RGMII);
    let deferral = match (rgmii, mbps, stretch) {
        (true, 1000, _) => TX_DEFERRAL_RGMII_1000,
        (true, 10, true) => TX_DEFERRAL_STRETCH_10,
        (true, _, true) => TX_DEFERRAL_STRETCH_100,
        (true, _, false) => TX_DEFERRAL_RGMII_10_100,
        (false, _, true) => TX_DEFERRAL_MII_STRETCH,
        (false, _, false) => TX_DEFERRAL_DEFAULT,
    };
    regs.write32(TX_DEFERRAL, deferral);
    let watermark = match (mac.model.format(), mbps) {
        (Format::V1, _) => WATERMARK_V1,
        (_, 1000) => WATERMARK_V2_1000,
        _ => WATERMARK_V2,
    };
    regs.write32(TX_WATERMARK, watermark);
    let mut misc = Misc1::FORCE;
    misc.set(Misc1::HALF_DUPLEX, !full_duplex);
    regs.write32(MISC1, misc.bits());
    regs.write32(LINK_SPEED, LINK_SPEED_FORCE | speed_code(mbps));

    // Pause frames are obeyed and never sent: some members freeze for good when they are
    // stopped while they may send one, and a measuring end that throttles its peer would
    // hide what is being measured.
    let mut filter = Filter::ALWAYS | Filter::MYADDR;
    filter.set(Filter::PAUSE_RX, negotiated.pause_rx);
    regs.write32(PACKET_FILTER_FLAGS, filter.bits());
}
