//! Interrupt vectors of our own: the NIC, the console and the timer, installed
//! in the table that Hermit has loaded.

use alloc::boxed::Box;
use core::num::NonZeroU64;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use pci_types::capability::{MultipleMessageSupport, TriggerMode};
use uniperf_drivers::nic::{Causes, Interrupt};
use x86_64::instructions::tables::sidt;
use x86_64::structures::idt::{InterruptDescriptorTable, InterruptStackFrame};

use crate::acpi::Interrupts;
use crate::ioapic::{self, Pin};
use crate::pci::{ConfigPorts, Function};
use crate::single::SingleCore;
use crate::{apic, console, idle, panic};

/// Above the vectors that Hermit gives to interrupt lines (32 to 56), apart from
/// the few single ones that it uses (112 to 127).
const NIC_VECTOR: u8 = 0x90;
const CONSOLE_VECTOR: u8 = 0x91;
pub(crate) const TIMER_VECTOR: u8 = 0x92;

/// Set next to the causes: a claim without causes is a claim all the same.
const CLAIMED: u32 = 1 << 31;

/// Interrupts in a row that the NIC does not own, after which the line is shut:
/// some other device holds it, and the CPU would do nothing else.
const STORM: u32 = 100_000;

/// How a NIC's interrupts arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// As messages.
    Msi,
    /// By a level-triggered line, with its global system interrupt number.
    Line(u32),
}

impl core::fmt::Display for Delivery {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Msi => f.write_str("MSI"),
            Self::Line(gsi) => write!(f, "INTx, line {gsi}"),
        }
    }
}

/// A function has neither MSI nor a usable interrupt line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoInterrupt;

type Claim = Box<dyn FnMut() -> Option<Causes> + Send>;

struct State {
    tables: Option<Interrupts>,
    claim: Option<Claim>,
    pin: Option<Pin>,
}

static STATE: SingleCore<State> = SingleCore::new(State {
    tables: None,
    claim: None,
    pin: None,
});

static MAILBOX: AtomicU32 = AtomicU32::new(0);
static NIC_INTERRUPTS: AtomicU64 = AtomicU64::new(0);
static UNCLAIMED: AtomicU32 = AtomicU32::new(0);

/// Installs the vectors of console, timer and CPU exceptions.
pub(crate) fn init(rsdp: Option<NonZeroU64>) {
    apic::init();
    STATE.with(|state| {
        let table = descriptor_table();
        table[CONSOLE_VECTOR].set_handler_fn(on_console);
        table[TIMER_VECTOR].set_handler_fn(on_timer);
        panic::install(table);
        let tables = Interrupts::read(rsdp);
        for io_apic in &tables.io_apics {
            io_apic.mask_all();
        }
        for line in console::isa_lines() {
            if ioapic::route(&tables, tables.isa(line), CONSOLE_VECTOR).is_some() {
                console::enable_interrupt(line);
            }
        }
        state.tables = Some(tables);
    });
}

/// The table in force. Hermit keeps the one it made to itself, and never changes
/// it once `main` runs.
fn descriptor_table() -> &'static mut InterruptDescriptorTable {
    let base = sidt().base.as_mut_ptr::<InterruptDescriptorTable>();
    // SAFETY: the CPU uses the table at this address; interrupts are off, and
    // nobody else changes it.
    unsafe { &mut *base }
}

/// Routes a NIC's interrupts, as messages where it can, to `handle`, whose causes
/// [`take`] returns.
///
/// # Errors
///
/// [`NoInterrupt`]: the NIC has to be polled.
pub fn install_nic(
    function: &Function,
    handle: impl Interrupt,
    allow_msi: bool,
) -> Result<Delivery, NoInterrupt> {
    STATE.with(|state| {
        state.claim = Some(Box::new(move || handle.claim()));
        descriptor_table()[NIC_VECTOR].set_handler_fn(on_nic);
    });
    if let Some(msi) = function.msi(ConfigPorts).filter(|_| allow_msi) {
        msi.set_multiple_message_enable(MultipleMessageSupport::Int1, ConfigPorts);
        let address = apic::message_address();
        msi.set_message_info_lapic(address, NIC_VECTOR, TriggerMode::Edge, ConfigPorts);
        msi.set_enabled(true, ConfigPorts);
        function.disable_intx(true, ConfigPorts);
        return Ok(Delivery::Msi);
    }
    let legacy = function.legacy_interrupt(ConfigPorts).ok_or(NoInterrupt)?;
    function.disable_intx(false, ConfigPorts);
    STATE.with(|state| {
        let tables = state.tables.as_ref().ok_or(NoInterrupt)?;
        let route = tables.pci(legacy.line);
        let pin = ioapic::route(tables, route, NIC_VECTOR).ok_or(NoInterrupt)?;
        state.pin = Some(pin);
        Ok(Delivery::Line(route.gsi))
    })
}

/// Takes what the NIC's handler has collected since the last call.
#[inline]
pub fn take() -> Option<Causes> {
    if MAILBOX.load(Ordering::Acquire) == 0 {
        return None;
    }
    let bits = MAILBOX.swap(0, Ordering::Acquire);
    (bits != 0).then(|| Causes::from_bits_truncate(bits & !CLAIMED))
}

/// Whether [`take`] would return something.
#[inline]
pub(crate) fn is_pending() -> bool {
    MAILBOX.load(Ordering::Acquire) != 0
}

/// Interrupts that the NIC has raised.
pub fn count() -> u64 {
    NIC_INTERRUPTS.load(Ordering::Relaxed)
}

extern "x86-interrupt" fn on_nic(_frame: InterruptStackFrame) {
    idle::interrupted();
    STATE.with(
        |state| match state.claim.as_mut().and_then(|claim| claim()) {
            Some(causes) => {
                NIC_INTERRUPTS.fetch_add(1, Ordering::Relaxed);
                UNCLAIMED.store(0, Ordering::Relaxed);
                MAILBOX.fetch_or(causes.bits() | CLAIMED, Ordering::Release);
            }
            None => unclaimed(state),
        },
    );
    apic::end_of_interrupt();
}

fn unclaimed(state: &mut State) {
    if UNCLAIMED.fetch_add(1, Ordering::Relaxed) < STORM {
        return;
    }
    if let Some(pin) = state.pin.take() {
        pin.mask();
        MAILBOX.fetch_or(Causes::FAULT.bits() | CLAIMED, Ordering::Release);
        idle::poll_from_now_on();
    }
}

extern "x86-interrupt" fn on_console(_frame: InterruptStackFrame) {
    idle::interrupted();
    console::interrupted();
    apic::end_of_interrupt();
}

extern "x86-interrupt" fn on_timer(_frame: InterruptStackFrame) {
    idle::interrupted();
    idle::timer_fired();
    apic::end_of_interrupt();
}
