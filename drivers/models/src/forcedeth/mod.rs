//! The Ethernet MAC of NVIDIA's nForce chips, as Linux's forcedeth and BSD's nfe know it.
//!
//! NVIDIA has published no manual: what is here is what the two open drivers rely on,
//! and is believed because the unmodified Linux driver works with it.

mod command;
mod events;
mod faults;
mod generation;
mod management;
mod mdio;
mod phy;
mod receive;
mod registers;
mod ring;
mod statistics;
mod transmit;

use std::time::Duration;

pub use faults::{Faults, RxFault, TxFault};
pub use generation::Generation;
pub use phy::{Mode, Partner};
pub use statistics::Totals;

use crate::device::{Device, Host};
use crate::pci::ConfigSpace;
use generation::Traits;
use management::ManagementUnit;
use mdio::Mdio;
use phy::Phy;
use receive::Receiver;
use registers::*;
use statistics::Counters;
use transmit::Transmitter;

/// How often a frame that waits for a buffer looks for one.
const RETRY: Duration = Duration::from_micros(100);

/// The model.
#[derive(Debug)]
pub struct Forcedeth {
    generation: Generation,
    traits: &'static Traits,
    mac: [u8; 6],
    config: ConfigSpace,
    registers: Box<[u32; WINDOW / 4]>,
    phy: Phy,
    mdio: Mdio,
    management: ManagementUnit,
    transmitter: Transmitter,
    receiver: Receiver,
    counters: Counters,
    totals: Totals,
    faults: Faults,
    /// When the interval timer fires next.
    timer: Option<Duration>,
    /// Causes stood when the host was last told of them by message.
    msi_level: bool,
    /// MSI-X vectors whose causes were signalled and still stand.
    msix_signalled: u32,
}

impl Forcedeth {
    /// One of `generation`, with the station address `mac`.
    pub fn new(generation: Generation, mac: [u8; 6]) -> Self {
        let traits = generation.traits();
        let mut nic = Self {
            generation,
            traits,
            mac,
            config: generation.config_space(),
            registers: Box::new([0; WINDOW / 4]),
            phy: Phy::new(traits.phy),
            mdio: Mdio::default(),
            management: ManagementUnit::new(traits.management),
            transmitter: Transmitter::default(),
            receiver: Receiver::default(),
            counters: Counters::default(),
            totals: Totals::default(),
            faults: Faults::default(),
            timer: None,
            msi_level: false,
            msix_signalled: 0,
        };
        nic.power_on(Duration::ZERO);
        nic
    }

    /// Which generation it is.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// What it has done since it was made.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// What it is to do wrong.
    pub fn faults_mut(&mut self) -> &mut Faults {
        &mut self.faults
    }

    /// The link as it is.
    pub fn link(&self) -> Option<Mode> {
        self.phy.link()
    }

    /// Plugs another partner into the other end of the cable at time `now`.
    pub fn set_partner(&mut self, partner: Partner, now: Duration) {
        let before = self.phy.link();
        self.phy.set_partner(partner, now);
        self.link_changed(before);
    }

    fn power_on(&mut self, now: Duration) {
        self.reset_mac();
        self.registers.fill(0);
        self.put_mac();
        if self.traits.phy.is_gigabit() {
            self.set(PHY_INTERFACE, PHY_RGMII);
        }
        self.management = ManagementUnit::new(self.traits.management);
        self.phy.reset(now);
        self.mdio = Mdio::default();
        self.timer = None;
        self.msi_level = false;
        self.msix_signalled = 0;
    }

    /// Writes the address as it comes out of the chip's configuration: last byte first
    /// in the older generations.
    fn put_mac(&mut self) {
        let mut mac = self.mac;
        if !self.traits.mac_in_order {
            mac.reverse();
        }
        let [a, b, c, d, e, f] = mac;
        self.set(MAC_ADDR_A, u32::from_le_bytes([a, b, c, d]));
        self.set(MAC_ADDR_B, u32::from_le_bytes([e, f, 0, 0]));
        self.set(TRANSMIT_POLL, 0);
    }

    /// Takes the MAC's own part to where it begins. The PHY and the causes of interrupts
    /// stay.
    fn reset_mac(&mut self) {
        for register in (MISC1..=TX_RX_CONTROL).step_by(4) {
            if register != PHY_INTERFACE {
                self.set(register, 0);
            }
        }
        self.transmitter = Transmitter::default();
        self.receiver = Receiver::default();
    }

    fn get(&self, register: usize) -> u32 {
        self.registers[register / 4]
    }

    fn set(&mut self, register: usize, value: u32) {
        self.registers[register / 4] = value;
    }

    /// The station address that the MAC takes frames for: the older generations have it
    /// last byte first until they are told otherwise.
    fn station(&self) -> [u8; 6] {
        let [a, b, c, d] = self.get(MAC_ADDR_A).to_le_bytes();
        let [e, f, ..] = self.get(MAC_ADDR_B).to_le_bytes();
        let mut station = [a, b, c, d, e, f];
        if !self.traits.mac_in_order && self.get(TRANSMIT_POLL) & MAC_ADDR_REV == 0 {
            station.reverse();
        }
        station
    }

    /// The link, where the MAC runs at its speed. One that does not neither hears nor is
    /// heard.
    fn matching_link(&self) -> Option<Mode> {
        let mbps = match self.get(LINK_SPEED) & 0xfff {
            1000 => 10,
            100 => 100,
            50 => 1000,
            _ => return None,
        };
        let forced = self.get(LINK_SPEED) & LINK_SPEED_FORCE != 0;
        self.phy
            .link()
            .filter(|link| link.mbps == mbps && forced && !self.is_gated())
    }

    /// Whether the clocks of the receiver and the transmitter are off.
    fn is_gated(&self) -> bool {
        self.traits.power_control && self.get(POWER_STATE2) & POWER2_GATE_CLOCKS != 0
    }

    fn loops_back(&self) -> bool {
        self.get(PACKET_FILTER_FLAGS) & filter::LOOPBACK != 0 || self.phy.loops_back()
    }

    fn read_register(&mut self, register: usize, host: &mut Host) -> u32 {
        match register {
            IRQ_STATUS | MSIX_IRQ_STATUS => self.read_status(host.now),
            TRANSMITTER_CONTROL => self.management.control(self.get(register)),
            TRANSMITTER_STATUS => u32::from(self.faults.tx_busy),
            RECEIVER_STATUS => 0,
            TX_RX_CONTROL => self.get(register) & !txrx::KICK | txrx::IDLE,
            SETUP_REG5 => {
                let ready = self.get(TX_RX_CONTROL) & txrx::BIT1 != 0;
                self.get(register) | if ready { SETUP5_READY } else { 0 }
            }
            MII_STATUS => self.mdio.status(),
            MII_CONTROL => self.mdio.control(),
            MII_DATA => self.mdio.data(),
            MGMT_UNIT_VERSION => self.management.version(),
            MGMT_UNIT_CONTROL => self.management.unit_control(),
            _ => match statistics::counter_at(register) {
                Some((counter, group)) if group <= self.traits.statistics => {
                    self.counters.take(counter)
                }
                _ => self.get(register),
            },
        }
    }

    fn write_register(&mut self, register: usize, value: u32, host: &mut Host) {
        match register {
            IRQ_STATUS | MSIX_IRQ_STATUS => {
                let status = self.get(IRQ_STATUS) & !value;
                self.set(IRQ_STATUS, status);
            }
            IRQ_MASK => self.write_irq_mask(value, host),
            SETUP_REG6 => self.write_timer(value, host.now),
            POLLING_INTERVAL => self.set(register, value & 0xffff),
            MAC_RESET => self.write_mac_reset(value, host.now),
            MISC1 => self.set(register, value),
            TRANSMITTER_CONTROL => self.write_transmitter_control(value, host),
            RECEIVER_CONTROL => {
                self.set(register, value);
                self.receiver.starts(value & receiver::START != 0);
            }
            TX_RING_PHYS_ADDR | TX_RING_PHYS_ADDR_HIGH => {
                self.set(register, value);
                self.transmitter.restart();
            }
            RX_RING_PHYS_ADDR | RX_RING_PHYS_ADDR_HIGH => {
                self.set(register, value);
                self.receiver.restart();
            }
            TX_RX_CONTROL => self.write_txrx_control(value, host),
            MII_STATUS => self.mdio.clear_status(value),
            MII_MASK => {
                self.set(register, value);
                self.update_link_cause();
            }
            MII_DATA => self.mdio.set_data(value),
            MII_CONTROL => self.mii_command(value, host.now),
            MGMT_UNIT_GET_VERSION => {
                self.management.ask(value);
            }
            POWER_STATE2 => self.write_power2(value, host.now),
            TRANSMITTER_STATUS | RECEIVER_STATUS | MGMT_UNIT_VERSION | MGMT_UNIT_CONTROL => {}
            _ => self.set(register, value),
        }
    }

    fn write_transmitter_control(&mut self, value: u32, host: &mut Host) {
        let was = self.get(TRANSMITTER_CONTROL);
        let value = self.management.write_control(was, value);
        self.set(TRANSMITTER_CONTROL, value);
        if was & xmit::START != 0 && value & xmit::START == 0 {
            // What a driver does about a transmitter that is stuck.
            self.faults.tx_stuck = false;
        }
        self.transmit(host);
    }

    fn write_txrx_control(&mut self, value: u32, host: &mut Host) {
        self.set(TX_RX_CONTROL, value);
        if value & txrx::RESET != 0 {
            self.transmitter.restart();
            self.receiver.restart();
            self.faults.tx_stuck = false;
        }
        if value & txrx::KICK != 0 {
            self.transmitter.kick();
        }
        self.transmit(host);
    }

    fn write_mac_reset(&mut self, value: u32, now: Duration) {
        self.set(MAC_RESET, value);
        if value & MAC_RESET_ASSERT == MAC_RESET_ASSERT {
            if !self.traits.power_control {
                return;
            }
            self.reset_mac();
            self.put_mac();
            self.faults.tx_stuck = false;
            self.timer = self.next_tick(now);
        }
    }

    fn write_power2(&mut self, value: u32, now: Duration) {
        let before = self.phy.link();
        let was = self.get(POWER_STATE2);
        self.set(POWER_STATE2, value);
        if was & POWER2_PHY_RESET == 0 && value & POWER2_PHY_RESET != 0 {
            self.phy.reset(now);
            self.link_changed(before);
        }
    }
}

impl Device for Forcedeth {
    fn config(&self) -> &ConfigSpace {
        &self.config
    }

    fn config_mut(&mut self) -> &mut ConfigSpace {
        &mut self.config
    }

    fn read(&mut self, host: &mut Host, bar: usize, offset: u64, data: &mut [u8]) {
        data.fill(0);
        let Some(register) = register(bar, offset, data.len()) else {
            host.complaints.add(format_args!(
                "a read of {} bytes at {offset:#x} of BAR{bar}",
                data.len()
            ));
            return;
        };
        self.advance(host);
        let value = self.read_register(register, host);
        data.copy_from_slice(&value.to_le_bytes());
        self.update_interrupts(host);
    }

    fn write(&mut self, host: &mut Host, bar: usize, offset: u64, data: &[u8]) {
        let value = data.try_into().map(u32::from_le_bytes);
        let (Some(register), Ok(value)) = (register(bar, offset, data.len()), value) else {
            host.complaints.add(format_args!(
                "a write of {} bytes at {offset:#x} of BAR{bar}",
                data.len()
            ));
            return;
        };
        self.advance(host);
        self.write_register(register, value, host);
        self.update_interrupts(host);
    }

    fn takes_frames(&self) -> bool {
        !self.receiver.is_behind()
    }

    fn receive(&mut self, host: &mut Host, frame: &[u8]) {
        self.take_from_wire(frame, host);
        self.update_interrupts(host);
    }

    fn advance(&mut self, host: &mut Host) {
        self.end_faults(host);
        host.dma
            .set_master(self.config.is_master() && !self.faults.bus_master_off);
        let before = self.phy.link();
        self.phy.advance(host.now);
        self.link_changed(before);
        self.advance_timer(host.now);
        self.deliver_waiting(host);
        self.transmit(host);
        self.update_interrupts(host);
    }

    fn deadline(&self) -> Option<Duration> {
        let dues = [
            self.phy.deadline(),
            self.timer_deadline(),
            self.receiver.deadline(),
            self.transmitter.deadline(),
            self.faults.deadline(),
        ];
        dues.into_iter().flatten().min()
    }

    fn reset(&mut self, host: &mut Host) {
        self.config.reset();
        self.power_on(host.now);
        self.update_interrupts(host);
    }

    fn command(&mut self, host: &mut Host, words: &[&str]) -> Result<String, String> {
        let answer = self.run_command(host, words)?;
        self.update_interrupts(host);
        Ok(answer)
    }
}

/// The register of an access, if it is one that the window takes: a whole one.
fn register(bar: usize, offset: u64, len: usize) -> Option<usize> {
    let offset = usize::try_from(offset).ok()?;
    (bar == 0 && len == 4 && offset.is_multiple_of(4) && offset < WINDOW).then_some(offset)
}

#[cfg(test)]
mod tests;
