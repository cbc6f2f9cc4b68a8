//! From a card in any state to one that runs, and back.

use core::fmt;

use super::card::{Card, LoadError};
use super::image::{Header, Image, Images, Unusable};
use super::interrupts::{BLOCK_LEN, OLD_BLOCK_LEN};
use super::receive::{Places, SMALL, big_size};
use super::regs::*;
use super::transmit::TxPlace;
use super::{Error, LINK_PATIENCE_US, Myri10ge};
use crate::hw::{PcieLink, Window};

/// Bytes of the card's memory window.
pub const WINDOW: usize = 16 << 20;
/// What no read of the host's memory crosses a multiple of: with aligned completions, and
/// without.
const BOUNDARY: u64 = 4096;
const UNALIGNED_BOUNDARY: u64 = 2048;
/// Lanes of a link that is fast enough for unaligned completions to matter.
const FULL_WIDTH: u8 = 8;
/// An Ethernet header, and a tag.
const HEADER: usize = 14;
const TAG: usize = 4;

/// What the card runs, and how it came there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Firmware {
    /// What it was given; none where it is the card's own.
    pub image: Option<Image>,
    /// What it says of itself.
    pub header: Header,
    /// No read of the host's memory crosses a multiple of this.
    pub boundary: u64,
    /// Bytes of headers that an IPv6 super-segment may have; 0 where it is not cut.
    pub max_tso6: usize,
}

impl fmt::Display for Firmware {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.header.wants_aligned() {
            true => "for aligned completions",
            false => "for any host",
        };
        let origin = match self.image {
            Some(_) => "",
            None => ", the card's own",
        };
        write!(f, "firmware {} {kind}{origin}", self.header.number())
    }
}

/// How long the firmware's rings are.
#[derive(Clone, Copy, Debug)]
pub struct RingSizes {
    /// Requests to send.
    pub send: usize,
    /// Buffers in each receive ring.
    pub receive: usize,
    /// Slots of the interrupt queue.
    pub queue: usize,
}

/// What the firmware answered, for those who look for a fault.
#[derive(Clone, Copy, Debug, Default)]
pub struct Answers {
    /// Where the coalescing delay is written.
    pub delay: usize,
}

/// Has the card run the firmware that fits this host best.
///
/// # Errors
///
/// There is none that can be used, or it does not start.
pub fn choose<W: Window>(
    card: &Card<W>,
    pcie: Option<PcieLink>,
    images: &Images,
) -> Result<Firmware, Error> {
    let reads_4k = pcie.is_none_or(|link| link.max_read_request >= 4096);
    let boundary = if reads_4k {
        BOUNDARY
    } else {
        UNALIGNED_BOUNDARY
    };
    let is_narrow = pcie.is_some_and(|link| link.lanes < FULL_WIDTH);
    if let Some(image) = images.aligned {
        run(card, &image)?;
        // On a narrow link alignment does not matter.
        let test = match is_narrow {
            true => Ok(()),
            false => card.test_dma(Cmd::UnalignedTest, boundary as usize),
        };
        let Err(refusal) = test else {
            return started(card, Some(image), boundary);
        };
        log::info!("myri10ge: the test for aligned completions fails: {refusal}");
        if images.unaligned.is_none() {
            // What the card ran before is gone, and Linux's driver says that a host which
            // does not align must not use this one.
            return Err(Error::NotForThisHost(refusal));
        }
    }
    let Some(image) = images.unaligned else {
        return adopt(card, images);
    };
    run(card, &image)?;
    started(card, Some(image), UNALIGNED_BOUNDARY)
}

/// Goes on with what the card runs already.
fn adopt<W: Window>(card: &Card<W>, images: &Images) -> Result<Firmware, Error> {
    let given = images.unusable;
    let Some(header) = card.running() else {
        let running = Some(Unusable::Short);
        return Err(Error::NoFirmware { given, running });
    };
    if let Err(unusable) = header.check() {
        let running = Some(unusable);
        return Err(Error::NoFirmware { given, running });
    }
    card.dummy_rdma(true);
    started(card, None, UNALIGNED_BOUNDARY)
}

/// How long the headers of an IPv6 super-segment may be, 0 if those with the longest TCP
/// header are too long: which they have is known only once they are written.
fn usable_tso6(most: u32) -> usize {
    const LONGEST: usize = HEADER + 40 + 60;
    let most = most as usize;
    if most < LONGEST { 0 } else { most }
}

fn run<W: Window>(card: &Card<W>, image: &Image) -> Result<(), LoadError> {
    card.load(image)?;
    card.dummy_rdma(true);
    Ok(())
}

/// What was started.
fn started<W: Window>(
    card: &Card<W>,
    image: Option<Image>,
    boundary: u64,
) -> Result<Firmware, Error> {
    let running = || card.running().ok_or(Error::NotThere);
    let header = image.map_or_else(running, |image| Ok(image.header))?;
    let max_tso6 = card.try_command(Cmd::GetMaxTso6HdrSize, [0; 3])?;
    Ok(Firmware {
        image,
        header,
        boundary,
        max_tso6: max_tso6.map_or(0, usable_tso6),
    })
}

/// Gives the card again what it ran. What it ran of its own it has to run again.
///
/// # Errors
///
/// It does not start.
pub fn reload<W: Window>(card: &Card<W>, firmware: &Firmware) -> Result<(), Error> {
    match &firmware.image {
        Some(image) => run(card, image)?,
        None => {
            let is_same = card.running() == Some(firmware.header);
            if !is_same {
                let running = Some(Unusable::Version);
                let given = None;
                return Err(Error::NoFirmware { given, running });
            }
            card.dummy_rdma(true);
        }
    }
    Ok(())
}

/// Asks for the lengths of the rings.
///
/// # Errors
///
/// The firmware does not say, or says what cannot be.
pub fn ring_sizes<W: Window>(card: &Card<W>) -> Result<RingSizes, Error> {
    let bytes = |command| card.command(command, [0; 3]).map(|bytes| bytes as usize);
    let receive = bytes(Cmd::GetRxRingSize)? / RECV_LEN;
    let send = bytes(Cmd::GetSendRingSize)? / SEND_LEN;
    let is_sane = |slots: usize| slots.is_power_of_two() && (16..=1 << 16).contains(&slots);
    if !is_sane(receive) || !is_sane(send) {
        return Err(Error::Rings);
    }
    // One slot for each buffer of both rings, so that the queue never runs over.
    let queue = 2 * receive;
    Ok(RingSizes {
        send,
        receive,
        queue,
    })
}

/// The words of an address.
fn address(bus: u64, third: u32) -> [u32; 3] {
    [bus as u32, (bus >> 32) as u32, third]
}

impl<W: Window> Myri10ge<W> {
    /// Everything from firmware that runs to an interface that is up.
    ///
    /// # Errors
    ///
    /// The firmware refuses something that it must not.
    pub(super) fn bring_up(&mut self) -> Result<(), Error> {
        self.come_up()?;
        let window = self.card.window();
        for _ in 0..LINK_PATIENCE_US / 10 {
            if self.interrupts.is_raised() {
                break;
            }
            window.delay_us(10);
        }
        self.see_link();
        Ok(())
    }

    /// Resets the firmware, tells it everything, and has it come up.
    pub(super) fn come_up(&mut self) -> Result<(), Error> {
        let card = &self.card;
        let tell = |command, value: usize| card.command(command, [value as u32, 0, 0]);
        let ask = |command| card.command(command, [0; 3]).map(|answer| answer as usize);
        tell(Cmd::Reset, 0)?;
        let sizes = ring_sizes(card)?;
        // Its result is for nobody; that it works is what matters (Linux says the same).
        if let Err(refusal) = card.test_dma(Cmd::DmaTest, self.firmware.boundary as usize) {
            log::warn!("myri10ge: the DMA test fails: {refusal}");
        }
        // Slots without a hash. Old firmware has no others.
        card.try_command(Cmd::SetRssMcpSlotType, [0; 3])?;
        let (queue, queue_len) = self.rx.queue();
        self.rx.clear();
        tell(Cmd::SetIntrqSize, queue_len)?;
        card.command(Cmd::SetIntrqDma, address(queue, 0))?;
        self.interrupts
            .restart(ask(Cmd::GetIrqAckOffset)?, ask(Cmd::GetIrqDeassertOffset)?);
        self.totals.restart();
        self.answers.delay = ask(Cmd::GetIntrCoalDelayOffset)?;
        self.write_delay();
        self.filter()?;

        let places = Places {
            small: ask(Cmd::GetSmallRxOffset)?,
            big: ask(Cmd::GetBigRxOffset)?,
            slots: sizes.receive,
        };
        let place = TxPlace {
            offset: ask(Cmd::GetSendOffset)?,
            len: sizes.send,
            boundary: self.firmware.boundary,
            max_tso6: self.firmware.max_tso6,
        };
        let fits = |offset: usize, len: usize| offset.is_multiple_of(64) && offset + len <= WINDOW;
        let receive_len = sizes.receive * RECV_LEN;
        let fit = fits(places.small, receive_len)
            && fits(places.big, receive_len)
            && fits(place.offset, sizes.send * SEND_LEN);
        if !fit || sizes.receive < self.rx.count() || sizes.send < 2 * self.tx.slots() {
            return Err(Error::Rings);
        }
        self.rx.restart(places);
        self.tx.restart(place);
        self.set_statistics()?;
        tell(Cmd::SetMtu, self.config.mtu + HEADER + TAG)?;
        tell(Cmd::SetSmallBufferSize, SMALL)?;
        tell(Cmd::SetBigBufferSize, big_size(self.config.mtu))?;
        // A frame is in one buffer; what is to be said of that only newer firmware knows.
        card.try_command(Cmd::AlwaysUseNBigBuffers, [1, 0, 0])?;
        card.try_command(Cmd::SetTsoMode, [0; 3])?;
        tell(Cmd::EthernetUp, 0)?;
        Ok(())
    }

    /// Whose frames are taken: those for the station, and all groups'. The stack looks
    /// for itself, and one who tests wants to see what arrives.
    fn filter(&self) -> Result<(), Error> {
        let [a, b, c, d, e, f] = self.mac().0;
        let high = u32::from_be_bytes([a, b, c, d]);
        let low = u32::from_be_bytes([0, 0, e, f]);
        self.card.command(Cmd::SetMacAddress, [high, low, 0])?;
        self.card.command(Cmd::DisablePromisc, [0; 3])?;
        // A peer that is throttled hides what is being measured.
        self.card.command(Cmd::DisableFlowControl, [0; 3])?;
        self.card.try_command(Cmd::EnableAllmulti, [0; 3])?;
        Ok(())
    }

    fn set_statistics(&self) -> Result<(), Error> {
        let bus = self.interrupts.bus();
        let data = address(bus, BLOCK_LEN as u32);
        if self.card.try_command(Cmd::SetStatsDmaV2, data)?.is_none() {
            let end = bus + (BLOCK_LEN - OLD_BLOCK_LEN) as u64;
            self.card
                .command(Cmd::SetStatsDmaObsolete, address(end, 0))?;
        }
        Ok(())
    }

    /// Tells the card how long an interrupt is to wait for more to come.
    pub(super) fn write_delay(&self) {
        let window = self.card.window();
        window.write32(self.answers.delay, self.delay.to_be());
    }
}

#[cfg(test)]
mod tests {
    use super::usable_tso6;

    #[test]
    fn firmware_without_room_for_the_longest_headers_cuts_no_ipv6() {
        for (most, usable) in [(0, 0), (74, 0), (113, 0), (114, 114), (136, 136)] {
            assert_eq!(usable_tso6(most), usable);
        }
    }
}
