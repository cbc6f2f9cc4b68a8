//! What a driver asks of the machine: registers, DMA memory, short delays.

use core::ops::Range;
use core::ptr::NonNull;

/// A NIC's memory-mapped registers: 32-bit, little-endian, by byte offset.
///
/// Reads and writes are volatile, happen in program order, and a write is
/// ordered after every earlier store to DMA memory.
pub trait Registers: Clone + 'static {
    /// Reads the register at byte `offset`.
    fn read32(&self, offset: usize) -> u32;
    /// Writes the register at byte `offset`.
    fn write32(&self, offset: usize, value: u32);
}

/// A NIC's memory that the CPU writes in bursts, where the machine can: registers, and
/// rings that are in the NIC itself.
///
/// Unlike [`Registers::write32`], what is written here may be joined with its neighbours
/// and linger in the CPU until [`fence`](Self::fence). Bytes are laid down as they lie in
/// memory.
pub trait Window: Registers {
    /// Writes `words` from byte `offset` on, a multiple of 8, in ascending order.
    fn copy_to(&self, offset: usize, words: &[u64]);
    /// Reads from byte `offset` on, a multiple of 8.
    fn copy_from(&self, offset: usize, words: &mut [u64]);
    /// Whatever is written later reaches the NIC after what was written before, which is
    /// on its way.
    fn fence(&self);
    /// Busy-waits for at least `microseconds`, also while no [`Platform`] is at hand.
    fn delay_us(&self, microseconds: u32);
}

/// Waits for at least `microseconds` without a clock, when no [`Platform`] is at hand:
/// reading a register over PCI takes 120 ns at least (four clocks of 33 MHz), and mostly
/// far more. The register at `offset` must be one whose reading changes nothing.
pub(crate) fn wait_by_reading<R: Registers>(regs: &R, offset: usize, microseconds: u32) {
    for _ in 0..microseconds.saturating_mul(9) {
        regs.read32(offset);
    }
}

/// The rest of the machine, as a driver sees it while it sets a NIC up.
pub trait Platform {
    /// Takes `len` bytes of zeroed memory that the NIC can reach, physically
    /// contiguous, aligned to `align` bytes (a power of two).
    ///
    /// Memory is handed out once and not given back: a driver takes what it
    /// needs when it starts.
    fn dma_alloc(&mut self, len: usize, align: usize) -> Result<DmaRegion, OutOfDmaMemory>;

    /// Busy-waits for at least `microseconds`.
    fn delay_us(&mut self, microseconds: u32);
}

/// A NIC's link to the machine, where that is PCI Express.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PcieLink {
    /// The most that the NIC may read of memory at once, in bytes.
    pub max_read_request: u16,
    /// How wide the link is.
    pub lanes: u8,
}

/// No DMA memory is left for a request of this many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfDmaMemory {
    /// Bytes asked for.
    pub requested: usize,
}

/// A physically contiguous piece of memory that both the CPU and a NIC reach.
///
/// The region is plain memory to the CPU. Whoever holds it decides which parts
/// belong to the NIC at the moment; access to those parts must be volatile.
#[derive(Debug)]
pub struct DmaRegion {
    cpu: NonNull<u8>,
    bus: u64,
    len: usize,
}

// SAFETY: a region is memory and nothing else; it has no tie to a thread.
unsafe impl Send for DmaRegion {}

impl DmaRegion {
    /// Describes a region by its address for the CPU, its address on the bus
    /// and its length in bytes.
    ///
    /// # Safety
    ///
    /// `cpu` must be valid for reads and writes of `len` bytes for the rest of
    /// the program, nothing else may use that memory, and a NIC that accesses
    /// `bus..bus + len` must reach the same bytes.
    pub const unsafe fn new(cpu: NonNull<u8>, bus: u64, len: usize) -> Self {
        Self { cpu, bus, len }
    }

    /// Where the CPU sees the first byte.
    pub const fn cpu(&self) -> NonNull<u8> {
        self.cpu
    }

    /// Where the NIC sees the first byte.
    pub const fn bus(&self) -> u64 {
        self.bus
    }

    /// Length in bytes.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether the region has no bytes.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Names a part of the region for a NIC to read.
    ///
    /// # Panics
    ///
    /// If `range` does not lie inside the region.
    pub fn slice(&self, range: Range<usize>) -> DmaSlice {
        assert!(range.start <= range.end && range.end <= self.len);
        DmaSlice {
            bus: self.bus + range.start as u64,
            len: range.end - range.start,
        }
    }
}

/// A piece of DMA memory as the NIC sees it, to be sent by reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaSlice {
    /// Bus address of the first byte.
    pub bus: u64,
    /// Length in bytes.
    pub len: usize,
}
