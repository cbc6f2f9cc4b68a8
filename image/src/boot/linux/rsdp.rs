//! ACPI's root pointer, where `boot_params` does not give it: kexec may put it on
//! the command line, and GRUB under UEFI leaves it to the firmware's tables.

use core::num::NonZeroU64;

use uefi::table::cfg::ConfigTableEntry;
use uefi_raw::table::configuration::ConfigurationTable;
use uefi_raw::table::system::SystemTable;

/// What a firmware's tables have at the most.
const MOST_TABLES: usize = 256;
/// Addresses above are the other kernel's own, into which the firmware has
/// translated its pointers.
const LIMIT: u64 = 1 << 46;

/// From the UEFI system table at physical address `system`. `tables` is where the
/// configuration tables are, where that is known otherwise.
///
/// # Safety
///
/// `system` is the address of such a table, and `tables`, if given, of as many
/// entries as it has; both are mapped one to one.
pub(super) unsafe fn from_tables(
    system: NonZeroU64,
    tables: Option<NonZeroU64>,
) -> Option<NonZeroU64> {
    // SAFETY: the caller's word.
    let system = unsafe { &*(system.get() as *const SystemTable) };
    let own = system.configuration_table as u64;
    let tables = tables.map_or(own, NonZeroU64::get);
    let count = system.number_of_configuration_table_entries;
    if tables == 0 || tables >= LIMIT || count > MOST_TABLES {
        return None;
    }
    // SAFETY: the caller's word, or the table's own.
    let tables = unsafe { core::slice::from_raw_parts(tables as *const ConfigurationTable, count) };
    let find = |guid| tables.iter().find(|table| table.vendor_guid == guid);
    let table = find(ConfigTableEntry::ACPI2_GUID).or_else(|| find(ConfigTableEntry::ACPI_GUID))?;
    NonZeroU64::new(table.vendor_table as u64)
}
