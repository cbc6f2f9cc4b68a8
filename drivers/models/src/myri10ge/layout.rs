//! Where things are in the card's memory window, and what its firmware is told.
//!
//! Names and numbers are those of Myricom's header for drivers, as Linux's myri10ge and
//! FreeBSD's mxge have it. All words are big-endian.

/// Bytes of base address register 0.
pub(super) const WINDOW: usize = 16 << 20;
/// Bytes of SRAM, at the window's beginning.
pub(super) const SRAM: usize = 2 << 20;
/// Where drivers put a firmware image before the hand-off.
pub(super) const FW_OFFSET: usize = 1 << 20;
/// Where the strings of the EEPROM are, behind all that firmware may use.
pub(super) const STRING_SPECS: usize = 0x1d_fe00;
pub(super) const STRING_SPECS_LEN: usize = 256;

pub(super) const SEND: usize = 0x20_0000;
pub(super) const RECV_SMALL: usize = 0x30_0000;
pub(super) const RECV_BIG: usize = 0x34_0000;
pub(super) const SEND_GO: usize = 0x38_0000;
pub(super) const SEND_STOP: usize = 0x3c_0000;
pub(super) const IRQ_ACK: usize = 0xfa_0000;
pub(super) const IRQ_DEASSERT: usize = 0xfa_0040;
pub(super) const INTR_COAL_DELAY: usize = 0xfa_0080;
pub(super) const ETH_CMD: usize = 0xf8_0000;
pub(super) const BOOT_HANDOFF: usize = 0xfc_0000;
pub(super) const BOOT_DUMMY_RDMA: usize = 0xfc_01c0;

/// Requests in the transmit ring, and their bytes.
pub(super) const SEND_SLOTS: usize = 1024;
pub(super) const SEND_LEN: usize = 16;
/// Buffers in each receive ring, and the bytes of their addresses.
pub(super) const RECV_SLOTS: usize = 512;
pub(super) const RECV_LEN: usize = 8;
/// Slots of the interrupt queue: one for each buffer.
pub(super) const INTRQ_SLOTS: usize = 2 * RECV_SLOTS;
pub(super) const SLOT_LEN: usize = 4;

/// Flags of a request to send.
pub(super) mod flag {
    pub(crate) const SMALL: u8 = 0x01;
    pub(crate) const TSO_HDR: u8 = 0x01;
    pub(crate) const FIRST: u8 = 0x02;
    pub(crate) const ALIGN_ODD: u8 = 0x04;
    pub(crate) const CKSUM: u8 = 0x08;
    pub(crate) const TSO_LAST: u8 = 0x08;
    pub(crate) const NO_TSO: u8 = 0x10;
    pub(crate) const TSO_CHOP: u8 = 0x10;
    pub(crate) const TSO_PLD: u8 = 0x20;
}

/// The longest frame that SMALL stands for.
pub(super) const SEND_SMALL_SIZE: usize = 1520;
/// Requests of one frame at the most.
pub(super) const MAX_SEND_DESC: usize = 12;
/// Bytes before a received frame in its buffer.
pub(super) const PAD: usize = 2;
/// The largest MTU parameter: with header and tag.
pub(super) const MAX_MTU: u32 = 9400;
/// The most bytes of headers that an IPv6 super-segment may have.
pub(super) const MAX_TSO6_HDR: u32 = 136;
/// Multicast groups that the filter holds.
pub(super) const MULTICAST_GROUPS: usize = 32;

/// What a driver writes to claim an interrupt.
pub(super) const CLAIM: u32 = 3;

/// Commands by their numbers.
pub(super) mod cmd {
    pub(crate) const RESET: u32 = 1;
    pub(crate) const GET_MCP_VERSION: u32 = 2;
    pub(crate) const SET_INTRQ_DMA: u32 = 3;
    pub(crate) const SET_BIG_BUFFER_SIZE: u32 = 4;
    pub(crate) const SET_SMALL_BUFFER_SIZE: u32 = 5;
    pub(crate) const GET_SEND_OFFSET: u32 = 6;
    pub(crate) const GET_SMALL_RX_OFFSET: u32 = 7;
    pub(crate) const GET_BIG_RX_OFFSET: u32 = 8;
    pub(crate) const GET_IRQ_ACK_OFFSET: u32 = 9;
    pub(crate) const GET_IRQ_DEASSERT_OFFSET: u32 = 10;
    pub(crate) const GET_SEND_RING_SIZE: u32 = 11;
    pub(crate) const GET_RX_RING_SIZE: u32 = 12;
    pub(crate) const SET_INTRQ_SIZE: u32 = 13;
    pub(crate) const ETHERNET_UP: u32 = 14;
    pub(crate) const ETHERNET_DOWN: u32 = 15;
    pub(crate) const SET_MTU: u32 = 16;
    pub(crate) const GET_INTR_COAL_DELAY_OFFSET: u32 = 17;
    pub(crate) const SET_STATS_INTERVAL: u32 = 18;
    pub(crate) const SET_STATS_DMA_OBSOLETE: u32 = 19;
    pub(crate) const ENABLE_PROMISC: u32 = 20;
    pub(crate) const DISABLE_PROMISC: u32 = 21;
    pub(crate) const SET_MAC_ADDRESS: u32 = 22;
    pub(crate) const ENABLE_FLOW_CONTROL: u32 = 23;
    pub(crate) const DISABLE_FLOW_CONTROL: u32 = 24;
    pub(crate) const DMA_TEST: u32 = 25;
    pub(crate) const ENABLE_ALLMULTI: u32 = 26;
    pub(crate) const DISABLE_ALLMULTI: u32 = 27;
    pub(crate) const JOIN_MULTICAST_GROUP: u32 = 28;
    pub(crate) const LEAVE_MULTICAST_GROUP: u32 = 29;
    pub(crate) const LEAVE_ALL_MULTICAST_GROUPS: u32 = 30;
    pub(crate) const SET_STATS_DMA_V2: u32 = 31;
    pub(crate) const UNALIGNED_TEST: u32 = 32;
    pub(crate) const UNALIGNED_STATUS: u32 = 33;
    pub(crate) const ALWAYS_USE_N_BIG_BUFFERS: u32 = 34;
    pub(crate) const GET_MAX_TSO6_HDR_SIZE: u32 = 44;
    pub(crate) const SET_TSO_MODE: u32 = 45;
    pub(crate) const SET_RSS_MCP_SLOT_TYPE: u32 = 52;
}

/// In SET_INTRQ_SIZE: any size will do.
pub(super) const NO_STRICT_SIZE_CHECK: u32 = 1 << 31;

/// How a command fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    Unknown = 1,
    Range = 2,
    Closed = 5,
    Multicast = 9,
    Unaligned = 10,
}

/// A word of `bytes`, at byte `at`.
pub(super) fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(std::array::from_fn(|index| bytes[at + index]))
}
