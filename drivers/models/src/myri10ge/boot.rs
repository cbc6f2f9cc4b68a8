//! From power-on to a firmware that runs.

use super::layout::*;
use super::pio::Block;
use super::variant::READ32;
use super::{Mcp, Myri10ge, firmware};
use crate::device::Host;

/// The version that a card runs which has been given firmware before.
const EEPROM_VERSION: &str = "1.4.55";
/// What the register REBOOT_STATUS shows of a card that has found a parity error.
const REBOOTED: u32 = 0x0000_0101;

impl Myri10ge {
    /// Takes the card to where it is after power-on.
    pub(super) fn power_on(&mut self) {
        self.forget();
        self.sram.fill(0);
        let image = if self.variant == super::Variant::Running {
            let image = firmware::synthetic(false, EEPROM_VERSION);
            self.mcp = match firmware::examine(&image) {
                Ok(kind) => Mcp::Ethernet(kind),
                Err(_) => Mcp::Hung,
            };
            image
        } else {
            self.mcp = Mcp::Boot;
            firmware::boot_rom()
        };
        self.sram[..image.len()].copy_from_slice(&image);
        let strings = self.strings();
        self.sram[STRING_SPECS..STRING_SPECS + strings.len()].copy_from_slice(&strings);
    }

    /// What the EEPROM says of the card: texts that each end with a zero.
    fn strings(&self) -> Vec<u8> {
        let mac = self.mac.map(|byte| format!("{byte:02x}")).join(":");
        format!("MAC={mac}\0SN=123456\0PC=10G-PCIE-8A-R\0PT=10G-PCIE-8A-R\0").into_bytes()
    }

    /// The card has found a parity error in its SRAM, and starts anew: it has forgotten
    /// its configuration too.
    pub(super) fn reboot(&mut self, host: &mut Host) {
        self.totals.reboots += 1;
        self.config.reset();
        self.config.show(READ32, REBOOTED);
        self.power_on();
        host.interrupts.set_level(false, host.now);
        host.dma.set_master(self.config.is_master());
    }

    pub(super) fn write_sram(&mut self, host: &mut Host, at: usize, data: &[u8]) {
        if at < FW_OFFSET || at + data.len() > STRING_SPECS {
            host.complaints.add(format_args!(
                "a write at {at:#x} of the SRAM, which is in use"
            ));
            return;
        }
        self.sram[at..at + data.len()].copy_from_slice(data);
    }

    /// Starts the firmware image that was written behind the first MiB.
    pub(super) fn hand_off(&mut self, host: &mut Host, block: &[u8; Block::LEN]) {
        if self.mcp == Mcp::Hung || self.faults.take_handoff() {
            return;
        }
        let [source, len, destination, entry] = [12, 16, 20, 24].map(|at| word(block, at) as usize);
        let end = source.checked_add(len).filter(|end| *end <= STRING_SPECS);
        // The first eight bytes stay, as the first cards protect them.
        let (true, Some(end)) = ((source, destination, entry) == (FW_OFFSET + 8, 8, 0), end) else {
            host.complaints.add(format_args!(
                "a hand-off of {len} bytes from {source:#x} to {destination:#x}, entry {entry:#x}"
            ));
            self.mcp = Mcp::Hung;
            return;
        };
        self.forget();
        match firmware::examine(&self.sram[FW_OFFSET..end]) {
            Ok(kind) => self.mcp = Mcp::Ethernet(kind),
            Err(what) => {
                host.complaints.add(format_args!("a hand-off to {what}"));
                self.mcp = Mcp::Hung;
                return;
            }
        }
        self.sram.copy_within(source..end, destination);
        self.totals.hand_offs += 1;
        confirm(host, block);
    }

    /// Starts or stops the reads that make some chip sets send lost messages again.
    pub(super) fn dummy_rdma(&mut self, host: &mut Host, block: &[u8; Block::LEN]) {
        if self.mcp != Mcp::Hung {
            confirm(host, block);
        }
    }
}

/// Writes the confirmation that a block asks for: an address and a word.
fn confirm(host: &mut Host, block: &[u8; Block::LEN]) {
    let address = u64::from(word(block, 0)) << 32 | u64::from(word(block, 4));
    if let Err(error) = host.dma.write(address, &block[8..12]) {
        host.complaints.add(format_args!("a confirmation: {error}"));
    }
}
