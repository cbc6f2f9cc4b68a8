//! Who is booted.

use std::fmt;

use anyhow::{Result, ensure};

use crate::linux_guest;
use crate::machine::{Accelerator, Image, Machine};
use crate::nic::NicModel;

/// Whom a scenario measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// The appliance.
    Uniperf,
    /// The Linux guest.
    Linux,
}

impl Kind {
    /// Its name in tables and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Uniperf => "uniperf",
            Self::Linux => "linux",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What all scenarios are told.
#[derive(Clone, Debug)]
pub struct Common {
    /// The appliance's image.
    pub image: Image,
    /// The NIC of all guests.
    pub nic: NicModel,
    /// What runs them.
    pub accelerator: Accelerator,
    /// Boot arguments of the appliance, beyond those of the scenario.
    pub append: String,
    /// Whether to compare with a Linux guest.
    pub linux: bool,
    /// How often each setup takes its turn.
    pub rounds: u32,
    /// Seconds a measurement.
    pub seconds: u64,
}

impl Common {
    /// Who takes part.
    pub fn kinds(&self) -> &'static [Kind] {
        match self.linux {
            true => &[Kind::Uniperf, Kind::Linux],
            false => &[Kind::Uniperf],
        }
    }

    /// What `kind` boots: the appliance with `memory` MiB and the boot arguments
    /// `append`, or Linux with its own.
    pub fn guest(&self, kind: Kind, memory: u32, append: &str) -> Result<(Image, Machine)> {
        let machine = Machine {
            nics: vec![self.nic.clone()],
            append: append.into(),
            memory,
            accelerator: self.accelerator,
            ..Machine::default()
        };
        match kind {
            Kind::Uniperf => {
                let append = format!("{append} {}", self.append).trim().to_owned();
                Ok((self.image.clone(), Machine { append, ..machine }))
            }
            Kind::Linux => {
                ensure!(
                    self.nic.is_known_to_linux(),
                    "the Linux guest has no driver for {}: add --peer none, or take an e1000",
                    self.nic
                );
                linux_guest::prepare(Machine {
                    memory: linux_guest::MEMORY,
                    ..machine
                })
            }
        }
    }
}

/// `on` or `off`, as boot arguments and tables have it.
pub fn on_off(value: bool) -> &'static str {
    match value {
        true => "on",
        false => "off",
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// An ordinary choice, with an image that nothing boots.
    pub fn common() -> Common {
        Common {
            image: Image::at(std::env::current_exe().unwrap()).unwrap(),
            nic: NicModel::E1000,
            accelerator: Accelerator::Tcg,
            append: String::new(),
            linux: true,
            rounds: 2,
            seconds: 1,
        }
    }
}
