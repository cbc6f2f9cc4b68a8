//! The MAC's registers: byte offsets in the first base address register, and their bits.
//! The names are those of Linux's forcedeth without their prefix; FreeBSD's nfe and
//! OpenBSD's agree where they know a register, but for those where a comment says so.

pub(super) const IRQ_STATUS: usize = 0x000;
pub(super) const IRQ_MASK: usize = 0x004;
pub(super) const SETUP_REG6: usize = 0x008;
pub(super) const POLLING_INTERVAL: usize = 0x00c;
pub(super) const MSI_IRQ_MASK: usize = 0x030;
/// 0x3c in FreeBSD, which would hit nothing. NVIDIA's own people wrote Linux's.
pub(super) const MAC_RESET: usize = 0x034;
pub(super) const MISC1: usize = 0x080;
pub(super) const TRANSMITTER_CONTROL: usize = 0x084;
pub(super) const TRANSMITTER_STATUS: usize = 0x088;
pub(super) const PACKET_FILTER_FLAGS: usize = 0x08c;
pub(super) const OFFLOAD_CONFIG: usize = 0x090;
pub(super) const RECEIVER_CONTROL: usize = 0x094;
pub(super) const RECEIVER_STATUS: usize = 0x098;
pub(super) const MAC_ADDR_A: usize = 0x0a8;
pub(super) const MAC_ADDR_B: usize = 0x0ac;
pub(super) const MULTICAST_ADDR_A: usize = 0x0b0;
pub(super) const MULTICAST_ADDR_B: usize = 0x0b4;
pub(super) const MULTICAST_MASK_A: usize = 0x0b8;
pub(super) const MULTICAST_MASK_B: usize = 0x0bc;
pub(super) const PHY_INTERFACE: usize = 0x0c0;
pub(super) const TX_RING_PHYS_ADDR: usize = 0x100;
pub(super) const RX_RING_PHYS_ADDR: usize = 0x104;
pub(super) const RING_SIZES: usize = 0x108;
pub(super) const TRANSMIT_POLL: usize = 0x10c;
pub(super) const LINK_SPEED: usize = 0x110;
pub(super) const SETUP_REG5: usize = 0x130;
pub(super) const TX_RX_CONTROL: usize = 0x144;
pub(super) const TX_RING_PHYS_ADDR_HIGH: usize = 0x148;
pub(super) const RX_RING_PHYS_ADDR_HIGH: usize = 0x14c;
pub(super) const MII_STATUS: usize = 0x180;
pub(super) const MII_MASK: usize = 0x184;
pub(super) const ADAPTER_CONTROL: usize = 0x188;
pub(super) const MII_CONTROL: usize = 0x190;
pub(super) const MII_DATA: usize = 0x194;
/// This and the next belong to Wake-on-LAN patterns in FreeBSD.
pub(super) const MGMT_UNIT_GET_VERSION: usize = 0x204;
pub(super) const MGMT_UNIT_VERSION: usize = 0x208;
pub(super) const MGMT_UNIT_CONTROL: usize = 0x278;
pub(super) const VLAN_CONTROL: usize = 0x300;
pub(super) const MSIX_MAP0: usize = 0x3e0;
pub(super) const MSIX_MAP1: usize = 0x3e4;
pub(super) const MSIX_IRQ_STATUS: usize = 0x3f0;
pub(super) const POWER_STATE2: usize = 0x600;

/// Bytes of the register window.
pub(super) const WINDOW: usize = 0x1000;

pub(super) mod irq {
    pub(crate) const RX_ERROR: u32 = 0x0001;
    pub(crate) const RX: u32 = 0x0002;
    pub(crate) const RX_NOBUF: u32 = 0x0004;
    pub(crate) const TX_ERR: u32 = 0x0008;
    pub(crate) const TX_OK: u32 = 0x0010;
    pub(crate) const TIMER: u32 = 0x0020;
    pub(crate) const LINK: u32 = 0x0040;
    pub(crate) const TX_FORCED: u32 = 0x0100;
    /// The rings went wrong: the host has to start them anew.
    pub(crate) const RECOVER_ERROR: u32 = 0x8200;
    pub(crate) const ALL: u32 = 0x83ff;
}

/// Bits of `MISC1`.
pub(super) mod misc1 {
    pub(crate) const PAUSE_TX: u32 = 0x01;
}

/// Bits of `TRANSMITTER_CONTROL`.
pub(super) mod xmit {
    pub(crate) const START: u32 = 0x0000_0001;
    pub(crate) const MGMT_SEMA: u32 = 0x0000_0f00;
    pub(crate) const HOST_SEMA: u32 = 0x0000_f000;
    pub(crate) const DATA_READY: u32 = 0x0001_0000;
    pub(crate) const SYNC_PHY_INIT: u32 = 0x0004_0000;
    pub(crate) const SYNC: u32 = 0x000f_0000;
    pub(crate) const DATA_START: u32 = 0x0010_0000;
    /// The host's path is cut off where this is set, in spite of its name.
    pub(crate) const PATH_EN: u32 = 0x0100_0000;
    pub(crate) const MGMT_ST: u32 = 0x4000_0000;
}

/// Bits of `PACKET_FILTER_FLAGS`.
pub(super) mod filter {
    pub(crate) const PAUSE_RX: u32 = 0x08;
    pub(crate) const LOOPBACK: u32 = 0x10;
    pub(crate) const MYADDR: u32 = 0x20;
    pub(crate) const PROMISC: u32 = 0x80;
}

/// Bits of `RECEIVER_CONTROL`.
pub(super) mod receiver {
    pub(crate) const START: u32 = 0x0000_0001;
    pub(crate) const PATH_EN: u32 = 0x0100_0000;
}

/// Bits of `TX_RX_CONTROL`.
pub(super) mod txrx {
    pub(crate) const KICK: u32 = 0x0001;
    pub(crate) const BIT1: u32 = 0x0002;
    pub(crate) const IDLE: u32 = 0x0008;
    pub(crate) const RESET: u32 = 0x0010;
    pub(crate) const VLANSTRIP: u32 = 0x0040;
    pub(crate) const VLANINS: u32 = 0x0080;
    pub(crate) const RXCHECK: u32 = 0x0400;
    /// Which format the descriptors have: 0, 1 or 2.
    pub(crate) const FORMAT_SHIFT: u32 = 8;
}

/// Bits of `VLAN_CONTROL`.
pub(super) mod vlan {
    pub(crate) const ENABLE: u32 = 0x2000;
}

/// Bits of `MII_STATUS`, `MII_MASK` and `MII_CONTROL`.
pub(super) mod mii {
    pub(crate) const ERROR: u32 = 0x0001;
    pub(crate) const LINKCHANGE: u32 = 0x0008;
    pub(crate) const STATUS: u32 = 0x000f;
    pub(crate) const INUSE: u32 = 0x8000;
    pub(crate) const WRITE: u32 = 0x0400;
}

/// Bits of `ADAPTER_CONTROL`.
pub(super) mod adapter {
    pub(crate) const RUNNING: u32 = 0x0010_0000;
}

/// Bits of `SETUP_REG5`.
pub(super) const SETUP5_READY: u32 = 1 << 31;
/// Bits of `SETUP_REG6`: the timer runs.
pub(super) const SETUP6_TIMER: u32 = 0x03;
/// Bits of `TRANSMIT_POLL`: the address registers have the address in its right order.
pub(super) const MAC_ADDR_REV: u32 = 0x8000;
/// What asserts `MAC_RESET`.
pub(super) const MAC_RESET_ASSERT: u32 = 0xf3;
/// Bits of `PHY_INTERFACE`.
pub(super) const PHY_RGMII: u32 = 0x1000_0000;
/// Bits of `LINK_SPEED`.
pub(super) const LINK_SPEED_FORCE: u32 = 0x1_0000;
/// Bits of `MSI_IRQ_MASK`.
pub(super) const MSI_VECTOR_0: u32 = 1;
/// Bits of `POWER_STATE2`.
pub(super) const POWER2_PHY_RESET: u32 = 0x0004;
pub(super) const POWER2_GATE_CLOCKS: u32 = 0x0f00;
/// Bits of `MGMT_UNIT_CONTROL`.
pub(super) const MGMT_UNIT_INUSE: u32 = 0x2_0000;
/// What writes to `MGMT_UNIT_GET_VERSION` ask for, and the answer.
pub(super) const MGMT_GET_VERSION: u32 = 0x01;
pub(super) const MGMT_VERSION: u32 = 0x08;
