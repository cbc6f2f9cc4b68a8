//! The firmware's mailbox: what it is told and asked.

use std::collections::BTreeSet;

use super::layout::*;
use super::pio::Block;
use super::{Mcp, Myri10ge};
use crate::device::Host;

/// Reads or writes of a DMA test, and the ticks of 0.5 µs that they take together: as
/// fast as a link of eight lanes is.
const TEST_TRANSFERS: u32 = 256;
const TEST_BYTES_A_TICK: u32 = 700;

/// The largest size of a big buffer, in bytes.
const BIG_BUFFER_MAX: u32 = 1 << 16;

/// What a driver has told the firmware since it was reset.
#[derive(Debug, Default)]
pub(super) struct Parameters {
    pub(super) intrq: Option<u64>,
    pub(super) intrq_len: u32,
    pub(super) small: u32,
    pub(super) big: u32,
    /// Buffers that each big frame takes, if not as many as it needs.
    pub(super) always_big: u32,
    /// The largest frame, with header and tag.
    pub(super) mtu: u32,
    pub(super) mac: Option<[u8; 6]>,
    pub(super) stats: Option<Stats>,
    pub(super) flow_control: bool,
    pub(super) promiscuous: bool,
    pub(super) all_multicast: bool,
    pub(super) groups: BTreeSet<[u8; 6]>,
    pub(super) is_up: bool,
}

/// Where the statistics block goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stats {
    pub(super) address: u64,
    /// Bytes of it that the driver knows: those at its end.
    pub(super) len: usize,
}

/// How a command ended.
type Answer = Result<u32, Failure>;

/// A command.
#[derive(Clone, Copy, Debug)]
struct Command {
    number: u32,
    data: [u32; 3],
}

impl Command {
    fn address(&self) -> u64 {
        u64::from(self.data[1]) << 32 | u64::from(self.data[0])
    }

    /// The Ethernet address in the first two words.
    fn station(&self, in_upper_half: bool) -> [u8; 6] {
        let [a, b, c, d] = self.data[0].to_be_bytes();
        let low = if in_upper_half { 16 } else { 0 };
        let [_, _, e, f] = (self.data[1] >> low).to_be_bytes();
        [a, b, c, d, e, f]
    }
}

impl Myri10ge {
    /// Carries out the command in `block`, and answers it.
    pub(super) fn run_mailbox(&mut self, host: &mut Host, block: &[u8; Block::LEN]) {
        let command = Command {
            number: word(block, 0),
            data: [4, 8, 12].map(|at| word(block, at)),
        };
        if self.faults.is_silent || !host.dma.is_master() {
            return;
        }
        if !matches!(self.mcp, Mcp::Ethernet(_)) {
            host.complaints.add("a command while no firmware takes any");
            return;
        }
        let (data, result) = match self.run(host, command) {
            Ok(data) => (data, 0),
            Err(failure) => {
                // Newer drivers ask older firmware for what it cannot do.
                if failure != Failure::Unknown {
                    let Command { number, data } = command;
                    host.complaints.add(format_args!(
                        "command {number} with {data:x?} ended with {failure:?}"
                    ));
                }
                (u32::MAX, failure as u32)
            }
        };
        self.totals.commands += 1;
        let address = u64::from(word(block, 16)) << 32 | u64::from(word(block, 20));
        // Drivers wait for the second word, and then read the first.
        let written = host.dma.write(address, &data.to_be_bytes()).and_then(|()| {
            host.dma
                .store32(address.wrapping_add(4), result.swap_bytes())
        });
        if let Err(error) = written {
            host.complaints
                .add(format_args!("the answer to a command: {error}"));
        }
    }

    fn run(&mut self, host: &mut Host, command: Command) -> Answer {
        let value = command.data[0];
        match command.number {
            cmd::RESET => {
                self.forget();
                host.interrupts.set_level(false, host.now);
                return Ok((INTRQ_SLOTS * SLOT_LEN) as u32);
            }
            cmd::GET_MCP_VERSION => return Ok(0x0001_0439),
            cmd::GET_SEND_OFFSET => return only_slice(value, SEND),
            cmd::GET_SMALL_RX_OFFSET => return only_slice(value, RECV_SMALL),
            cmd::GET_BIG_RX_OFFSET => return only_slice(value, RECV_BIG),
            cmd::GET_IRQ_ACK_OFFSET => return Ok(IRQ_ACK as u32),
            cmd::GET_IRQ_DEASSERT_OFFSET => return Ok(IRQ_DEASSERT as u32),
            cmd::GET_INTR_COAL_DELAY_OFFSET => return Ok(INTR_COAL_DELAY as u32),
            cmd::GET_SEND_RING_SIZE => return Ok((SEND_SLOTS * SEND_LEN) as u32),
            cmd::GET_RX_RING_SIZE => return Ok((RECV_SLOTS * RECV_LEN) as u32),
            cmd::GET_MAX_TSO6_HDR_SIZE => return Ok(MAX_TSO6_HDR),
            cmd::DMA_TEST | cmd::UNALIGNED_TEST => return self.test_dma(host, command),
            cmd::UNALIGNED_STATUS => return Ok(u32::from(!self.variant.is_aligned())),
            cmd::ETHERNET_UP => return self.ethernet_up(host),
            cmd::ETHERNET_DOWN => {
                self.parameters.is_up = false;
                self.status.went_down(host.now);
            }
            cmd::SET_STATS_INTERVAL => {}
            cmd::SET_BIG_BUFFER_SIZE => {
                // The vendor's header asks for one; iPXE's driver sets 1516 and lives.
                if !value.is_power_of_two() {
                    host.complaints
                        .add(format_args!("big buffers of {value} bytes, no power of 2"));
                }
                return self.set(command);
            }
            cmd::SET_TSO_MODE if value == 0 => {}
            cmd::SET_RSS_MCP_SLOT_TYPE if value == 0 => {}
            cmd::SET_TSO_MODE | cmd::SET_RSS_MCP_SLOT_TYPE => return Err(Failure::Range),
            _ => return self.set(command),
        }
        Ok(0)
    }

    /// The commands that set a parameter.
    fn set(&mut self, command: Command) -> Answer {
        let value = command.data[0];
        let parameters = &mut self.parameters;
        match command.number {
            cmd::SET_INTRQ_DMA => {
                only_slice(command.data[2], 0)?;
                parameters.intrq = Some(aligned(command.address(), 4)?);
            }
            cmd::SET_INTRQ_SIZE => {
                let len = value & !NO_STRICT_SIZE_CHECK;
                let strict = value & NO_STRICT_SIZE_CHECK == 0;
                let wanted = (INTRQ_SLOTS * SLOT_LEN) as u32;
                // iPXE's driver, which is Myricom's own, has a queue of 32 slots.
                if !len.is_power_of_two() || strict && len != wanted || len < SLOT_LEN as u32 {
                    return Err(Failure::Range);
                }
                parameters.intrq_len = len;
            }
            cmd::SET_BIG_BUFFER_SIZE if (1..=BIG_BUFFER_MAX).contains(&value) => {
                parameters.big = value;
            }
            cmd::SET_SMALL_BUFFER_SIZE if value <= MAX_MTU => parameters.small = value,
            cmd::ALWAYS_USE_N_BIG_BUFFERS if value == 0 || value.is_power_of_two() => {
                parameters.always_big = value;
            }
            cmd::SET_MTU if value <= MAX_MTU => parameters.mtu = value,
            cmd::SET_BIG_BUFFER_SIZE
            | cmd::SET_SMALL_BUFFER_SIZE
            | cmd::ALWAYS_USE_N_BIG_BUFFERS
            | cmd::SET_MTU => return Err(Failure::Range),
            cmd::SET_STATS_DMA_OBSOLETE => {
                parameters.stats = Some(Stats {
                    address: aligned(command.address(), 4)?,
                    len: super::status::OLD_BLOCK_LEN,
                });
            }
            cmd::SET_STATS_DMA_V2 => {
                only_slice(command.data[2] >> 16, 0)?;
                let len = (command.data[2] & 0xffff) as usize;
                if len < super::status::OLD_BLOCK_LEN || !len.is_multiple_of(4) {
                    return Err(Failure::Range);
                }
                let address = aligned(command.address(), 4)?;
                parameters.stats = Some(Stats { address, len });
            }
            cmd::SET_MAC_ADDRESS => parameters.mac = Some(command.station(false)),
            cmd::ENABLE_PROMISC => parameters.promiscuous = true,
            cmd::DISABLE_PROMISC => parameters.promiscuous = false,
            cmd::ENABLE_FLOW_CONTROL => parameters.flow_control = true,
            cmd::DISABLE_FLOW_CONTROL => parameters.flow_control = false,
            cmd::ENABLE_ALLMULTI => parameters.all_multicast = true,
            cmd::DISABLE_ALLMULTI => parameters.all_multicast = false,
            cmd::JOIN_MULTICAST_GROUP => {
                if parameters.groups.len() >= MULTICAST_GROUPS {
                    return Err(Failure::Multicast);
                }
                parameters.groups.insert(command.station(true));
            }
            cmd::LEAVE_MULTICAST_GROUP => {
                if !parameters.groups.remove(&command.station(true)) {
                    return Err(Failure::Multicast);
                }
            }
            cmd::LEAVE_ALL_MULTICAST_GROUPS => parameters.groups.clear(),
            _ => return Err(Failure::Unknown),
        }
        Ok(0)
    }

    fn ethernet_up(&mut self, host: &mut Host) -> Answer {
        let parameters = &mut self.parameters;
        let is_told = parameters.intrq.is_some()
            && parameters.intrq_len > 0
            && parameters.small > 0
            && parameters.big > 0
            && parameters.mtu > 0
            && parameters.mac.is_some()
            && parameters.stats.is_some();
        if !is_told {
            return Err(Failure::Closed);
        }
        parameters.is_up = true;
        self.status.came_up(host.now);
        Ok(0)
    }

    /// Reads and writes the driver's memory, and says how long that took.
    fn test_dma(&mut self, host: &mut Host, command: Command) -> Answer {
        if self.faults.take_dma_test() {
            return Err(Failure::Range);
        }
        if command.number == cmd::UNALIGNED_TEST && !self.variant.is_aligned() {
            return Err(Failure::Unaligned);
        }
        let (read, write) = (command.data[2] >> 16, command.data[2] & 0xffff);
        let mut bytes = vec![0; read.max(write) as usize];
        let done = host
            .dma
            .read(command.address(), &mut bytes[..read as usize])
            .and_then(|()| host.dma.write(command.address(), &bytes[..write as usize]));
        if read + write == 0 || done.is_err() {
            return Err(Failure::Range);
        }
        let ticks = (read + write) * TEST_TRANSFERS / TEST_BYTES_A_TICK;
        Ok(TEST_TRANSFERS << 16 | ticks.clamp(1, 0xffff))
    }
}

/// `answer` where the slice asked for is the only one that there is.
fn only_slice(slice: u32, answer: usize) -> Answer {
    match slice {
        0 => Ok(answer as u32),
        _ => Err(Failure::Range),
    }
}

fn aligned(address: u64, to: u64) -> Result<u64, Failure> {
    match address.is_multiple_of(to) {
        true => Ok(address),
        false => Err(Failure::Range),
    }
}
