//! Registers and descriptor bits, named as in Intel's *PCI/PCI-X Family of
//! Gigabit Ethernet Controllers Software Developer's Manual* (SDM), chapter 13.

use bitflags::bitflags;

/// Device control.
pub const CTRL: usize = 0x0000;
/// Device control again, for the reset of the later 82545 and 82546.
pub const CTRL_DUP: usize = 0x0004;
/// Device status.
pub const STATUS: usize = 0x0008;
/// EEPROM control: its pins.
pub const EECD: usize = 0x0010;
/// EEPROM read: one word at a time.
pub const EERD: usize = 0x0014;
/// Extended device control.
pub const CTRL_EXT: usize = 0x0018;
/// MDI control: the PHY's registers.
pub const MDIC: usize = 0x0020;
/// Flow control address, low.
pub const FCAL: usize = 0x0028;
/// Flow control address, high.
pub const FCAH: usize = 0x002c;
/// Flow control type.
pub const FCT: usize = 0x0030;
/// VLAN Ethernet type.
pub const VET: usize = 0x0038;
/// Interrupt causes; reading takes them.
pub const ICR: usize = 0x00c0;
/// Interrupt throttle, in units of 256 ns.
pub const ITR: usize = 0x00c4;
/// Interrupt causes: what is written arises (SDM 13.4.18).
pub const ICS: usize = 0x00c8;
/// Interrupt mask: what is written is let through as well.
pub const IMS: usize = 0x00d0;
/// Interrupt mask: what is written is let through no longer.
pub const IMC: usize = 0x00d8;
/// Receive control.
pub const RCTL: usize = 0x0100;
/// Flow control transmit timer.
pub const FCTTV: usize = 0x0170;
/// Transmit configuration word of the fibre's negotiation.
pub const TXCW: usize = 0x0178;
/// Receive configuration word of the fibre's negotiation.
pub const RXCW: usize = 0x0180;
/// Transmit control.
pub const TCTL: usize = 0x0400;
/// Transmit inter-packet gap.
pub const TIPG: usize = 0x0410;
/// Packet buffer allocation: KB for receive in the low half.
pub const PBA: usize = 0x1000;
/// Flow control receive threshold, low.
pub const FCRTL: usize = 0x2160;
/// Flow control receive threshold, high.
pub const FCRTH: usize = 0x2168;
/// Receive descriptor base, low.
pub const RDBAL: usize = 0x2800;
/// Receive descriptor base, high.
pub const RDBAH: usize = 0x2804;
/// Receive ring length in bytes.
pub const RDLEN: usize = 0x2808;
/// Receive descriptor head.
pub const RDH: usize = 0x2810;
/// Receive descriptor tail.
pub const RDT: usize = 0x2818;
/// Receive delay timer.
pub const RDTR: usize = 0x2820;
/// Receive absolute delay.
pub const RADV: usize = 0x282c;
/// Transmit descriptor base, low.
pub const TDBAL: usize = 0x3800;
/// Transmit descriptor base, high.
pub const TDBAH: usize = 0x3804;
/// Transmit ring length in bytes.
pub const TDLEN: usize = 0x3808;
/// Transmit descriptor head.
pub const TDH: usize = 0x3810;
/// Transmit descriptor tail.
pub const TDT: usize = 0x3818;
/// Transmit interrupt delay.
pub const TIDV: usize = 0x3820;
/// Transmit descriptor control.
pub const TXDCTL: usize = 0x3828;
/// Transmit absolute delay.
pub const TADV: usize = 0x382c;
/// Frames with a wrong CRC.
pub const CRCERRS: usize = 0x4000;
/// Frames with an alignment error (10 and 100 Mbit/s).
pub const ALGNERRC: usize = 0x4004;
/// Symbol errors.
pub const SYMERRS: usize = 0x4008;
/// Frames with RX_ER from the PHY.
pub const RXERRC: usize = 0x400c;
/// Frames missed for want of FIFO space.
pub const MPC: usize = 0x4010;
/// Frames given up after 16 collisions.
pub const ECOL: usize = 0x4018;
/// Frames with a late collision.
pub const LATECOL: usize = 0x4020;
/// Frames sent without carrier sense.
pub const TNCRS: usize = 0x4034;
/// Sequence errors.
pub const SEC: usize = 0x4038;
/// Frames whose length field does not match.
pub const RLEC: usize = 0x4040;
/// Good frames received.
pub const GPRC: usize = 0x4074;
/// Good frames sent.
pub const GPTC: usize = 0x4080;
/// Good octets received, low.
pub const GORCL: usize = 0x4088;
/// Good octets received, high.
pub const GORCH: usize = 0x408c;
/// Good octets sent, low.
pub const GOTCL: usize = 0x4090;
/// Good octets sent, high.
pub const GOTCH: usize = 0x4094;
/// Times a frame found no receive descriptor.
pub const RNBC: usize = 0x40a0;
/// Frames shorter than 64 bytes with a good CRC.
pub const RUC: usize = 0x40a4;
/// Frames shorter than 64 bytes with a bad CRC.
pub const RFC: usize = 0x40a8;
/// Frames too long with a good CRC.
pub const ROC: usize = 0x40ac;
/// Frames too long with a bad CRC.
pub const RJC: usize = 0x40b0;
/// Receive checksum control.
pub const RXCSUM: usize = 0x5000;
/// Multicast table array, 128 registers.
pub const MTA: usize = 0x5200;
/// Receive address 0, low; 16 pairs follow each other.
pub const RAL: usize = 0x5400;
/// Receive address 0, high.
pub const RAH: usize = 0x5404;
/// VLAN filter table array, 128 registers.
pub const VFTA: usize = 0x5600;
/// Management control.
pub const MANC: usize = 0x5820;

/// Registers that can be read without changing anything and tell most.
pub const QUIET: [usize; 22] = [
    CTRL, STATUS, EECD, CTRL_EXT, FCAL, FCT, FCTTV, IMS, RCTL, TCTL, TIPG, PBA, RDBAL, RDBAH,
    RDLEN, RDH, RDT, TDBAL, TDBAH, TDLEN, TDH, TDT,
];

bitflags! {
    /// CTRL (SDM 13.4.1).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Ctrl: u32 {
        /// Full duplex.
        const FD = 1 << 0;
        /// Start no more bus master requests (82574).
        const GIO_MASTER_DISABLE = 1 << 2;
        /// Link reset, of the fibre's negotiation.
        const LRST = 1 << 3;
        /// Set link up.
        const SLU = 1 << 6;
        /// Invert loss of signal.
        const ILOS = 1 << 7;
        /// Forced speed 100 Mbit/s.
        const SPEED_100 = 1 << 8;
        /// Forced speed 1000 Mbit/s.
        const SPEED_1000 = 1 << 9;
        /// Force speed.
        const FRCSPD = 1 << 11;
        /// Force duplex.
        const FRCDPX = 1 << 12;
        /// Pin 1: the fibre's signal.
        const SWDPIN1 = 1 << 19;
        /// Pin 2: MDIO on the 82543.
        const SWDPIN2 = 1 << 20;
        /// Pin 3: MDC on the 82543.
        const SWDPIN3 = 1 << 21;
        /// Pin 2 is an output.
        const SWDPIO2 = 1 << 24;
        /// Pin 3 is an output.
        const SWDPIO3 = 1 << 25;
        /// Reset.
        const RST = 1 << 26;
        /// Heed PAUSE frames.
        const RFCE = 1 << 27;
        /// Send PAUSE frames.
        const TFCE = 1 << 28;
        /// VLAN mode.
        const VME = 1 << 30;
        /// Reset the PHY.
        const PHY_RST = 1 << 31;
        const _ = !0;
    }

    /// STATUS (SDM 13.4.2).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Status: u32 {
        /// Full duplex.
        const FD = 1 << 0;
        /// Link up.
        const LU = 1 << 1;
        /// This is the second port.
        const FUNC_1 = 1 << 2;
        /// Held up by a PAUSE frame.
        const TXOFF = 1 << 4;
        /// 100 Mbit/s.
        const SPEED_100 = 1 << 6;
        /// 1000 Mbit/s.
        const SPEED_1000 = 1 << 7;
        /// On a PCI-X bus.
        const PCIX_MODE = 1 << 13;
        /// Bus master requests are under way or allowed (82574).
        const GIO_MASTER_ENABLE = 1 << 19;
        const _ = !0;
    }

    /// EECD (SDM 13.4.3).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Eecd: u32 {
        /// Clock.
        const SK = 1 << 0;
        /// Chip select.
        const CS = 1 << 1;
        /// Data to the EEPROM.
        const DI = 1 << 2;
        /// Data from the EEPROM.
        const DO = 1 << 3;
        /// Request the pins.
        const REQ = 1 << 6;
        /// The pins are granted.
        const GNT = 1 << 7;
        /// Microwire: 256 words, not 64. On the 82574: auto-read is done.
        const SIZE_OR_AUTO_RD = 1 << 9;
        const _ = !0;
    }

    /// CTRL_EXT (SDM 13.4.6).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CtrlExt: u32 {
        /// Pin 4: the PHY's reset on the 82543, active low.
        const SDP4_DATA = 1 << 4;
        /// Pin 4 is an output.
        const SDP4_DIR = 1 << 8;
        /// Read the EEPROM again.
        const EE_RST = 1 << 13;
        /// Relaxed ordering off.
        const RO_DIS = 1 << 17;
        const _ = !0;
    }

    /// MDIC (SDM 13.4.7).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Mdic: u32 {
        /// Write.
        const OP_WRITE = 1 << 26;
        /// Read.
        const OP_READ = 1 << 27;
        /// Done.
        const READY = 1 << 28;
        /// The PHY did not answer.
        const ERROR = 1 << 30;
        const _ = !0;
    }

    /// ICR, IMS and IMC (SDM 13.4.17).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Icr: u32 {
        /// Transmit descriptor written back.
        const TXDW = 1 << 0;
        /// Transmit queue empty.
        const TXQE = 1 << 1;
        /// Link status change.
        const LSC = 1 << 2;
        /// Receive sequence error: on fibre, the link is being lost.
        const RXSEQ = 1 << 3;
        /// Receive descriptors run short.
        const RXDMT0 = 1 << 4;
        /// Receiver overrun.
        const RXO = 1 << 6;
        /// Receive timer: frames wait.
        const RXT0 = 1 << 7;
        const _ = !0;
    }

    /// RCTL (SDM 13.4.22).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Rctl: u32 {
        /// Receiver on.
        const EN = 1 << 1;
        /// Long packets, above 1522 bytes.
        const LPE = 1 << 5;
        /// Accept broadcast.
        const BAM = 1 << 15;
        /// Buffer size, low bit.
        const BSIZE_LOW = 1 << 16;
        /// Buffer size, high bit.
        const BSIZE_HIGH = 1 << 17;
        /// Buffer size times 16.
        const BSEX = 1 << 25;
        /// Strip the CRC.
        const SECRC = 1 << 26;
    }

    /// TCTL (SDM 13.4.33).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Tctl: u32 {
        /// Transmitter on.
        const EN = 1 << 1;
        /// Pad short packets to 64 bytes.
        const PSP = 1 << 3;
        /// Collision threshold: 15 retries.
        const CT_15 = 15 << 4;
        const _ = !0;
    }

    /// TXCW (SDM 13.4.18).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Txcw: u32 {
        /// Full duplex.
        const FD = 1 << 5;
        /// Symmetric PAUSE.
        const PAUSE = 1 << 7;
        /// Asymmetric PAUSE.
        const ASM_DIR = 1 << 8;
        /// Negotiate.
        const ANE = 1 << 31;
    }

    /// RXCW (SDM 13.4.19).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Rxcw: u32 {
        /// The partner's symmetric PAUSE.
        const PAUSE = 1 << 7;
        /// The partner's asymmetric PAUSE.
        const ASM_DIR = 1 << 8;
        /// The partner sends configuration words: it negotiates.
        const C = 1 << 29;
        /// In synchronism.
        const SYNCH = 1 << 30;
        const _ = !0;
    }

    /// RXCSUM (SDM 13.4.66).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Rxcsum: u32 {
        /// Check IPv4 headers.
        const IPOFLD = 1 << 8;
        /// Check TCP and UDP.
        const TUOFLD = 1 << 9;
    }

    /// Status of a receive descriptor (SDM 3.2.3.1).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RxStatus: u8 {
        /// Descriptor done.
        const DD = 1 << 0;
        /// The frame's last buffer.
        const EOP = 1 << 1;
        /// Ignore the checksum indications.
        const IXSM = 1 << 2;
        /// TCP or UDP checksum looked at.
        const TCPCS = 1 << 5;
        /// IP checksum looked at.
        const IPCS = 1 << 6;
        const _ = !0;
    }

    /// Errors of a receive descriptor (SDM 3.2.3.2).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RxErrors: u8 {
        /// CRC or alignment.
        const CE = 1 << 0;
        /// Symbol.
        const SE = 1 << 1;
        /// Sequence.
        const SEQ = 1 << 2;
        /// Carrier extension.
        const CXE = 1 << 4;
        /// TCP or UDP checksum.
        const TCPE = 1 << 5;
        /// IP checksum.
        const IPE = 1 << 6;
        /// Data.
        const RXE = 1 << 7;
        const _ = !0;
    }

    /// The upper eight bytes of a transmit descriptor (SDM 3.3.3 to 3.3.7).
    ///
    /// The length lies in the low bits. In legacy and data descriptors the bits
    /// of the command are the same.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct TxBits: u64 {
        /// DTYP of a data descriptor.
        const DTYP_DATA = 1 << 20;
        /// Context: the packet is TCP.
        const TCP = 1 << 24;
        /// End of packet.
        const EOP = 1 << 24;
        /// Context: the packet is IPv4.
        const IP = 1 << 25;
        /// Insert the CRC.
        const IFCS = 1 << 25;
        /// TCP segmentation: the context is, or the data is cut by, that of
        /// super-segments.
        const TSE = 1 << 26;
        /// Report status.
        const RS = 1 << 27;
        /// A context or data descriptor, not a legacy one.
        const DEXT = 1 << 29;
        /// Descriptor done.
        const DD = 1 << 32;
        /// Insert the IP checksum as the context says.
        const POPTS_IXSM = 1 << 40;
        /// Insert the TCP or UDP checksum as the context says.
        const POPTS_TXSM = 1 << 41;
        const _ = !0;
    }
}

/// EERD: start reading.
pub const EERD_START: u32 = 1 << 0;
/// EERD and MDIC: where the data lies in EERD.
pub const EERD_DATA_SHIFT: u32 = 16;
/// MDIC: where the PHY register's number lies.
pub const MDIC_REGADD_SHIFT: u32 = 16;
/// MDIC: where the PHY's address lies.
pub const MDIC_PHYADD_SHIFT: u32 = 21;
/// RAH: the address is valid.
pub const RAH_AV: u32 = 1 << 31;
/// MANC: the firmware answers ARP.
pub const MANC_ARP_EN: u32 = 1 << 13;
/// TCTL: where the collision distance lies.
pub const TCTL_COLD_SHIFT: u32 = 12;
/// TCTL: the collision distance's bits.
pub const TCTL_COLD_MASK: u32 = 0x3ff << TCTL_COLD_SHIFT;
/// TXDCTL: write each descriptor back at once (WTHRESH 1, GRAN descriptors).
pub const TXDCTL_WRITE_BACK: u32 = 1 << 24 | 1 << 16;
/// TXDCTL: WTHRESH's bits.
pub const TXDCTL_WTHRESH_MASK: u32 = 0x3f << 16;
/// TXDCTL: must be set on the 82574.
pub const TXDCTL_COUNT_DESC: u32 = 1 << 22;
/// FCRTL: send XON when the FIFO has drained.
pub const FCRTL_XONE: u32 = 1 << 31;
/// Nanoseconds in a unit of ITR.
pub const ITR_UNIT_NS: u32 = 256;
