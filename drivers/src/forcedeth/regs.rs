//! Registers of the nForce MAC: byte offsets and bits.
//!
//! There is no manual. The names are those of Linux's forcedeth (without `NvReg` and
//! `NVREG`), which NVIDIA's own people have worked on; FreeBSD's nfe has others.

use bitflags::bitflags;

/// Causes of interrupts; writing ones takes them away.
pub const IRQ_STATUS: usize = 0x000;
/// Causes that may raise an interrupt.
pub const IRQ_MASK: usize = 0x004;
/// Starts the interval timer.
pub const UNKNOWN_SETUP_REG6: usize = 0x008;
/// The interval timer's period, in steps of [`INTERVAL_STEP_NS`].
pub const POLLING_INTERVAL: usize = 0x00c;
/// Which MSI message each cause sends: 4 bits each.
pub const MSI_MAP0: usize = 0x020;
/// The same for the upper eight causes.
pub const MSI_MAP1: usize = 0x024;
/// Which MSI messages may be sent.
pub const MSI_IRQ_MASK: usize = 0x030;
/// Resets the MAC. FreeBSD has 0x3c here, where Linux, written with NVIDIA's help, has
/// 0x34.
pub const MAC_RESET: usize = 0x034;
/// Duplex and sent pause frames.
pub const MISC1: usize = 0x080;
/// The transmitter's switch, and the semaphores of the management unit.
pub const TRANSMITTER_CONTROL: usize = 0x084;
/// Whether the transmitter is at work.
pub const TRANSMITTER_STATUS: usize = 0x088;
/// What is received.
pub const PACKET_FILTER_FLAGS: usize = 0x08c;
/// The size of receive buffers, in bytes.
pub const OFFLOAD_CONFIG: usize = 0x090;
/// The receiver's switch.
pub const RECEIVER_CONTROL: usize = 0x094;
/// Whether the receiver is at work.
pub const RECEIVER_STATUS: usize = 0x098;
/// The slot time, and the seed of the back-off.
pub const SLOT_TIME: usize = 0x09c;
/// The gap between frames that are sent.
pub const TX_DEFERRAL: usize = 0x0a0;
/// The gap between frames that are received.
pub const RX_DEFERRAL: usize = 0x0a4;
/// The station address, bytes 0 to 3.
pub const MAC_ADDR_A: usize = 0x0a8;
/// The station address, bytes 4 and 5.
pub const MAC_ADDR_B: usize = 0x0ac;
/// Multicast addresses to be received: value and mask, in two halves each.
pub const MULTICAST_ADDR_A: usize = 0x0b0;
/// See [`MULTICAST_ADDR_A`].
pub const MULTICAST_ADDR_B: usize = 0x0b4;
/// See [`MULTICAST_ADDR_A`].
pub const MULTICAST_MASK_A: usize = 0x0b8;
/// See [`MULTICAST_ADDR_A`].
pub const MULTICAST_MASK_B: usize = 0x0bc;
/// How the PHY is connected, and the speed it runs at.
pub const PHY_INTERFACE: usize = 0x0c0;
/// Seeds of the back-off of MACs that have several.
pub const BACK_OFF_CONTROL: usize = 0x0c4;
/// Where the transmit ring is: the lower half of the address.
pub const TX_RING_PHYS_ADDR: usize = 0x100;
/// Where the receive ring is.
pub const RX_RING_PHYS_ADDR: usize = 0x104;
/// Descriptors in the rings, each less one.
pub const RING_SIZES: usize = 0x108;
/// Has the bit that says in which order the station address is.
pub const TRANSMIT_POLL: usize = 0x10c;
/// The link's speed.
pub const LINK_SPEED: usize = 0x110;
/// Has a bit that says that the DMA engine is ready.
pub const UNKNOWN_SETUP_REG5: usize = 0x130;
/// When the transmitter begins to send.
pub const TX_WATERMARK: usize = 0x13c;
/// The DMA engine: descriptor format, offloads, doorbell.
pub const TX_RX_CONTROL: usize = 0x144;
/// The upper half of [`TX_RING_PHYS_ADDR`].
pub const TX_RING_PHYS_ADDR_HIGH: usize = 0x148;
/// The upper half of [`RX_RING_PHYS_ADDR`].
pub const RX_RING_PHYS_ADDR_HIGH: usize = 0x14c;
/// When pause frames are sent.
pub const TX_PAUSE_FRAME: usize = 0x170;
/// Events of the management interface; writing ones takes them away.
pub const MII_STATUS: usize = 0x180;
/// Which of them are a cause of interrupts.
pub const MII_MASK: usize = 0x184;
/// The PHY's address, and whether the MAC watches it.
pub const ADAPTER_CONTROL: usize = 0x188;
/// The management interface's clock.
pub const MII_SPEED: usize = 0x18c;
/// A PHY register to be read or written.
pub const MII_CONTROL: usize = 0x190;
/// Its value.
pub const MII_DATA: usize = 0x194;
/// What may wake the machine.
pub const WAKE_UP_FLAGS: usize = 0x200;
/// Asks the management unit for its version. In FreeBSD this and the next belong to
/// Wake-on-LAN patterns, which it never sets.
pub const MGMT_UNIT_GET_VERSION: usize = 0x204;
/// Its answer.
pub const MGMT_UNIT_VERSION: usize = 0x208;
/// The power state.
pub const POWER_STATE: usize = 0x26c;
/// Whether the management unit uses the MAC.
pub const MGMT_UNIT_CONTROL: usize = 0x278;
/// VLAN tags in hardware.
pub const VLAN_CONTROL: usize = 0x300;
/// Clocks and the PHY's reset.
pub const POWER_STATE2: usize = 0x600;

/// Registers that can be read without changing anything: all but the counters.
pub const QUIET: [core::ops::Range<usize>; 5] = [
    0x000..0x0c8,
    0x100..0x1a0,
    0x200..0x280,
    VLAN_CONTROL..VLAN_CONTROL + 4,
    POWER_STATE2..POWER_STATE2 + 4,
];

/// Counters, which reading clears.
pub mod counter {
    /// Bytes sent, with FCS.
    pub const TX_BYTES: usize = 0x280;
    /// Frames sent at the first try.
    pub const TX_ZERO_RETRANSMIT: usize = 0x284;
    /// At the second.
    pub const TX_ONE_RETRANSMIT: usize = 0x288;
    /// Later.
    pub const TX_MANY_RETRANSMIT: usize = 0x28c;
    /// Late collisions.
    pub const TX_LATE_COLLISION: usize = 0x290;
    /// Memory was too slow for a frame.
    pub const TX_UNDERFLOW: usize = 0x294;
    /// The carrier was lost.
    pub const TX_LOSS_CARRIER: usize = 0x298;
    /// The wire was busy for too long.
    pub const TX_EXCESS_DEFERRAL: usize = 0x29c;
    /// Too many collisions.
    pub const TX_RETRY_ERROR: usize = 0x2a0;
    /// Frames with a bad symbol.
    pub const RX_FRAME_ERROR: usize = 0x2a4;
    /// Frames hit by a late collision.
    pub const RX_LATE_COLLISION: usize = 0x2ac;
    /// Frames too short.
    pub const RX_RUNT: usize = 0x2b0;
    /// Frames too long.
    pub const RX_FRAME_TOO_LONG: usize = 0x2b4;
    /// Frames for which the FIFO was full.
    pub const RX_OVERFLOW: usize = 0x2b8;
    /// Frames with a wrong FCS.
    pub const RX_FCS_ERROR: usize = 0x2bc;
    /// Frames of no whole number of bytes.
    pub const RX_FRAME_ALIGN_ERROR: usize = 0x2c0;
    /// Frames whose length is not what they say.
    pub const RX_LENGTH_ERROR: usize = 0x2c4;
    /// Good frames to one station.
    pub const RX_UNICAST: usize = 0x2c8;
    /// To a group.
    pub const RX_MULTICAST: usize = 0x2cc;
    /// To all.
    pub const RX_BROADCAST: usize = 0x2d0;
    /// Bytes received, with FCS. The second group of counters begins about here.
    pub const RX_BYTES: usize = 0x2dc;
    /// Pause frames received.
    pub const RX_PAUSE: usize = 0x2e4;
    /// Frames for which there was no room.
    pub const RX_DROP_FRAME: usize = 0x2e8;
}

/// One step of [`POLLING_INTERVAL`] in ns: 97 of them are a millisecond (Linux), 128 µs
/// are 12.5 (FreeBSD).
pub const INTERVAL_STEP_NS: u32 = 10_240;

bitflags! {
    /// IRQ_STATUS and IRQ_MASK.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Irq: u32 {
        /// A frame with an error was received.
        const RX_ERROR = 0x0001;
        /// A frame was received.
        const RX = 0x0002;
        /// A frame found no buffer.
        const RX_NOBUF = 0x0004;
        /// A frame could not be sent.
        const TX_ERR = 0x0008;
        /// A frame was sent.
        const TX_OK = 0x0010;
        /// The interval timer.
        const TIMER = 0x0020;
        /// The link changed.
        const LINK = 0x0040;
        /// A receive descriptor asked for it.
        const RX_FORCED = 0x0080;
        /// A transmit descriptor asked for it.
        const TX_FORCED = 0x0100;
        /// The rings went wrong; the MAC has to be started anew.
        const RECOVER_ERROR = 0x8200;
        /// What is received.
        const RX_ALL = 0x0087;
        /// What is sent.
        const TX_ALL = 0x0118;
        /// Every cause there is.
        const ALL = 0x83ff;
    }
}

bitflags! {
    /// MISC1.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Misc1: u32 {
        /// Send pause frames.
        const PAUSE_TX = 0x01;
        /// Half duplex.
        const HALF_DUPLEX = 0x02;
        /// What always has to be set.
        const FORCE = 0x3b_0f3c;
    }
}

bitflags! {
    /// TRANSMITTER_CONTROL.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Transmitter: u32 {
        /// It runs.
        const START = 0x0000_0001;
        /// The management unit's semaphore.
        const MGMT_SEMA = 0x0000_0f00;
        /// The host's semaphore.
        const HOST_SEMA = 0x0000_f000;
        /// Changes when the management unit has answered.
        const DATA_READY = 0x0001_0000;
        /// Its answer is an error.
        const DATA_ERROR = 0x0002_0000;
        /// The management unit has set the PHY up.
        const SYNC_PHY_INIT = 0x0004_0000;
        /// How far it is.
        const SYNC = 0x000f_0000;
        /// Changing it asks the management unit.
        const DATA_START = 0x0010_0000;
        /// Cuts the host off, where the management unit keeps the transmitter running.
        const PATH_EN = 0x0100_0000;
        /// The management unit runs.
        const MGMT_ST = 0x4000_0000;
        const _ = !0;
    }
}

bitflags! {
    /// RECEIVER_CONTROL.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Receiver: u32 {
        /// It runs.
        const START = 0x0000_0001;
        /// See [`Transmitter::PATH_EN`].
        const PATH_EN = 0x0100_0000;
        const _ = !0;
    }
}

/// TRANSMITTER_STATUS and RECEIVER_STATUS: not at rest yet.
pub const BUSY: u32 = 0x01;

bitflags! {
    /// PACKET_FILTER_FLAGS.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Filter: u32 {
        /// Obey pause frames.
        const PAUSE_RX = 0x08;
        /// Receive what is sent to the station address.
        const MYADDR = 0x20;
        /// What always has to be set.
        const ALWAYS = 0x7f_0000;
    }
}

/// OFFLOAD_CONFIG is this much more than the MTU: headers, a tag, and slack.
pub const RX_HEADERS: usize = 64;

/// SLOT_TIME: the speed's part.
pub const SLOT_TIME_SPEED: u32 = 0x3_ff00;
/// SLOT_TIME at 10 and 100 Mbit/s.
pub const SLOT_TIME_10_100: u32 = 0x7f00;
/// SLOT_TIME at 1000 Mbit/s. FreeBSD has 0x7400 there, and 0x2d00 at 100 Mbit/s.
pub const SLOT_TIME_1000: u32 = 0x3_ff00;
/// SLOT_TIME: one seed for the back-off.
pub const SLOT_TIME_LEGACY_BACK_OFF: u32 = 1 << 31;

/// TX_DEFERRAL without RGMII.
pub const TX_DEFERRAL_DEFAULT: u32 = 0x15_050f;
/// TX_DEFERRAL with RGMII at 10 and 100 Mbit/s.
pub const TX_DEFERRAL_RGMII_10_100: u32 = 0x16_070f;
/// TX_DEFERRAL with RGMII at 1000 Mbit/s.
pub const TX_DEFERRAL_RGMII_1000: u32 = 0x14_050f;
/// TX_DEFERRAL for a half-duplex partner that does not negotiate, 10 Mbit/s.
pub const TX_DEFERRAL_STRETCH_10: u32 = 0x16_190f;
/// The same at 100 Mbit/s.
pub const TX_DEFERRAL_STRETCH_100: u32 = 0x16_300f;
/// The same without RGMII.
pub const TX_DEFERRAL_MII_STRETCH: u32 = 0x15_2000;
/// RX_DEFERRAL.
pub const RX_DEFERRAL_DEFAULT: u32 = 0x16;

/// MULTICAST_ADDR_A: an address of a group has this bit.
pub const MULTICAST_FORCE: u32 = 0x01;
/// MULTICAST_MASK_A for no group.
pub const MULTICAST_NONE_A: u32 = 0xffff_ffff;
/// MULTICAST_MASK_B for no group.
pub const MULTICAST_NONE_B: u32 = 0xffff;

bitflags! {
    /// PHY_INTERFACE.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct PhyInterface: u32 {
        /// 100 Mbit/s.
        const MBPS_100 = 0x1;
        /// 1000 Mbit/s.
        const MBPS_1000 = 0x2;
        /// Half duplex.
        const HALF = 0x100;
        /// The PHY is connected by RGMII.
        const RGMII = 0x1000_0000;
        const _ = !0;
    }
}

/// BACK_OFF_CONTROL: always set.
pub const BACK_OFF_DEFAULT: u32 = 0x7000_0000;
/// BACK_OFF_CONTROL: which generator is seeded.
pub const BACK_OFF_SELECT_SHIFT: u32 = 24;
/// BACK_OFF_CONTROL: its second seed.
pub const BACK_OFF_GEAR_SHIFT: u32 = 12;

/// TRANSMIT_POLL: the station address is in its right order.
pub const MAC_ADDR_REV: u32 = 0x8000;

/// LINK_SPEED: always set.
pub const LINK_SPEED_FORCE: u32 = 0x1_0000;

/// UNKNOWN_SETUP_REG5: ready.
pub const SETUP5_READY: u32 = 1 << 31;
/// UNKNOWN_SETUP_REG6: the interval timer runs.
pub const SETUP6_TIMER: u32 = 3;

/// TX_WATERMARK with descriptors of the first format.
pub const WATERMARK_V1: u32 = 0x020_0010;
/// TX_WATERMARK with the others.
pub const WATERMARK_V2: u32 = 0x1e0_8000;
/// The same at 1000 Mbit/s.
pub const WATERMARK_V2_1000: u32 = 0xfe0_8000;

bitflags! {
    /// TX_RX_CONTROL. The descriptor formats' bits are Linux's: FreeBSD lacks the upper
    /// two of the third.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct TxRx: u32 {
        /// There is something to send.
        const KICK = 0x0001;
        /// Starts the engine.
        const BIT1 = 0x0002;
        /// Goes with a reset.
        const BIT2 = 0x0004;
        /// Resets it.
        const RESET = 0x0010;
        /// Check received checksums.
        const RXCHECK = 0x0400;
        /// Descriptors of the second format.
        const DESC_2 = 0x00_2100;
        /// Descriptors of the third format.
        const DESC_3 = 0xc0_2200;
    }
}

/// TX_PAUSE_FRAME: none. FreeBSD has 0x1ff0080.
pub const PAUSE_FRAME_DISABLE: u32 = 0x0fff_0080;

bitflags! {
    /// MII_STATUS and MII_MASK.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct MiiStatus: u32 {
        /// No PHY has answered.
        const ERROR = 0x1;
        /// What is cleared before an access.
        const ACCESS = 0x7;
        /// The link changed.
        const LINK_CHANGE = 0x8;
        /// Everything.
        const ALL = 0xf;
    }
}

bitflags! {
    /// ADAPTER_CONTROL.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Adapter: u32 {
        /// The PHY's address is valid.
        const PHY_VALID = 0x4_0000;
        /// The MAC watches the PHY.
        const RUNNING = 0x10_0000;
        const _ = !0;
    }
}

/// ADAPTER_CONTROL: the PHY's address.
pub const ADAPTER_PHY_SHIFT: u32 = 24;
/// MII_SPEED: the clock's divider.
pub const MII_SPEED_DEFAULT: u32 = 0x105;

bitflags! {
    /// MII_CONTROL.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct MiiControl: u32 {
        /// Write.
        const WRITE = 0x0400;
        /// An access is under way.
        const IN_USE = 0x8000;
        const _ = !0;
    }
}

/// MII_CONTROL: the PHY's address.
pub const MII_ADDRESS_SHIFT: u32 = 5;

/// MGMT_UNIT_GET_VERSION: asks for it.
pub const MGMT_GET_VERSION: u32 = 0x01;
/// MGMT_UNIT_VERSION: the part that counts.
pub const MGMT_VERSION: u32 = 0x08;
/// MGMT_UNIT_CONTROL: in use.
pub const MGMT_IN_USE: u32 = 0x2_0000;

bitflags! {
    /// POWER_STATE.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct PowerState: u32 {
        /// What is written counts.
        const VALID = 0x0100;
        /// It is on.
        const POWERED_UP = 0x8000;
        const _ = !0;
    }
}

bitflags! {
    /// POWER_STATE2.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct PowerState2: u32 {
        /// What revision A3 of the MCP51 needs to leave its low power state.
        const POWER_UP_REV_A3 = 0x0001;
        /// Holds the PHY in reset.
        const PHY_RESET = 0x0004;
        /// Stops the clocks of transmitter and receiver.
        const GATE_CLOCKS = 0x0f00;
        /// What is cleared to leave a low power state.
        const POWER_UP_MASK = 0x0f15;
        const _ = !0;
    }
}

/// MAC_RESET: asserts it.
pub const MAC_RESET_ASSERT: u32 = 0xf3;
/// MSI_IRQ_MASK: message 0 may be sent.
pub const MSI_VECTOR_0: u32 = 1;
