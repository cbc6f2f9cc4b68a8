//! From boot arguments to the stack's configuration.

use core::arch::x86_64::__cpuid;

use smoltcp::wire::Ipv4Cidr;
use uniperf_kernel::args::{self, Args, Ip};
use uniperf_kernel::clock;
use uniperf_net::config::{AddressConfig, Config, RxMode, TcpConfig};

/// The configuration that the boot arguments ask for, on a machine with `memory`
/// bytes. `can_interrupt` is false for a NIC that has to be polled.
pub fn config(args: &Args, memory: u64, can_interrupt: bool) -> Config {
    let default = Config::default();
    let socket_memory = socket_memory(memory);
    let tcp = TcpConfig {
        half_open: (socket_memory / HALF_OPEN).clamp(64, 4096),
        ..default.tcp
    };
    let rx_mode = match args.rx {
        _ if !can_interrupt => RxMode::Poll,
        Some(args::RxMode::Napi) => RxMode::Napi,
        Some(args::RxMode::Poll) => RxMode::Poll,
        // The reflector waits as `napi` does.
        Some(args::RxMode::Reflect) => RxMode::Napi,
        Some(args::RxMode::Adaptive) | None => default.rx_mode,
    };
    Config {
        address: address(args),
        mtu: args.mtu.map_or(default.mtu, usize::from),
        data_ports: args.ports.clone().unwrap_or(default.data_ports.clone()),
        rx_mode,
        weight: args.weight.map_or(default.weight, usize::from),
        replenish: args.replenish.map(usize::from),
        interrupts_per_second: args.itr.unwrap_or(default.interrupts_per_second),
        checksum_offload: args.csum,
        tso: args.tso,
        gro: args.gro,
        seed: seed(),
        socket_memory,
        tcp,
        secret: seed(),
        ..default
    }
}

/// Bytes of the memory for sockets for each handshake that may go on. A flood of
/// them takes a fifth of that memory at the most.
const HALF_OPEN: usize = 48 << 10;

/// Bytes for the sockets: seven sixteenths of the machine's. A quarter, or 64 MiB,
/// is DMA memory, and a tenth of what is left is Hermit's.
fn socket_memory(memory: u64) -> usize {
    (memory / 16 * 7) as usize
}

fn address(args: &Args) -> AddressConfig {
    match args.ip {
        Ip::Dhcp => AddressConfig::Dhcp,
        Ip::Static {
            address,
            prefix_len,
        } => AddressConfig::Static {
            cidr: Ipv4Cidr::new(address, prefix_len),
            gateway: args.gateway,
        },
    }
}

/// A number that differs from boot to boot: from the CPU's random generator where
/// it has one, and always from the time-stamp counter.
fn seed() -> u64 {
    let mut random = 0;
    if has_rdrand() {
        // SAFETY: the CPU has the instruction.
        unsafe {
            core::arch::asm!("rdrand {}", out(reg) random, options(nomem, nostack));
        }
    }
    // The multiplier spreads the counter's low bits, which differ most, over all.
    random ^ clock::tsc().wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Intel SDM volume 2, CPUID: leaf 1, bit 30 of ECX.
fn has_rdrand() -> bool {
    __cpuid(1).ecx & 1 << 30 != 0
}
