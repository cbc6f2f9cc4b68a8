//! How the time from the image's first instruction to `ready` was spent.

use alloc::vec::Vec;
use core::fmt;

use crate::console::say;
use crate::machine::Machine;

const MILLISECOND: u64 = 1_000_000;

/// The stages of a boot, each with its name and the time of its end in nanoseconds.
pub(crate) struct BootTime(Vec<(&'static str, u64)>);

impl BootTime {
    /// With what `machine` knows from before the receive loop.
    pub(crate) fn of<M: Machine>(machine: &M) -> Self {
        let mut stages = Vec::new();
        machine.boot_stages(&mut |name, end| stages.push((name, end)));
        Self(stages)
    }

    /// A further stage has ended.
    pub(crate) fn end(&mut self, name: &'static str, now: u64) {
        self.0.push((name, now));
    }

    /// Says it on the console, in a line.
    pub(crate) fn say<M: Machine>(&self, machine: &mut M) {
        if !self.0.is_empty() {
            say(machine, format_args!("{self}"));
        }
    }
}

/// Whole milliseconds, such that the parts add up to the sum.
impl fmt::Display for BootTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds = |end: u64| end / MILLISECOND;
        let whole = self.0.last().map_or(0, |(_, end)| milliseconds(*end));
        write!(f, "boot took {whole} ms")?;
        let mut begin = 0;
        for (index, (name, end)) in self.0.iter().enumerate() {
            let separator = if index == 0 { ":" } else { "," };
            let spent = milliseconds(*end).saturating_sub(begin);
            write!(f, "{separator} {spent} {name}")?;
            begin = milliseconds(*end);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn the_parts_add_up() {
        let mut time = BootTime(Vec::new());
        time.end("loader", 2_900_000);
        time.end("NIC", 5_100_000);
        time.end("link", 5_200_000);
        time.end("address", 9_999_999);
        assert_eq!(
            time.to_string(),
            "boot took 9 ms: 2 loader, 3 NIC, 0 link, 4 address"
        );
    }
}
