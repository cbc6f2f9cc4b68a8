//! The fixed ACPI description table (ACPI 6.5, 5.2.9): the chip set's registers that the
//! appliance uses. A table is as long as its version has it; what is beyond its end, or
//! zero, is not there.

#![cfg_attr(not(any(test, target_os = "none")), allow(dead_code))]

use crate::firmware::{u32_at, u64_at};

const DSDT: usize = 40;
const SMI_COMMAND: usize = 48;
const ACPI_ENABLE: usize = 52;
const PM1A_CONTROL: usize = 64;
const PM1B_CONTROL: usize = 68;
const PM_TIMER: usize = 76;
const FLAGS: usize = 112;
const RESET_REGISTER: usize = 116;
const RESET_VALUE: usize = 128;
const EXTENDED_DSDT: usize = 140;
const EXTENDED_PM1A_CONTROL: usize = 172;
const EXTENDED_PM1B_CONTROL: usize = 184;
const EXTENDED_PM_TIMER: usize = 208;

const HAS_RESET_REGISTER: u32 = 1 << 10;

/// The table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fadt<'a>(pub(crate) &'a [u8]);

/// Where a register is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Register {
    /// At a physical address.
    Memory(u64),
    /// At a port.
    Port(u16),
    /// In a PCI function's configuration space, on bus 0.
    Pci {
        device: u8,
        function: u8,
        offset: u16,
    },
}

impl Fadt<'_> {
    /// Physical address of the table with the byte code.
    pub(crate) fn dsdt(self) -> Option<u64> {
        let extended = u64_at(self.0, EXTENDED_DSDT).filter(|address| *address != 0);
        extended.or_else(|| u32_at(self.0, DSDT).map(u64::from))
    }

    /// Ports of the PM1a and PM1b control registers.
    pub(crate) fn pm1_control(self) -> [Option<u16>; 2] {
        [
            self.port(EXTENDED_PM1A_CONTROL, PM1A_CONTROL),
            self.port(EXTENDED_PM1B_CONTROL, PM1B_CONTROL),
        ]
    }

    /// Port of the power management timer.
    pub(crate) fn pm_timer(self) -> Option<u16> {
        self.port(EXTENDED_PM_TIMER, PM_TIMER)
    }

    /// The port, and the value to be written there, that puts the chip set in ACPI mode.
    pub(crate) fn acpi_enable(self) -> Option<(u16, u8)> {
        let port = u16::try_from(u32_at(self.0, SMI_COMMAND)?).ok()?;
        let value = self.0[ACPI_ENABLE];
        (port != 0 && value != 0).then_some((port, value))
    }

    /// The register, and the value to be written there, that reset the machine.
    pub(crate) fn reset(self) -> Option<(Register, u8)> {
        let has_one = u32_at(self.0, FLAGS)? & HAS_RESET_REGISTER != 0;
        let value = *self.0.get(RESET_VALUE)?;
        has_one.then(|| Some((self.register(RESET_REGISTER)?, value)))?
    }

    fn port(self, extended: usize, old: usize) -> Option<u16> {
        match self.register(extended) {
            Some(Register::Port(port)) => Some(port),
            _ => u16::try_from(u32_at(self.0, old)?)
                .ok()
                .filter(|port| *port != 0),
        }
    }

    /// The generic address (5.2.3.2) at `at`.
    fn register(self, at: usize) -> Option<Register> {
        let address = u64_at(self.0, at + 4).filter(|address| *address != 0)?;
        match self.0[at] {
            0 => Some(Register::Memory(address)),
            1 => u16::try_from(address).ok().map(Register::Port),
            2 => Some(Register::Pci {
                device: (address >> 32) as u8 & 0x1f,
                function: (address >> 16) as u8 & 7,
                offset: address as u16,
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn set(table: &mut [u8], at: usize, bytes: &[u8]) {
        table[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn generic(space: u8, address: u64) -> [u8; 12] {
        let mut bytes = [0; 12];
        bytes[0] = space;
        bytes[4..].copy_from_slice(&address.to_le_bytes());
        bytes
    }

    #[test]
    fn a_table_of_the_first_version_has_ports() {
        let mut table = [0; 116];
        set(&mut table, DSDT, &0x7fe_0040_u32.to_le_bytes());
        set(&mut table, PM1A_CONTROL, &0x604_u32.to_le_bytes());
        set(&mut table, PM_TIMER, &0x608_u32.to_le_bytes());
        set(&mut table, SMI_COMMAND, &[0xb2, 0, 0, 0, 0xf1]);
        set(&mut table, FLAGS, &HAS_RESET_REGISTER.to_le_bytes());
        let fadt = Fadt(&table);
        assert_eq!(fadt.dsdt(), Some(0x7fe_0040));
        assert_eq!(fadt.pm1_control(), [Some(0x604), None]);
        assert_eq!(fadt.pm_timer(), Some(0x608));
        assert_eq!(fadt.acpi_enable(), Some((0xb2, 0xf1)));
        assert_eq!(fadt.reset(), None);
    }

    #[test]
    fn generic_addresses_go_first_where_they_are_ports() {
        let mut table = [0; 244];
        set(&mut table, PM1A_CONTROL, &0x604_u32.to_le_bytes());
        set(&mut table, PM1B_CONTROL, &0x704_u32.to_le_bytes());
        set(&mut table, EXTENDED_PM1A_CONTROL, &generic(1, 0x1804));
        set(&mut table, EXTENDED_PM1B_CONTROL, &generic(0, 0xfed0_0000));
        set(&mut table, EXTENDED_DSDT, &0x1_0000_0000_u64.to_le_bytes());
        let fadt = Fadt(&table);
        assert_eq!(fadt.pm1_control(), [Some(0x1804), Some(0x704)]);
        assert_eq!(fadt.dsdt(), Some(0x1_0000_0000));
    }

    #[test]
    fn the_reset_register_may_be_anywhere_if_the_flag_says_that_there_is_one() {
        let reset = |flags: u32, space, address| {
            let mut table = [0; 132];
            set(&mut table, FLAGS, &flags.to_le_bytes());
            set(&mut table, RESET_REGISTER, &generic(space, address));
            table[RESET_VALUE] = 6;
            Fadt(&table).reset()
        };
        assert_eq!(
            reset(HAS_RESET_REGISTER, 1, 0xcf9),
            Some((Register::Port(0xcf9), 6))
        );
        assert_eq!(
            reset(HAS_RESET_REGISTER, 2, 0x001f_0003_0040),
            Some((
                Register::Pci {
                    device: 31,
                    function: 3,
                    offset: 0x40
                },
                6
            ))
        );
        assert_eq!(
            reset(HAS_RESET_REGISTER, 0, 0xfed0_0000),
            Some((Register::Memory(0xfed0_0000), 6))
        );
        assert_eq!(reset(0, 1, 0xcf9), None);
        assert_eq!(reset(HAS_RESET_REGISTER, 1, 0x10_0000), None);
        assert_eq!(reset(HAS_RESET_REGISTER, 9, 0xcf9), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(table in proptest::collection::vec(any::<u8>(), 0..260)) {
            let fadt = Fadt(&table);
            let _ = (fadt.dsdt(), fadt.pm1_control(), fadt.pm_timer());
            let _ = (fadt.acpi_enable(), fadt.reset());
        }
    }
}
