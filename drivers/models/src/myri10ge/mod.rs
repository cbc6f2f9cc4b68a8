//! Myricom's Myri-10G card, as Linux's myri10ge and FreeBSD's mxge know it.
//!
//! The card is a processor with SRAM. What drivers meet is its boot ROM, which takes a
//! firmware image, and that firmware: a mailbox for commands, rings that are written
//! with the CPU's own stores, completions by DMA. The model stands for both, and is
//! believed because the unmodified Linux driver works with it.

mod boot;
mod command;
mod commands;
mod faults;
pub mod firmware;
mod layout;
mod pio;
mod receive;
mod statistics;
mod status;
mod transmit;
mod tso;
mod variant;

use std::time::Duration;

pub use faults::{Faults, RxFault};
pub use statistics::{Dropped, Totals};
pub use variant::Variant;

use crate::device::{Device, Host};
use crate::pci::ConfigSpace;
use commands::Parameters;
use layout::*;
use pio::{Block, Written};
use receive::Receiver;
use status::Status;

use transmit::Transmitter;

/// Memory decoding, in the command register.
const MEMORY_ENABLE: u16 = 1 << 1;

/// What the card's processor runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mcp {
    /// The boot ROM: it takes a hand-off and no commands.
    Boot,
    /// An Ethernet firmware.
    Ethernet(firmware::Kind),
    /// Code that does not run: the card is silent until it is switched off.
    Hung,
}

/// The model.
#[derive(Debug)]
pub struct Myri10ge {
    variant: Variant,
    mac: [u8; 6],
    config: ConfigSpace,
    sram: Box<[u8]>,
    mcp: Mcp,
    command_block: Block,
    handoff_block: Block,
    rdma_block: Block,
    parameters: Parameters,
    transmitter: Transmitter,
    receiver: Receiver,
    status: Status,
    link_up: bool,
    dropped: Dropped,
    totals: Totals,
    faults: Faults,
}

impl Myri10ge {
    /// One in such a host, with the station address `mac`.
    pub fn new(variant: Variant, mac: [u8; 6]) -> Self {
        let mut nic = Self {
            variant,
            mac,
            config: Variant::config_space(),
            sram: vec![0; SRAM].into_boxed_slice(),
            mcp: Mcp::Boot,
            command_block: Block::default(),
            handoff_block: Block::default(),
            rdma_block: Block::default(),
            parameters: Parameters::default(),
            transmitter: Transmitter::default(),
            receiver: Receiver::default(),
            status: Status::default(),
            link_up: true,
            dropped: Dropped::default(),
            totals: Totals::default(),
            faults: Faults::default(),
        };
        nic.power_on();
        nic
    }

    /// Which it is.
    pub fn variant(&self) -> Variant {
        self.variant
    }

    /// What it has done since it was made.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// What its firmware has counted since it was started.
    pub fn dropped(&self) -> &Dropped {
        &self.dropped
    }

    /// What it is to do wrong.
    pub fn faults_mut(&mut self) -> &mut Faults {
        &mut self.faults
    }

    /// Whether it runs an Ethernet firmware.
    pub fn has_firmware(&self) -> bool {
        matches!(self.mcp, Mcp::Ethernet(_))
    }

    /// Takes the firmware to where it begins: no parameters, nothing under way.
    fn forget(&mut self) {
        self.parameters = Parameters::default();
        self.transmitter = Transmitter::default();
        self.receiver = Receiver::default();
        self.status = Status::default();
        self.dropped = Dropped::default();
        self.faults.tx_stuck = false;
    }

    /// Plugs the cable in, or out.
    pub fn set_link(&mut self, up: bool, host: &mut Host) {
        if self.link_up != up {
            self.link_up = up;
            self.totals.link_changes += 1;
            self.status.news(host.now);
        }
    }

    /// Whether frames come and go.
    fn is_up(&self) -> bool {
        self.parameters.is_up && self.link_up
    }

    /// Where an access is meant for, if the function answers one.
    fn place(&self, bar: usize, offset: u64, len: usize) -> Option<usize> {
        let offset = usize::try_from(offset).ok()?;
        let is_inside = offset.checked_add(len).is_some_and(|end| end <= WINDOW);
        let answers = self.config.command() & MEMORY_ENABLE != 0;
        (bar == 0 && answers && is_inside).then_some(offset)
    }

    fn write_block(&mut self, host: &mut Host, at: usize, data: &[u8]) {
        let (block, start) = match at {
            BOOT_DUMMY_RDMA.. => (&mut self.rdma_block, BOOT_DUMMY_RDMA),
            BOOT_HANDOFF.. => (&mut self.handoff_block, BOOT_HANDOFF),
            _ => (&mut self.command_block, ETH_CMD),
        };
        match block.write(at - start, data) {
            Written::Part => {}
            Written::Torn => host.complaints.add(format_args!(
                "the block at {start:#x} was ended before all of it was written"
            )),
            Written::Whole(block) => match start {
                BOOT_DUMMY_RDMA => self.dummy_rdma(host, &block),
                BOOT_HANDOFF => self.hand_off(host, &block),
                _ => self.run_mailbox(host, &block),
            },
        }
    }

    fn write_word(&mut self, host: &mut Host, at: usize, data: &[u8]) {
        let Ok(value) = data.try_into().map(u32::from_be_bytes) else {
            host.complaints
                .add(format_args!("a write of {} bytes at {at:#x}", data.len()));
            return;
        };
        match at {
            IRQ_ACK => self.claim_receive(host, value),
            at if at == IRQ_ACK + 4 => self.claim_status(host, value),
            IRQ_DEASSERT => self.deassert(host),
            INTR_COAL_DELAY => self.status.set_delay(value),
            // With one queue there is nothing to start and to stop.
            SEND_GO | SEND_STOP => {}
            _ => host
                .complaints
                .add(format_args!("a write at {at:#x}, where nothing is")),
        }
    }
}

impl Device for Myri10ge {
    fn config(&self) -> &ConfigSpace {
        &self.config
    }

    fn config_mut(&mut self) -> &mut ConfigSpace {
        &mut self.config
    }

    fn read(&mut self, host: &mut Host, bar: usize, offset: u64, data: &mut [u8]) {
        data.fill(0xff);
        let Some(at) = self.place(bar, offset, data.len()) else {
            return;
        };
        self.advance(host);
        if let Some(bytes) = self.sram.get(at..at + data.len()) {
            data.copy_from_slice(bytes);
        } else if at == INTR_COAL_DELAY && data.len() == 4 {
            data.copy_from_slice(&self.status.delay().to_be_bytes());
        } else {
            host.complaints
                .add(format_args!("a read at {at:#x}, which is to be written"));
            data.fill(0);
        }
    }

    fn write(&mut self, host: &mut Host, bar: usize, offset: u64, data: &[u8]) {
        let Some(at) = self.place(bar, offset, data.len()) else {
            return;
        };
        self.advance(host);
        match at {
            ..SRAM => self.write_sram(host, at, data),
            SEND..RECV_SMALL => self.write_send(host, at - SEND, data),
            RECV_SMALL..RECV_BIG => self.receiver.small.write(host, at - RECV_SMALL, data),
            RECV_BIG..SEND_GO => self.receiver.big.write(host, at - RECV_BIG, data),
            ETH_CMD..IRQ_ACK | BOOT_HANDOFF.. => self.write_block(host, at, data),
            _ => self.write_word(host, at, data),
        }
        self.update_interrupts(host);
    }

    fn takes_frames(&self) -> bool {
        !self.parameters.flow_control || !self.is_up() || self.receiver.has_room()
    }

    fn receive(&mut self, host: &mut Host, frame: &[u8]) {
        self.take_from_wire(frame, host);
        self.update_interrupts(host);
    }

    fn advance(&mut self, host: &mut Host) {
        self.end_faults(host);
        host.dma
            .set_master(self.config.is_master() && !self.faults.bus_master_off);
        // What waited for memory to come into reach goes on.
        self.transmit(host);
        self.update_interrupts(host);
    }

    fn deadline(&self) -> Option<Duration> {
        let dues = [self.status.deadline(), self.faults.deadline()];
        dues.into_iter().flatten().min()
    }

    fn reset(&mut self, host: &mut Host) {
        self.config.reset();
        self.power_on();
        host.interrupts.set_level(false, host.now);
    }

    fn command(&mut self, host: &mut Host, words: &[&str]) -> Result<String, String> {
        let answer = self.run_command(host, words)?;
        self.update_interrupts(host);
        Ok(answer)
    }
}

#[cfg(test)]
mod tests;
