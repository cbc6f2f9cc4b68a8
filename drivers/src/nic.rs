//! The one trait that every NIC driver implements and everything above it uses.
//!
//! It speaks in batches, says what the hardware can do, and is honest about
//! failure: a frame that was not taken stays with the caller.

use core::fmt;

use bitflags::bitflags;

use crate::hw::DmaSlice;

/// A started NIC.
///
/// The receive and transmit halves are separate so that a frame can be answered
/// while the frame it answers is still read in place from its DMA buffer.
pub trait Nic {
    /// The receive half, lent.
    type Rx<'a>: Receive
    where
        Self: 'a;
    /// The transmit half, lent.
    type Tx<'a>: Transmit
    where
        Self: 'a;
    /// What the interrupt handler holds.
    type Interrupt: Interrupt;

    /// What the NIC is.
    fn identity(&self) -> &Identity;

    /// What the NIC can do. It may change with the link: look again after an
    /// [`Event`].
    fn capabilities(&self) -> &Capabilities;

    /// The link as last seen by [`service`](Nic::service).
    fn link(&self) -> Link;

    /// The two halves, to be used side by side.
    fn halves(&mut self) -> (Self::Rx<'_>, Self::Tx<'_>);

    /// A handle for the interrupt handler. It may be taken any number of times.
    fn interrupt(&self) -> Self::Interrupt;

    /// Stops the NIC from raising interrupts.
    fn mask(&mut self);

    /// Lets the NIC raise interrupts again. A cause that arose while masked
    /// raises one at once.
    fn unmask(&mut self);

    /// Raises an interrupt for no cause of its own, masked or not, so that it can be
    /// seen whether interrupts arrive. The handler claims it as any other. The machine
    /// listens to the kind that it names, until it names the other.
    fn raise_interrupt(&mut self, kind: InterruptKind);

    /// Limits interrupts to about `per_second`; 0 takes the limit away.
    /// Without [`Capabilities::interrupt_throttle`] it does nothing.
    fn throttle(&mut self, per_second: u32);

    /// Deals with what the interrupt handler reported, or, with
    /// [`Causes::LOOK`], looks for itself. Reports what changed.
    ///
    /// The loop calls it with that about once a second, and not more
    /// often: a transmitter that does not move from one such look to the next
    /// few is hung, and the NIC is reset.
    fn service(&mut self, causes: Causes) -> Option<Event>;

    /// Reads the NIC's own counters into 64-bit totals and returns them.
    fn statistics(&mut self) -> Statistics;

    /// Visits the registers of the NIC and of its PHY that somebody who looks for a fault
    /// wants to see. Reading them disturbs nothing.
    fn registers(&mut self, visit: &mut dyn FnMut(Register, u32));

    /// Stops all DMA and interrupts.
    fn stop(&mut self);
}

/// Where a register is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Register {
    /// In the NIC, at this byte offset.
    Nic(usize),
    /// In the PHY, with this number (IEEE 802.3 clause 22).
    Phy(u32),
}

/// The receive half of a NIC.
pub trait Receive {
    /// Hands up to `budget` frames to `sink`, in order, and returns how many.
    ///
    /// A frame is read in place and is gone when `sink` returns. Descriptors go
    /// back to the ring every *replenish* frames, and at the end.
    fn poll(&mut self, budget: usize, sink: impl FnMut(RxFrame<'_>)) -> usize;

    /// Whether a frame waits to be polled.
    fn pending(&self) -> bool;

    /// After how many frames descriptors go back to the ring (at least 1).
    fn set_replenish(&mut self, frames: usize);

    /// Receive buffers that the NIC may fill now.
    fn free_buffers(&self) -> usize;

    /// Frames that the NIC delivered and the driver refused, by reason.
    fn dropped(&self) -> RxDropped;
}

impl<T: Receive> Receive for &mut T {
    #[inline]
    fn poll(&mut self, budget: usize, sink: impl FnMut(RxFrame<'_>)) -> usize {
        (**self).poll(budget, sink)
    }

    #[inline]
    fn pending(&self) -> bool {
        (**self).pending()
    }

    fn set_replenish(&mut self, frames: usize) {
        (**self).set_replenish(frames);
    }

    fn free_buffers(&self) -> usize {
        (**self).free_buffers()
    }

    fn dropped(&self) -> RxDropped {
        (**self).dropped()
    }
}

/// Received frames that never reached the stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RxDropped {
    /// The NIC flagged an error in the frame (CRC, symbol, sequence, length).
    pub errors: u64,
    /// The frame spans more than one buffer, or is shorter than a header.
    pub length: u64,
}

/// The transmit half of a NIC.
pub trait Transmit {
    /// Queues one frame, or one super-segment.
    ///
    /// `fill` writes the first `header_len` bytes straight into a DMA buffer:
    /// the headers, and as much of the payload as the caller likes. The buffer
    /// holds something old before. The `payload` fragments follow by reference
    /// and must stay unchanged until the frame is reclaimed. Nothing is on the
    /// wire before [`flush`](Transmit::flush).
    ///
    /// # Errors
    ///
    /// [`TxError`] means that `fill` was not called and nothing was queued.
    fn send<R>(
        &mut self,
        header_len: usize,
        payload: &[DmaSlice],
        offload: Offload,
        fill: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R, TxError>;

    /// Tells the NIC of everything queued so far, with one doorbell write.
    fn flush(&mut self);

    /// Takes back the buffers of frames that the NIC has sent. Returns how many
    /// frames those were.
    fn reclaim(&mut self) -> usize;

    /// What [`send`](Transmit::send) would answer now, without sending.
    ///
    /// It is for a caller that must know before it builds a super-segment. It
    /// looks at lengths only; where it accepts a length, it accepts a shorter one.
    ///
    /// # Errors
    ///
    /// The error that `send` would return.
    fn accepts(
        &self,
        header_len: usize,
        payload: &[DmaSlice],
        offload: Offload,
    ) -> Result<(), TxError> {
        let _ = header_len;
        match (payload, offload) {
            ([], Offload::None) if self.free() > 0 => Ok(()),
            ([], Offload::None) => Err(TxError::RingFull),
            _ => Err(TxError::Unsupported),
        }
    }

    /// How many frames without payload fragments can be queued now.
    /// Super-segments are not frames: ask [`accepts`](Transmit::accepts).
    fn free(&self) -> usize;

    /// The same when nothing is in flight.
    fn capacity(&self) -> usize;
}

impl<T: Transmit> Transmit for &mut T {
    #[inline]
    fn send<R>(
        &mut self,
        header_len: usize,
        payload: &[DmaSlice],
        offload: Offload,
        fill: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R, TxError> {
        (**self).send(header_len, payload, offload, fill)
    }

    #[inline]
    fn flush(&mut self) {
        (**self).flush();
    }

    #[inline]
    fn reclaim(&mut self) -> usize {
        (**self).reclaim()
    }

    #[inline]
    fn accepts(
        &self,
        header_len: usize,
        payload: &[DmaSlice],
        offload: Offload,
    ) -> Result<(), TxError> {
        (**self).accepts(header_len, payload, offload)
    }

    #[inline]
    fn free(&self) -> usize {
        (**self).free()
    }

    fn capacity(&self) -> usize {
        (**self).capacity()
    }
}

/// Bytes of payload that `fill` writes behind the headers of a super-segment
/// whose other payload follows by reference.
pub const TSO_INLINE: usize = 4;

/// Why a frame was not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxError {
    /// The ring has no room now; try again after the next reclaim.
    RingFull,
    /// The frame can never be sent: longer than the buffers or the MTU allow,
    /// or it asks for an offload or a gather that the NIC does not have.
    Unsupported,
}

/// What the transmitter is to do to a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Offload {
    /// Send as it is.
    #[default]
    None,
    /// Sum from `start` to the end of the frame, and store the result at
    /// `offset`; both count bytes from the start of the frame. The field at
    /// `offset` holds the pseudo-header's sum.
    Checksum {
        /// First byte of the sum.
        start: u16,
        /// Where the 16-bit sum goes.
        offset: u16,
    },
    /// Cut a TCP super-segment into segments of at most `mss` payload bytes.
    ///
    /// The frame is an Ethernet header without a tag, an IPv4 header, or an IPv6
    /// header without extensions, a TCP header, and payload. Of the headers, the
    /// IPv4 total length or IPv6 payload length, the IPv4 header checksum and
    /// the TCP checksum may hold anything: the driver writes there what its NIC
    /// wants. The rest is as in the first segment, but FIN and PSH as in the last.
    ///
    /// What comes out is what [`gso::send`](crate::gso::send) makes of the same
    /// super-segment: lengths and checksums are right, the IPv4 identification
    /// goes up by one and the sequence number by `mss` from segment to segment,
    /// and FIN and PSH stand in the last one only. A NIC repeats CWR, URG and
    /// the like in every segment, so a super-segment that has them must be cut
    /// by `gso::send`, which sets CWR in the first only.
    ///
    /// With payload fragments, `fill` also writes the first [`TSO_INLINE`] bytes
    /// of payload or more: some NICs go wrong over a buffer of headers alone.
    ///
    /// [`TxError::Unsupported`] is the answer to what this NIC cannot cut
    /// (more than [`tso_max_bytes`](Capabilities::tso_max_bytes), an `mss` that
    /// with the shortest headers exceeds the MTU or is below about 64): cut it by
    /// `gso::send`. How long the headers are is read from them once they are
    /// written, since that is when the caller knows; together with `mss` they
    /// must not exceed the MTU.
    Tso {
        /// Whether the super-segment is IPv6.
        ipv6: bool,
        /// Payload bytes a segment.
        mss: u16,
    },
}

/// A received frame, read in place.
#[derive(Clone, Copy, Debug)]
pub struct RxFrame<'a> {
    /// The frame from its destination address to its payload's end, without CRC.
    pub bytes: &'a [u8],
    /// What the NIC says about its checksums.
    pub checksum: RxChecksum,
}

/// A NIC's verdict on a received frame's checksums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RxChecksum {
    /// The NIC did not look.
    #[default]
    Unknown,
    /// The IPv4 header is right; TCP or UDP was not looked at.
    IpGood,
    /// Both the IP header and the TCP or UDP checksum are right.
    Good,
    /// A checksum is wrong.
    Bad,
}

/// What the interrupt handler does to a NIC: see whether it is the one, and
/// keep it quiet. Nothing else happens in interrupt context.
pub trait Interrupt: Send + 'static {
    /// If this NIC has raised the interrupt: takes its causes, masks it, and
    /// returns the causes. Otherwise `None` (a shared line).
    fn claim(&self) -> Option<Causes>;
}

/// How a NIC's interrupts reach the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterruptKind {
    /// As messages.
    Message,
    /// By a line, which the NIC holds until it is told to let go.
    Line,
}

bitflags! {
    /// Why a NIC raised an interrupt.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Causes: u32 {
        /// Frames were received.
        const RECEIVE = 1 << 0;
        /// Frames were sent.
        const TRANSMIT = 1 << 1;
        /// The link changed.
        const LINK = 1 << 2;
        /// The receive ring ran short or over.
        const OVERRUN = 1 << 3;
        /// The NIC reports a fault.
        const FAULT = 1 << 4;
        /// The NIC lost its place on the bus (its addresses, bus mastering), as after a
        /// reset of its own, and the machine has given it back. No interrupt says so: it
        /// is not among those of [`LOOK`](Self::LOOK).
        const BUS = 1 << 5;
        /// Every cause that an interrupt can have: the driver looks for itself.
        const LOOK = Self::RECEIVE.bits() | Self::TRANSMIT.bits() | Self::LINK.bits()
            | Self::OVERRUN.bits() | Self::FAULT.bits();
    }
}

/// What [`Nic::service`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The link came up, went down or changed speed.
    Link(Link),
    /// The NIC had to be reset; frames in flight are lost.
    Reset,
    /// An interrupt that the NIC had raised has never arrived. It can raise the next.
    LostInterrupt,
}

/// The state of the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Link {
    /// No carrier.
    #[default]
    Down,
    /// Carrier, with what was negotiated.
    Up {
        /// Speed in Mbit/s.
        mbps: u32,
        /// Whether both ends can send at once.
        full_duplex: bool,
    },
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Link::Down => f.write_str("down"),
            Link::Up { mbps, full_duplex } => {
                let duplex = if *full_duplex { "full" } else { "half" };
                write!(f, "up, {mbps} Mbit/s {duplex} duplex")
            }
        }
    }
}

/// What the user may choose. Rings are cut to what the NIC has, which
/// [`Capabilities`] tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Descriptors in the receive ring: a multiple of 8.
    pub rx_ring: usize,
    /// Descriptors in the transmit ring: a multiple of 8. Fewer frames may fit in, as a
    /// frame can need several.
    pub tx_ring: usize,
    /// Largest IP packet in bytes. Above 1500 the NIC takes long packets.
    pub mtu: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            rx_ring: 256,
            tx_ring: 512,
            mtu: 1500,
        }
    }
}

/// What a NIC is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The driver's name, as the `nic=` boot argument takes it.
    pub driver: &'static str,
    /// The vendor's name of the model.
    pub model: &'static str,
    /// PCI vendor and device id.
    pub pci_id: (u16, u16),
    /// The station address.
    pub mac: MacAddress,
}

/// An Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MacAddress(pub [u8; 6]);

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// What a NIC can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Largest IP packet in bytes, without the Ethernet header.
    pub max_mtu: usize,
    /// Descriptors in the receive ring.
    pub rx_ring: usize,
    /// Descriptors in the transmit ring.
    pub tx_ring: usize,
    /// Gives a verdict on received checksums.
    pub rx_checksum: bool,
    /// Takes [`Offload::Checksum`].
    pub tx_checksum: bool,
    /// Takes payload fragments by reference.
    pub scatter_gather: bool,
    /// Takes [`Offload::Tso`] over IPv4.
    pub tso_v4: bool,
    /// Takes [`Offload::Tso`] over IPv6.
    pub tso_v6: bool,
    /// Longest super-segment in bytes, from its Ethernet header on; 0 without
    /// TSO. With an MSS of 536 or more, one of this length can always be sent
    /// when nothing is in flight.
    pub tso_max_bytes: usize,
    /// Can limit its interrupt rate.
    pub interrupt_throttle: bool,
}

/// The hardware's own counters since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Good frames received.
    pub rx_frames: u64,
    /// Bytes of good frames received, with header and CRC.
    pub rx_bytes: u64,
    /// Frames missed because the NIC's FIFO was full.
    pub rx_missed: u64,
    /// Times that a frame found no receive descriptor.
    pub rx_no_buffer: u64,
    /// Frames with a wrong CRC.
    pub rx_crc_errors: u64,
    /// Frames too short or too long.
    pub rx_length_errors: u64,
    /// Frames with a symbol, sequence or alignment error.
    pub rx_other_errors: u64,
    /// Good frames sent.
    pub tx_frames: u64,
    /// Bytes of good frames sent, with header and CRC.
    pub tx_bytes: u64,
    /// Frames not sent, for collisions or lost carrier.
    pub tx_errors: u64,
}
