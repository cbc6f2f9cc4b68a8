//! How fast the time-stamp counter counts: as the CPU says, or as measured against
//! the best counter of known frequency that the machine has.

#![cfg_attr(not(any(test, target_os = "none")), allow(dead_code))]

mod cpuid;
#[cfg(target_os = "none")]
mod hpet;
mod measure;
#[cfg(target_os = "none")]
mod pit;
#[cfg(target_os = "none")]
mod pm_timer;

use core::fmt;

/// The counter's frequency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frequency {
    /// In Hz.
    pub hz: u64,
    /// Who says so.
    pub source: Source,
}

/// Where a [`Frequency`] is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The CPU.
    Cpuid,
    /// The hypervisor, through the CPU's leaves.
    Hypervisor,
    /// Measured against the high precision event timer.
    Hpet,
    /// Measured against ACPI's power management timer.
    PmTimer,
    /// Measured against the 8254.
    Pit,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cpuid => "CPUID",
            Self::Hypervisor => "the hypervisor's word",
            Self::Hpet => "HPET",
            Self::PmTimer => "the ACPI timer",
            Self::Pit => "PIT",
        })
    }
}

/// No x86_64 CPU counts slower or faster than this, and what says so is wrong. QEMU
/// that counts instructions counts a billion a second.
const PLAUSIBLE: core::ops::RangeInclusive<u64> = 100_000_000..=20_000_000_000;

fn plausible(hz: u64) -> Option<u64> {
    PLAUSIBLE.contains(&hz).then_some(hz)
}

/// Finds the frequency by the first source that has it. Takes up to 10 ms where it
/// must be measured, more where the machine is held up meanwhile, as a virtual one
/// may be; half a second at most.
#[cfg(target_os = "none")]
pub fn frequency<M: crate::firmware::Memory>(
    tables: Option<&crate::firmware::Tables<M>>,
) -> Option<Frequency> {
    let measured = |hz: Option<u64>, source| {
        let hz = plausible(hz?)?;
        Some(Frequency { hz, source })
    };
    let table = |signature| tables.and_then(|tables| tables.table(signature));
    let by_hpet = || {
        let mut hpet = hpet::Hpet::start(table(b"HPET")?)?;
        measure::tsc(&mut hpet)
    };
    let by_pm_timer = || {
        let mut timer = pm_timer::PmTimer::find(table(b"FACP")?)?;
        measure::tsc(&mut timer)
    };
    let by_pit = || measure::tsc(&mut pit::Pit::start());
    cpuid::frequency(core::arch::x86_64::__cpuid)
        .or_else(|| measured(by_hpet(), Source::Hpet))
        .or_else(|| measured(by_pm_timer(), Source::PmTimer))
        .or_else(|| measured(by_pit(), Source::Pit))
}
