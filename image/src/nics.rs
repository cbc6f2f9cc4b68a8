//! Finding the NIC to use, and starting it.

use alloc::vec::Vec;
use core::fmt;

use uniperf_drivers::any::AnyNic;
use uniperf_drivers::e1000::{self, E1000};
use uniperf_drivers::forcedeth::{self, Forcedeth};
use uniperf_drivers::myri10ge::{self, Myri10ge};
use uniperf_drivers::nic::{Config, Nic};
use uniperf_kernel::args::{Args, NicChoice};
use uniperf_kernel::boot::Machine;
use uniperf_kernel::interrupts::{self, Delivery};
use uniperf_kernel::mmio::{Mmio, WriteCombined};
use uniperf_kernel::paging::MapError;
use uniperf_kernel::pci::{self, ConfigPorts, Function};

use crate::machine::BareMachine;
use crate::{nic_names, say};

/// Where every NIC that has a driver keeps its registers.
const REGISTERS_BAR: u8 = 0;

/// A NIC of the machine's.
pub type MachineNic = AnyNic<Mmio, WriteCombined>;

/// A NIC that is running.
pub struct Started {
    /// Where it is.
    pub function: Function,
    /// Its driver.
    pub nic: MachineNic,
    /// How its interrupts arrive; `None` when it has to be polled.
    pub delivery: Option<Delivery>,
}

/// Why a NIC was not started.
enum Failure {
    NoRegisters,
    Map(MapError),
    E1000(e1000::Error),
    Forcedeth(forcedeth::Error),
    Myri10ge(myri10ge::Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRegisters => f.write_str("the firmware gave its registers no address"),
            Self::Map(error) => error.fmt(f),
            Self::E1000(error) => error.fmt(f),
            Self::Forcedeth(error) => error.fmt(f),
            Self::Myri10ge(error) => error.fmt(f),
        }
    }
}

/// What the list of ids says of a NIC that a driver knows.
struct Known {
    model: &'static str,
    max_mtu: usize,
}

impl Known {
    fn find(function: &Function) -> Option<Self> {
        let (vendor, device) = (function.vendor, function.device);
        let e1000 = e1000::ids::find(vendor, device).map(|model| Self {
            model: model.name,
            max_mtu: model.max_mtu(),
        });
        let forcedeth = || {
            forcedeth::ids::find(vendor, device).map(|model| Self {
                model: model.name,
                max_mtu: model.max_mtu(),
            })
        };
        let myri10ge = || {
            myri10ge::ids::find(vendor, device).map(|model| Self {
                model: model.name,
                max_mtu: model.max_mtu(),
            })
        };
        e1000.or_else(forcedeth).or_else(myri10ge)
    }
}

fn driver_for(function: &Function) -> Option<&'static str> {
    uniperf_drivers::driver_for(function.vendor, function.device)
}

/// Starts the NIC that `nic=` names, or else the first that a driver knows and
/// that can be started. What is passed over is said on the console.
pub fn start(boot: &Machine, machine: &mut BareMachine) -> Option<Started> {
    let args = &boot.args;
    let candidates = candidates();
    let chosen = args.nic.as_ref().map(|choice| pick(choice, &candidates));
    if let Some([]) = chosen.as_deref() {
        say!("nic= names none of these; taking the first");
    }
    let order = match chosen {
        Some(chosen) if !chosen.is_empty() => chosen,
        _ => candidates,
    };
    let wanted_mac = match args.nic {
        Some(NicChoice::Mac(mac)) => Some(mac),
        _ => None,
    };
    let mut passed_over = None;
    for function in order {
        match start_one(&function, boot, machine) {
            Ok(mut nic) if wanted_mac.is_some_and(|mac| nic.identity().mac.0 != mac) => {
                nic.stop();
                passed_over = passed_over.or(Some(function));
            }
            Ok(nic) => return Some(with_interrupt(function, nic)),
            Err(failure) => say!("NIC {function} does not start: {failure}"),
        }
    }
    let function = passed_over?;
    say!("no NIC has the MAC address that nic= names; taking the first");
    let nic = start_one(&function, boot, machine).ok()?;
    Some(with_interrupt(function, nic))
}

/// Every NIC that a driver knows, in PCI order. The others are named.
fn candidates() -> Vec<Function> {
    let mut known = Vec::new();
    for function in pci::enumerate(ConfigPorts) {
        match (Known::find(&function), driver_for(&function)) {
            (Some(nic), Some(driver)) => {
                say!("NIC {}: {function:?} {} ({driver})", known.len(), nic.model);
                known.push(function);
            }
            _ if function.is_nic() => {
                let name = nic_names::find(function.vendor, function.device).unwrap_or_default();
                say!("no driver for the NIC {function:?} {name}");
            }
            _ => {}
        }
    }
    known
}

/// The candidates that `choice` may mean. A MAC address is only known of a NIC
/// that was started, so it may mean any of them.
fn pick(choice: &NicChoice, candidates: &[Function]) -> Vec<Function> {
    candidates
        .iter()
        .enumerate()
        .filter(|(index, function)| match choice {
            NicChoice::Index(wanted) => index == wanted,
            NicChoice::Pci {
                bus,
                device,
                function: number,
            } => function.location() == (*bus, *device, *number),
            NicChoice::Driver(name) => driver_for(function) == Some(name.as_str()),
            NicChoice::Mac(_) => true,
        })
        .map(|(_, function)| *function)
        .collect()
}

fn start_one(
    function: &Function,
    boot: &Machine,
    machine: &mut BareMachine,
) -> Result<MachineNic, Failure> {
    let bar = function
        .memory_bar(REGISTERS_BAR, ConfigPorts)
        .ok_or(Failure::NoRegisters)?;
    function.enable(ConfigPorts);
    let config = config(function, &boot.args);
    let device = function.device;
    if driver_for(function) == Some(myri10ge::NAME) {
        let window = WriteCombined::map(bar).map_err(Failure::Map)?;
        let link = function.open_pcie_link(ConfigPorts);
        let card = Myri10ge::start(window, machine, device, link, boot.firmware, config);
        let card = card.map_err(Failure::Myri10ge)?;
        say!("NIC {function} runs {}", card.firmware());
        return Ok(AnyNic::Myri10ge(card));
    }
    let registers = Mmio::map(bar).map_err(Failure::Map)?;
    if driver_for(function) == Some(forcedeth::NAME) {
        Forcedeth::start(registers, machine, device, function.revision, config)
            .map(AnyNic::Forcedeth)
            .map_err(Failure::Forcedeth)
    } else {
        E1000::start(registers, machine, device, config)
            .map(AnyNic::E1000)
            .map_err(Failure::E1000)
    }
}

/// What the user has chosen, as far as the NIC can do it.
fn config(function: &Function, args: &Args) -> Config {
    let default = Config::default();
    let asked = args.mtu.map_or(default.mtu, usize::from);
    let most = Known::find(function).map_or(asked, |nic| nic.max_mtu);
    if asked > most {
        say!("mtu={asked} is more than this NIC can take; using {most}");
    }
    Config {
        rx_ring: args.rx_ring.map_or(default.rx_ring, usize::from),
        tx_ring: args.tx_ring.map_or(default.tx_ring, usize::from),
        mtu: asked.min(most),
    }
}

fn with_interrupt(function: Function, mut nic: MachineNic) -> Started {
    let handle = nic.interrupt();
    let delivery =
        interrupts::install_nic(&function, handle, |kind| nic.raise_interrupt(kind)).ok();
    nic.mask();
    Started {
        function,
        nic,
        delivery,
    }
}
