//! Interrupt vectors of our own: the NIC, the console and the timer, installed
//! in the table that Hermit has loaded.

use alloc::boxed::Box;
use core::num::NonZeroU64;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use pci_types::capability::{MultipleMessageSupport, TriggerMode};
use uniperf_drivers::nic::{Causes, Interrupt, InterruptKind};
use x86_64::instructions::tables::sidt;
use x86_64::structures::idt::{InterruptDescriptorTable, InterruptStackFrame};

use crate::acpi::Interrupts;
use crate::ioapic::{self, Pin};
use crate::pci::{ConfigPorts, Function};
use crate::single::SingleCore;
use crate::{apic, clock, console, idle, panic};

/// Above the vectors that Hermit gives to interrupt lines (32 to 56), apart from
/// the few single ones that it uses (112 to 127).
const NIC_VECTOR: u8 = 0x90;
/// The vectors below are exceptions.
const FIRST_INTERRUPT: u8 = 32;
const CONSOLE_VECTOR: u8 = 0x91;
pub(crate) const TIMER_VECTOR: u8 = 0x92;

/// Set next to the causes: a claim without causes is a claim all the same.
const CLAIMED: u32 = 1 << 31;

/// Interrupts in a row that the NIC does not own, after which the line is shut:
/// some other device holds it, and the CPU would do nothing else.
const STORM: u32 = 100_000;

/// How long an interrupt may take from the NIC to its handler. It takes some
/// microseconds; a virtual machine, and a device model that is a process of its own, may
/// be held up.
const ARRIVAL_NS: u64 = 20_000_000;
/// Interrupts of a line that is being tried which are nobody's. A few can be echoes of
/// the NIC's own; more are another device that holds the line.
const ECHOES: u32 = 8;

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

/// A function's interrupts arrive neither as messages nor by a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoInterrupt;

type Claim = Box<dyn FnMut() -> Option<Causes> + Send>;

struct State {
    tables: Option<Interrupts>,
    claim: Option<Claim>,
    pin: Option<Pin>,
    /// While ways are tried: an interrupt that is not the NIC's means the wrong line.
    probing: bool,
}

static STATE: SingleCore<State> = SingleCore::new(State {
    tables: None,
    claim: None,
    pin: None,
    probing: false,
});

static MAILBOX: AtomicU32 = AtomicU32::new(0);
static NIC_INTERRUPTS: AtomicU64 = AtomicU64::new(0);
static UNCLAIMED: AtomicU32 = AtomicU32::new(0);

/// Installs the vectors of console, timer and CPU exceptions, and one for all that nobody
/// should use.
pub(crate) fn init(rsdp: Option<NonZeroU64>) {
    apic::init();
    STATE.with(|state| {
        let table = descriptor_table();
        for vector in FIRST_INTERRUPT..=u8::MAX {
            table[vector].set_handler_fn(on_stray);
        }
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

/// Routes a NIC's interrupts to `handle`, whose causes [`take`] returns: as messages where
/// it has them, else by the line. Firmware's word on where that line goes is only a guess,
/// so each way is tried with an interrupt that `raise` has the NIC raise.
///
/// # Errors
///
/// [`NoInterrupt`]: none arrives; the NIC has to be polled.
pub fn install_nic(
    function: &Function,
    handle: impl Interrupt,
    mut raise: impl FnMut(InterruptKind),
) -> Result<Delivery, NoInterrupt> {
    STATE.with(|state| {
        state.claim = Some(Box::new(move || handle.claim()));
        state.probing = true;
        descriptor_table()[NIC_VECTOR].set_handler_fn(on_nic);
    });
    let delivery = by_message(function, &mut || raise(InterruptKind::Message))
        .or_else(|| by_line(function, &mut || raise(InterruptKind::Line)));
    STATE.with(|state| state.probing = false);
    take();
    NIC_INTERRUPTS.store(0, Ordering::Relaxed);
    UNCLAIMED.store(0, Ordering::Relaxed);
    delivery.ok_or(NoInterrupt)
}

fn by_message(function: &Function, raise: &mut impl FnMut()) -> Option<Delivery> {
    let msi = function.msi(ConfigPorts)?;
    msi.set_multiple_message_enable(MultipleMessageSupport::Int1, ConfigPorts);
    let address = apic::message_address();
    msi.set_message_info_lapic(address, NIC_VECTOR, TriggerMode::Edge, ConfigPorts);
    msi.set_enabled(true, ConfigPorts);
    function.disable_intx(true, ConfigPorts);
    if arrives(raise) {
        return Some(Delivery::Msi);
    }
    msi.set_enabled(false, ConfigPorts);
    None
}

fn by_line(function: &Function, raise: &mut impl FnMut()) -> Option<Delivery> {
    let interrupt = function.legacy_interrupt(ConfigPorts)?;
    function.disable_intx(false, ConfigPorts);
    let (_, device, _) = function.location();
    let routes = STATE.with(|state| Some(state.tables.as_ref()?.pci(device, interrupt)))?;
    routes.into_iter().find_map(|route| {
        STATE.with(|state| {
            state.pin = ioapic::route(state.tables.as_ref()?, route, NIC_VECTOR);
            state.pin.as_ref().map(|_| ())
        })?;
        if arrives(raise) {
            return Some(Delivery::Line(route.gsi));
        }
        // Where somebody else holds the line, it is shut already.
        if let Some(pin) = STATE.with(|state| state.pin.take()) {
            pin.mask();
        }
        None
    })
}

/// Whether an interrupt that `raise` has the NIC raise comes to its handler.
///
/// Its line is let go before, in case that an earlier one did not arrive: an emulated I/O
/// APIC sees a line move, but not that it is held when its pin becomes level-triggered.
fn arrives(raise: &mut impl FnMut()) -> bool {
    STATE.with(|state| state.claim.as_mut().and_then(|claim| claim()));
    take();
    UNCLAIMED.store(0, Ordering::Relaxed);
    raise();
    let end = clock::now() + ARRIVAL_NS;
    while clock::now() < end {
        if take().is_some() {
            return true;
        }
    }
    false
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
    if state.probing {
        if UNCLAIMED.fetch_add(1, Ordering::Relaxed) >= ECHOES
            && let Some(pin) = state.pin.take()
        {
            pin.mask();
        }
        return;
    }
    if UNCLAIMED.fetch_add(1, Ordering::Relaxed) < STORM {
        return;
    }
    if let Some(pin) = state.pin.take() {
        pin.mask();
        MAILBOX.fetch_or(Causes::FAULT.bits() | CLAIMED, Ordering::Release);
        idle::poll_from_now_on();
    }
}

/// What firmware had set up may come late, and the local APIC has a vector for an interrupt
/// that went away before it was taken.
extern "x86-interrupt" fn on_stray(_frame: InterruptStackFrame) {
    idle::interrupted();
    apic::end_stray_interrupt();
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
