//! Where things are in the card's memory window, and the firmware's commands.
//!
//! Names are those of Myricom's header for drivers, as Linux and FreeBSD have it. Words
//! are big-endian.

/// Where an image is put for the hand-off.
pub const FW_OFFSET: usize = 1 << 20;
/// Where a running image says where its header is.
pub const MCP_HEADER_PTR: usize = 0x3c;
/// The mailbox for commands.
pub const ETH_CMD: usize = 0xf8_0000;
/// Where a hand-off is asked for.
pub const BOOT_HANDOFF: usize = 0xfc_0000;
/// Where the card is told to read the host's memory now and then.
pub const BOOT_DUMMY_RDMA: usize = 0xfc_01c0;

/// Bytes of a request to send.
pub const SEND_LEN: usize = 16;
/// Bytes of a receive buffer's address.
pub const RECV_LEN: usize = 8;
/// Bytes of a slot of the interrupt queue.
pub const SLOT_LEN: usize = 4;
/// Bytes before a frame in its receive buffer.
pub const PAD: usize = 2;

/// The longest frame that is marked SMALL.
pub const SEND_SMALL_SIZE: usize = 1520;
/// Requests that a frame may have which is not cut.
pub const MAX_SEND_DESC: usize = 12;
/// What is written to claim an interrupt.
pub const CLAIM: u32 = 3;

/// Flags of a request to send.
pub mod flag {
    /// The frame is short.
    pub const SMALL: u8 = 0x01;
    /// Headers of a super-segment.
    pub const TSO_HDR: u8 = 0x01;
    /// A frame or segment begins here.
    pub const FIRST: u8 = 0x02;
    /// An odd number of bytes lies before it.
    pub const ALIGN_ODD: u8 = 0x04;
    /// A checksum is to be filled in.
    pub const CKSUM: u8 = 0x08;
    /// Part of a super-segment's last segment.
    pub const TSO_LAST: u8 = 0x08;
    /// No super-segment.
    pub const NO_TSO: u8 = 0x10;
    /// A segment ends before this request does.
    pub const TSO_CHOP: u8 = 0x10;
    /// Payload of a super-segment.
    pub const TSO_PLD: u8 = 0x20;
}

/// Commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Cmd {
    /// To where the firmware begins.
    Reset = 1,
    /// Where the interrupt queue is.
    SetIntrqDma = 3,
    /// Bytes of a big receive buffer, a power of two.
    SetBigBufferSize = 4,
    /// Bytes of a small one, without the pad.
    SetSmallBufferSize = 5,
    /// Where the transmit ring is in the window.
    GetSendOffset = 6,
    /// Where the ring of small receive buffers is.
    GetSmallRxOffset = 7,
    /// Where that of big ones is.
    GetBigRxOffset = 8,
    /// Where interrupts are claimed: for received frames, and four bytes on for the
    /// statistics block.
    GetIrqAckOffset = 9,
    /// Where the line is lowered.
    GetIrqDeassertOffset = 10,
    /// Bytes of the transmit ring.
    GetSendRingSize = 11,
    /// Bytes of a receive ring.
    GetRxRingSize = 12,
    /// Bytes of the interrupt queue.
    SetIntrqSize = 13,
    /// Frames come and go from now on.
    EthernetUp = 14,
    /// They no longer do.
    EthernetDown = 15,
    /// Bytes of the longest frame, with a tag.
    SetMtu = 16,
    /// Where the coalescing delay is written, in µs.
    GetIntrCoalDelayOffset = 17,
    /// The statistics block as old firmware has it.
    SetStatsDmaObsolete = 19,
    /// All frames are taken.
    EnablePromisc = 20,
    /// Only those that are meant for the host.
    DisablePromisc = 21,
    /// The station address.
    SetMacAddress = 22,
    /// No pause frames are sent.
    DisableFlowControl = 24,
    /// Reads and writes of the host's memory, timed.
    DmaTest = 25,
    /// All groups' frames are taken.
    EnableAllmulti = 26,
    /// Only those of groups that were joined.
    DisableAllmulti = 27,
    /// No group is joined any more.
    LeaveAllMulticastGroups = 30,
    /// The statistics block.
    SetStatsDmaV2 = 31,
    /// The same as the DMA test; it fails where completions are not aligned.
    UnalignedTest = 32,
    /// Receive buffers that each big frame takes.
    AlwaysUseNBigBuffers = 34,
    /// Bytes of headers that an IPv6 super-segment may have.
    GetMaxTso6HdrSize = 44,
    /// Whose rules a super-segment's requests follow.
    SetTsoMode = 45,
    /// Slots of the interrupt queue with or without a hash.
    SetRssMcpSlotType = 52,
}

/// How a command ended, as far as it matters which way.
pub mod status {
    /// It is done.
    pub const OK: u32 = 0;
    /// The firmware does not know it.
    pub const UNKNOWN: u32 = 1;
    /// Completions are not aligned.
    pub const UNALIGNED: u32 = 10;
    /// What stands in memory before there is an answer.
    pub const NO_RESPONSE: u32 = u32::MAX;
}
