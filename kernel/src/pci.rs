//! PCI: finding every function, its memory BARs and its interrupt.

use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use pci_types::capability::{MsiCapability, PciCapability};
use pci_types::{
    Bar, CommandRegister, ConfigRegionAccess, EndpointHeader, HeaderType, PciAddress, PciHeader,
    PciPciBridgeHeader,
};

mod express;
mod saved;
#[cfg(test)]
mod testing;

pub use saved::Saved;

const DEVICES_A_BUS: u8 = 32;
const FUNCTIONS_A_DEVICE: u8 = 8;
const ABSENT_VENDOR: u16 = 0xffff;
const BAR0: u16 = 0x10;

/// Base class of network controllers.
pub const NETWORK: u8 = 0x02;

/// A PCI function that is not a bridge.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Function {
    address: PciAddress,
    /// Vendor id.
    pub vendor: u16,
    /// Device id.
    pub device: u16,
    /// Base class, for example [`NETWORK`].
    pub class: u8,
    /// Revision.
    pub revision: u8,
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bus, device, function) = self.location();
        write!(f, "{bus:02x}:{device:02x}.{function}")
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} {:04x}:{:04x}", self.vendor, self.device)
    }
}

/// Which legacy interrupt a function raises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegacyInterrupt {
    /// 1 to 4 for INTA# to INTD#.
    pub pin: u8,
    /// The ISA interrupt that the firmware routed it to, if it did.
    pub line: Option<u8>,
}

impl Function {
    /// Bus, device and function number.
    pub fn location(&self) -> (u8, u8, u8) {
        (
            self.address.bus(),
            self.address.device(),
            self.address.function(),
        )
    }

    /// Whether it is a network controller. Some that a driver knows say that they are
    /// bridges.
    pub fn is_nic(&self) -> bool {
        self.class == NETWORK || uniperf_drivers::driver_for(self.vendor, self.device).is_some()
    }

    /// Visits its configuration space, a word after the other.
    pub fn configuration(&self, access: impl ConfigRegionAccess, visit: &mut dyn FnMut(u16, u32)) {
        for offset in (0..256).step_by(4) {
            // SAFETY: the function exists, and reading its configuration changes nothing.
            visit(offset, unsafe { access.read(self.address, offset) });
        }
    }

    /// The physical addresses behind memory BAR `slot`.
    ///
    /// `None` for an I/O BAR, an unimplemented one, or one that the firmware
    /// gave no address. Memory decoding is off while the BAR is sized.
    pub fn memory_bar(&self, slot: u8, access: impl ConfigRegionAccess) -> Option<Range<u64>> {
        let is_reserved_kind = {
            // SAFETY: the function exists, and the offset is one of its BARs.
            let raw = unsafe { access.read(self.address, BAR0 + u16::from(slot) * 4) };
            raw & 1 == 0 && matches!((raw >> 1) & 3, 1 | 3)
        };
        if is_reserved_kind {
            return None;
        }
        let header = self.endpoint(&access)?;
        let mut generic = PciHeader::new(self.address);
        let command = generic.command(&access);
        generic.update_command(&access, |command| command - CommandRegister::MEMORY_ENABLE);
        let bar = header.bar(slot, &access);
        generic.update_command(&access, |_| command);
        let (address, size) = match bar? {
            Bar::Memory32 { address, size, .. } => (u64::from(address), u64::from(size)),
            Bar::Memory64 { address, size, .. } => (address, size),
            Bar::Io { .. } => return None,
        };
        (address != 0).then_some(address..address.checked_add(size)?)
    }

    /// Lets the function answer memory accesses and do DMA.
    pub fn enable(&self, access: impl ConfigRegionAccess) {
        PciHeader::new(self.address).update_command(access, |command| {
            command | CommandRegister::MEMORY_ENABLE | CommandRegister::BUS_MASTER_ENABLE
        });
    }

    /// Chooses between message-signalled and INTx interrupts.
    pub fn disable_intx(&self, disable: bool, access: impl ConfigRegionAccess) {
        PciHeader::new(self.address).update_command(access, |command| {
            if disable {
                command | CommandRegister::INTERRUPT_DISABLE
            } else {
                command - CommandRegister::INTERRUPT_DISABLE
            }
        });
    }

    /// Where its capability `id` is in configuration space.
    fn capability(&self, id: u8, access: impl ConfigRegionAccess) -> Option<u16> {
        const STATUS: u16 = 0x04;
        const HAS_CAPABILITIES: u32 = 1 << 20;
        const FIRST: u16 = 0x34;
        /// As many as there is room for, so that a loop ends.
        const MOST: usize = 48;
        // SAFETY: the function exists, and reading its configuration changes nothing.
        let read = |offset| unsafe { access.read(self.address, offset) };
        if read(STATUS) & HAS_CAPABILITIES == 0 {
            return None;
        }
        let mut offset = (read(FIRST) & 0xfc) as u16;
        for _ in 0..MOST {
            let word = (offset >= 0x40).then(|| read(offset))?;
            if word as u8 == id {
                return Some(offset);
            }
            offset = (word >> 8 & 0xfc) as u16;
        }
        None
    }

    /// The MSI capability, if there is one.
    pub fn msi(&self, access: impl ConfigRegionAccess) -> Option<MsiCapability> {
        let header = self.endpoint(&access)?;
        header
            .capabilities(&access)
            .find_map(|capability| match capability {
                PciCapability::Msi(msi) => Some(msi),
                _ => None,
            })
    }

    /// The INTx interrupt, if the function has one.
    pub fn legacy_interrupt(&self, access: impl ConfigRegionAccess) -> Option<LegacyInterrupt> {
        const NOT_CONNECTED: u8 = 0xff;
        let (pin, line) = self.endpoint(&access)?.interrupt(&access);
        matches!(pin, 1..=4).then_some(LegacyInterrupt {
            pin,
            line: (line != NOT_CONNECTED).then_some(line),
        })
    }

    fn endpoint(&self, access: impl ConfigRegionAccess) -> Option<EndpointHeader> {
        EndpointHeader::from_header(PciHeader::new(self.address), access)
    }
}

/// Finds every function that is not a bridge, in the order of bus, device and
/// function numbers.
pub fn enumerate(access: impl ConfigRegionAccess) -> Vec<Function> {
    let mut found = Vec::new();
    for_each(access, |function| found.push(function));
    found.sort_by_key(Function::location);
    found
}

/// Stops every network controller from doing DMA. Firmware or a boot loader may have
/// left one receiving, into memory that is about to be used for something else.
/// Needs no heap.
pub fn stop_network_dma(access: impl ConfigRegionAccess) {
    for_each(&access, |function| {
        if function.is_nic() {
            PciHeader::new(function.address).update_command(&access, |command| {
                command - CommandRegister::BUS_MASTER_ENABLE
            });
        }
    });
}

/// Calls `visit` with every function that is not a bridge, as they are found.
///
/// Buses are followed through the bridges that the firmware set up. Host
/// bridges that show up as functions of device 00:00 each have a bus of their
/// own number.
fn for_each(access: impl ConfigRegionAccess, visit: impl FnMut(Function)) {
    let mut walk = Walk {
        access,
        seen: [false; 256],
        visit,
    };
    walk.bus(0);
    let root = PciAddress::new(0, 0, 0, 0);
    if PciHeader::new(root).has_multiple_functions(&walk.access) {
        for function in 1..FUNCTIONS_A_DEVICE {
            if vendor(PciAddress::new(0, 0, 0, function), &walk.access) != ABSENT_VENDOR {
                walk.bus(function);
            }
        }
    }
}

struct Walk<A, V> {
    access: A,
    /// A bridge that names a bus seen before is not followed: firmware can be
    /// wrong, and a loop would never end.
    seen: [bool; 256],
    visit: V,
}

impl<A: ConfigRegionAccess, V: FnMut(Function)> Walk<A, V> {
    fn bus(&mut self, bus: u8) {
        if core::mem::replace(&mut self.seen[usize::from(bus)], true) {
            return;
        }
        for device in 0..DEVICES_A_BUS {
            let first = PciAddress::new(0, bus, device, 0);
            if vendor(first, &self.access) == ABSENT_VENDOR {
                continue;
            }
            let functions = if PciHeader::new(first).has_multiple_functions(&self.access) {
                FUNCTIONS_A_DEVICE
            } else {
                1
            };
            for function in 0..functions {
                self.function(PciAddress::new(0, bus, device, function));
            }
        }
    }

    fn function(&mut self, address: PciAddress) {
        let header = PciHeader::new(address);
        let (vendor, device) = header.id(&self.access);
        if vendor == ABSENT_VENDOR {
            return;
        }
        match header.header_type(&self.access) {
            HeaderType::PciPciBridge => {
                if let Some(bridge) = PciPciBridgeHeader::from_header(header, &self.access) {
                    let secondary = bridge.secondary_bus_number(&self.access);
                    // Zero is what an unconfigured bridge says.
                    if secondary != 0 {
                        self.bus(secondary);
                    }
                }
            }
            HeaderType::Endpoint => {
                let (revision, class, _, _) = header.revision_and_class(&self.access);
                (self.visit)(Function {
                    address,
                    vendor,
                    device,
                    class,
                    revision,
                });
            }
            _ => {}
        }
    }
}

fn vendor(address: PciAddress, access: impl ConfigRegionAccess) -> u16 {
    PciHeader::new(address).id(access).0
}

/// Configuration space through ports 0xcf8 and 0xcfc (PCI Local Bus 3.0,
/// section 3.2.2.3.2).
#[cfg(target_os = "none")]
#[derive(Clone, Copy, Debug)]
pub struct ConfigPorts;

#[cfg(target_os = "none")]
pub(crate) use ports::write_byte;

#[cfg(target_os = "none")]
mod ports {
    use super::{ConfigPorts, ConfigRegionAccess, PciAddress};
    use x86_64::instructions::port::Port;

    const ADDRESS: u16 = 0xcf8;
    const DATA: u16 = 0xcfc;
    const ENABLE: u32 = 1 << 31;

    fn select(address: PciAddress, offset: u16) -> Port<u32> {
        let word = ENABLE
            | u32::from(address.bus()) << 16
            | u32::from(address.device()) << 11
            | u32::from(address.function()) << 8
            | u32::from(offset & 0xfc);
        // SAFETY: the port selects a register and has no other effect.
        unsafe { Port::<u32>::new(ADDRESS).write(word) };
        Port::new(DATA)
    }

    /// Writes one byte of configuration space, on bus 0.
    pub(crate) fn write_byte(device: u8, function: u8, offset: u16, value: u8) {
        select(PciAddress::new(0, 0, device, function), offset);
        // SAFETY: the byte of the register just selected; that it may be written is the
        // caller's word.
        unsafe { Port::<u8>::new(DATA + (offset & 3)).write(value) };
    }

    impl ConfigRegionAccess for ConfigPorts {
        unsafe fn read(&self, address: PciAddress, offset: u16) -> u32 {
            // SAFETY: reads the register just selected; that it may be read is
            // the caller's promise.
            unsafe { select(address, offset).read() }
        }

        unsafe fn write(&self, address: PciAddress, offset: u16, value: u32) {
            // SAFETY: writes the register just selected; that it may be written
            // is the caller's promise.
            unsafe { select(address, offset).write(value) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::Space;
    use super::*;

    fn locations(space: &Space) -> Vec<(u8, u8, u8)> {
        enumerate(space).iter().map(Function::location).collect()
    }

    #[test]
    fn an_empty_bus_has_nothing() {
        assert_eq!(locations(&Space::default()), []);
    }

    #[test]
    fn functions_behind_bridges_are_found_in_order() {
        let mut space = Space::default();
        space.endpoint((0, 0, 0), false);
        space.bridge((0, 2, 0), 3);
        space.endpoint((3, 31, 0), true);
        space.endpoint((3, 31, 7), false);
        space.bridge((3, 1, 0), 4);
        space.endpoint((4, 0, 0), false);
        space.endpoint((0, 5, 0), false);
        assert_eq!(
            locations(&space),
            [(0, 0, 0), (0, 5, 0), (3, 31, 0), (3, 31, 7), (4, 0, 0)]
        );
    }

    #[test]
    fn single_function_devices_are_not_read_eight_times() {
        let mut space = Space::default();
        space.endpoint((0, 3, 0), false);
        space.endpoint((0, 3, 1), false);
        assert_eq!(locations(&space), [(0, 3, 0)]);
    }

    #[test]
    fn a_bridge_that_points_back_is_not_followed_forever() {
        let mut space = Space::default();
        space.bridge((0, 1, 0), 1);
        space.bridge((1, 0, 0), 1);
        space.bridge((1, 1, 0), 0);
        space.endpoint((1, 2, 0), false);
        assert_eq!(locations(&space), [(1, 2, 0)]);
    }

    #[test]
    fn further_host_bridges_have_a_bus_each() {
        let mut space = Space::default();
        space.endpoint((0, 0, 0), true);
        space.endpoint((0, 0, 2), false);
        space.endpoint((2, 4, 0), false);
        assert!(locations(&space).contains(&(2, 4, 0)));
    }

    #[test]
    fn dma_is_stopped_on_network_controllers_alone() {
        const COMMAND: u16 = 0x04;
        const ALL_ON: u32 = 0x0000_0007;
        let mut space = Space::default();
        space.bridge((0, 1, 0), 2);
        space.endpoint((2, 0, 0), false);
        space.endpoint((0, 3, 0), false);
        space.set((0, 3, 0), 0x00, 0x2922_8086);
        space.set((0, 3, 0), 0x08, 0x0106_0100);
        // An nForce NIC says that it is a bridge.
        space.endpoint((0, 4, 0), false);
        space.set((0, 4, 0), 0x00, 0x0373_10de);
        space.set((0, 4, 0), 0x08, 0x0680_00a3);
        for at in [(0, 1, 0), (2, 0, 0), (0, 3, 0), (0, 4, 0)] {
            space.set(at, COMMAND, ALL_ON);
        }
        stop_network_dma(&space);
        let command = |at: (u8, u8, u8)| space.words.borrow()[&(at.0, at.1, at.2, COMMAND)];
        assert_eq!(command((2, 0, 0)), 0x0000_0003);
        assert_eq!(command((0, 4, 0)), 0x0000_0003);
        assert_eq!(command((0, 3, 0)), ALL_ON);
        assert_eq!(command((0, 1, 0)), ALL_ON);
    }

    #[test]
    fn a_32_bit_bar_is_sized_and_left_as_it_was() {
        let mut space = Space::default();
        space.endpoint((0, 3, 0), false);
        space.set((0, 3, 0), 0x04, 0x0000_0007);
        space.set((0, 3, 0), BAR0, 0xfeb8_0000);
        space.bar_masks.insert((0, 3, 0, BAR0), 0xfffe_0000);
        let nic = enumerate(&space)[0];
        assert_eq!(nic.memory_bar(0, &space), Some(0xfeb8_0000..0xfeba_0000));
        assert_eq!(space.words.borrow()[&(0, 3, 0, BAR0)], 0xfeb8_0000);
        assert_eq!(space.words.borrow()[&(0, 3, 0, 0x04)] & 7, 7);
    }

    #[test]
    fn a_64_bit_bar_above_4_gib_is_found() {
        let mut space = Space::default();
        space.endpoint((0, 3, 0), false);
        space.set((0, 3, 0), BAR0, 0x0000_0004);
        space.set((0, 3, 0), BAR0 + 4, 0x0000_0080);
        space.bar_masks.insert((0, 3, 0, BAR0), 0xff00_0000);
        space.bar_masks.insert((0, 3, 0, BAR0 + 4), 0xffff_ffff);
        let nic = enumerate(&space)[0];
        assert_eq!(
            nic.memory_bar(0, &space),
            Some(0x80_0000_0000..0x80_0100_0000)
        );
    }

    #[test]
    fn io_absent_and_reserved_bars_are_no_memory() {
        let mut space = Space::default();
        space.endpoint((0, 3, 0), false);
        space.set((0, 3, 0), BAR0, 0x0000_c001);
        space.set((0, 3, 0), BAR0 + 8, 0x0000_0006);
        let nic = enumerate(&space)[0];
        assert_eq!(nic.memory_bar(0, &space), None);
        space.bar_masks.insert((0, 3, 0, BAR0 + 4), 0);
        space.set((0, 3, 0), BAR0 + 4, 0);
        assert_eq!(nic.memory_bar(1, &space), None);
        assert_eq!(nic.memory_bar(2, &space), None);
    }

    #[test]
    fn an_interrupt_may_be_absent_or_not_routed() {
        let mut space = Space::default();
        space.endpoint((0, 3, 0), false);
        let nic = enumerate(&space)[0];
        assert_eq!(nic.legacy_interrupt(&space), None);
        space.set((0, 3, 0), 0x3c, 0x0000_010b);
        assert_eq!(
            nic.legacy_interrupt(&space),
            Some(LegacyInterrupt {
                pin: 1,
                line: Some(11)
            })
        );
        space.set((0, 3, 0), 0x3c, 0x0000_01ff);
        assert_eq!(
            nic.legacy_interrupt(&space),
            Some(LegacyInterrupt { pin: 1, line: None })
        );
        space.set((0, 3, 0), 0x3c, 0x0000_050b);
        assert_eq!(nic.legacy_interrupt(&space), None);
    }
}
