//! Ways to stop the machine.

use core::fmt;
use core::num::NonZeroU64;
use core::sync::atomic::{AtomicU64, Ordering};

use x86_64::VirtAddr;
use x86_64::instructions::port::Port;
use x86_64::instructions::tables::lidt;
use x86_64::instructions::{hlt, interrupts};
use x86_64::structures::DescriptorTablePointer;

use crate::fadt::{Fadt, Register};
use crate::firmware::{FirstFourGib, Tables};
use crate::{acpi, aml, clock, console, pci};

/// QEMU's `isa-debug-exit` device, at the port that our scripts give it. QEMU
/// exits with twice the value and one; on other machines nothing is there.
const DEBUG_EXIT: u16 = 0xf4;
/// QEMU's exit code is then 67.
const DEBUG_EXIT_PANIC: u32 = 33;

/// The keyboard controller, whose pulse on the reset line every PC honours.
const KEYBOARD_COMMAND: u16 = 0x64;
const PULSE_RESET: u8 = 0xfe;
/// Reset control register of the chip set: hard reset of the CPU.
const RESET_CONTROL: u16 = 0xcf9;
const SYSTEM_RESET: u8 = 0x02;
const HARD_RESET: u8 = 0x06;

/// The PM1 control register (ACPI 6.5, 4.8.3.2): whether the chip set is in ACPI mode, the
/// sleep type, and the bit that begins to sleep.
const ACPI_MODE: u16 = 1 << 0;
const SLEEP_TYPE_SHIFT: u16 = 10;
const SLEEP_TYPE: u16 = 7 << SLEEP_TYPE_SHIFT;
const SLEEP_ENABLE: u16 = 1 << 13;

/// How long firmware may take to enter ACPI mode.
const ACPI_MODE_US: u32 = 300_000;
/// How long a machine may take to go off, or to begin anew.
const END_US: u32 = 100_000;

/// Physical address of ACPI's root pointer; 0 when not known.
static ROOT: AtomicU64 = AtomicU64::new(0);

/// Keeps what [`off`] and [`reboot`] need.
pub(crate) fn remember(root: Option<NonZeroU64>) {
    ROOT.store(root.map_or(0, NonZeroU64::get), Ordering::Relaxed);
}

fn tables() -> Option<Tables<FirstFourGib>> {
    let root = NonZeroU64::new(ROOT.load(Ordering::Relaxed))?;
    Tables::find(FirstFourGib, Some(root))
}

/// Turns the machine off through ACPI. Where that does not work it says so and
/// stops.
pub fn off() -> ! {
    console::drain();
    interrupts::disable();
    if let Some(tables) = tables() {
        soft_off(&tables);
    }
    stop(format_args!(
        "no way found to turn the machine off; it is safe to do so now"
    ))
}

/// Enters sleep state S5, where the tables say how.
fn soft_off(tables: &Tables<FirstFourGib>) -> Option<()> {
    let fadt = Fadt(tables.table(b"FACP")?);
    let types = acpi::byte_code(tables).find_map(aml::soft_off_types)?;
    let controls = fadt.pm1_control();
    enter_acpi_mode(fadt, controls[0]?);
    for (control, kind) in controls.into_iter().zip(types) {
        let Some(control) = control else { continue };
        let mut control = Port::<u16>::new(control);
        // SAFETY: a PM1 control register, as the FADT has it, and the sleep type that the
        // byte code names for it.
        unsafe {
            let others = control.read() & !(SLEEP_TYPE | SLEEP_ENABLE);
            control.write(others | u16::from(kind) << SLEEP_TYPE_SHIFT | SLEEP_ENABLE);
        }
    }
    clock::delay_us(END_US);
    Some(())
}

/// Has firmware leave the chip set to us; until then it may not sleep (4.8.2.5). A BIOS
/// begins without, UEFI in ACPI mode.
fn enter_acpi_mode(fadt: Fadt<'_>, control: u16) {
    let mut control = Port::<u16>::new(control);
    // SAFETY: reading a control register changes nothing.
    let mut is_on = || unsafe { control.read() } & ACPI_MODE != 0;
    let Some((port, value)) = fadt.acpi_enable().filter(|_| !is_on()) else {
        return;
    };
    // SAFETY: the port and the value that the FADT has for this.
    unsafe { Port::new(port).write(value) };
    let end = clock::now() + u64::from(ACPI_MODE_US) * 1000;
    while !is_on() && clock::now() < end {}
}

/// Restarts the machine: as ACPI says, else by what every PC has.
pub fn reboot() -> ! {
    console::drain();
    interrupts::disable();
    let tables = tables();
    let fadt = tables.as_ref().and_then(|tables| tables.table(b"FACP"));
    if let Some((register, value)) = fadt.and_then(|fadt| Fadt(fadt).reset()) {
        write(register, value);
        clock::delay_us(END_US);
    }
    // SAFETY: these ports do nothing but reset the machine.
    unsafe {
        Port::new(RESET_CONTROL).write(SYSTEM_RESET);
        Port::new(RESET_CONTROL).write(HARD_RESET);
        clock::delay_us(END_US);
        Port::new(KEYBOARD_COMMAND).write(PULSE_RESET);
        clock::delay_us(END_US);
    }
    triple_fault()
}

/// Writes a register of ACPI's reset description (ACPI 6.5, 4.8.3.6).
fn write(register: Register, value: u8) {
    match register {
        // SAFETY: the register that the FADT has for this.
        Register::Port(port) => unsafe { Port::new(port).write(value) },
        // SAFETY: as above; the first 4 GiB are mapped one to one.
        Register::Memory(address) if address < 4 << 30 => unsafe {
            (address as *mut u8).write_volatile(value);
        },
        Register::Memory(_) => {}
        Register::Pci {
            device,
            function,
            offset,
        } => pci::write_byte(device, function, offset, value),
    }
}

/// A fault whose handler cannot be found, nor that of the fault which this is: the CPU
/// shuts down, and the board resets it (Intel SDM volume 3, double fault exception).
fn triple_fault() -> ! {
    let none = DescriptorTablePointer {
        limit: 0,
        base: VirtAddr::zero(),
    };
    // SAFETY: the CPU never comes back from here.
    unsafe {
        lidt(&none);
        core::arch::asm!("int3");
    }
    halt()
}

/// Says why, and stops the machine for good. Under QEMU with the debug-exit
/// device, QEMU exits with code 67.
pub fn stop(why: fmt::Arguments<'_>) -> ! {
    interrupts::disable();
    console::print(format_args!("uniperf: stopped: {why}\n"));
    end_virtual_machine();
    halt()
}

/// Has QEMU with the debug-exit device exit with code 67. On other machines it does
/// nothing.
pub fn end_virtual_machine() {
    console::drain();
    // SAFETY: see `DEBUG_EXIT`; elsewhere the port has no device.
    unsafe { Port::new(DEBUG_EXIT).write(DEBUG_EXIT_PANIC) };
}

fn halt() -> ! {
    interrupts::disable();
    loop {
        hlt();
    }
}
