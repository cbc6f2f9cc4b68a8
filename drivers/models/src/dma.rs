//! Guest memory, as a device on the bus reaches it.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use thiserror::Error;
use vm_memory::{
    Bytes, FileOffset, GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion,
    GuestRegionMmap,
};

/// Why a device did not reach memory.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum DmaError {
    /// The command register in its configuration space does not let it.
    #[error("DMA while bus mastering is off")]
    NotMaster,
    /// No memory is there.
    #[error("DMA of {len} bytes at {address:#x}, where no memory is")]
    Nowhere {
        /// Bus address.
        address: u64,
        /// Bytes.
        len: usize,
    },
    /// A descriptor's word lies across a boundary.
    #[error("a descriptor at {address:#x}, which is no multiple of 4")]
    Unaligned {
        /// Bus address.
        address: u64,
    },
}

/// Why memory could not be mapped.
#[derive(Debug, Error)]
#[error("cannot map guest memory at {address:#x}, {len:#x} bytes: {cause}")]
pub struct MapError {
    address: u64,
    len: u64,
    cause: String,
}

/// The memory of a guest, reached by bus address. Every access is checked against what
/// is mapped.
#[derive(Debug, Default)]
pub struct Dma {
    memory: GuestMemoryMmap,
    master: bool,
    refused: u64,
}

impl Dma {
    /// Maps `len` bytes of `file` from `offset` on at bus address `address`.
    ///
    /// # Errors
    ///
    /// The file cannot be mapped so, or other memory is there.
    pub fn map(&mut self, address: u64, len: u64, file: File, offset: u64) -> Result<(), MapError> {
        self.insert(address, len, Some(FileOffset::new(file, offset)))
    }

    /// Makes `len` bytes of memory of its own at bus address `address`.
    ///
    /// # Errors
    ///
    /// There is no such memory, or other memory is there.
    pub fn map_anonymous(&mut self, address: u64, len: u64) -> Result<(), MapError> {
        self.insert(address, len, None)
    }

    fn insert(&mut self, address: u64, len: u64, file: Option<FileOffset>) -> Result<(), MapError> {
        let error = |cause: String| MapError {
            address,
            len,
            cause,
        };
        let size = usize::try_from(len).map_err(|cause| error(cause.to_string()))?;
        let region = GuestRegionMmap::from_range(GuestAddress(address), size, file)
            .map_err(|cause| error(cause.to_string()))?;
        self.memory = self
            .memory
            .insert_region(Arc::new(region))
            .map_err(|cause| error(cause.to_string()))?;
        Ok(())
    }

    /// Forgets the memory in `len` bytes from `address` on.
    pub fn unmap(&mut self, address: u64, len: u64) {
        let end = address.saturating_add(len);
        let inside: Vec<_> = self
            .memory
            .iter()
            .map(|region| (region.start_addr(), region.len()))
            .filter(|(start, len)| start.0 >= address && start.0.saturating_add(*len) <= end)
            .collect();
        for (start, len) in inside {
            if let Ok((memory, _)) = self.memory.remove_region(start, len) {
                self.memory = memory;
            }
        }
    }

    /// Lets the device reach memory, or stops it.
    pub fn set_master(&mut self, master: bool) {
        self.master = master;
    }

    /// Whether the device may reach memory.
    pub fn is_master(&self) -> bool {
        self.master
    }

    /// Accesses that were refused.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Reads `data.len()` bytes at `address`.
    ///
    /// # Errors
    ///
    /// Not all of them are memory, or the device may not.
    pub fn read(&mut self, address: u64, data: &mut [u8]) -> Result<(), DmaError> {
        let len = data.len();
        let done = self.master && self.memory.read_slice(data, GuestAddress(address)).is_ok();
        self.check(done, address, len)
    }

    /// Writes `data` at `address`.
    ///
    /// # Errors
    ///
    /// Not all of that is memory, or the device may not. Then part of it may be written.
    pub fn write(&mut self, address: u64, data: &[u8]) -> Result<(), DmaError> {
        let done = self.master && self.memory.write_slice(data, GuestAddress(address)).is_ok();
        self.check(done, address, data.len())
    }

    /// Reads the 32-bit little-endian word at `address`, before anything read later.
    ///
    /// # Errors
    ///
    /// There is no memory, or the device may not.
    pub fn load32(&mut self, address: u64) -> Result<u32, DmaError> {
        self.check_alignment(address)?;
        let word = self
            .memory
            .load::<u32>(GuestAddress(address), Ordering::Acquire)
            .ok()
            .filter(|_| self.master);
        self.check(word.is_some(), address, 4)?;
        Ok(u32::from_le(word.unwrap_or_default()))
    }

    /// Writes the 32-bit little-endian word at `address`, after everything written
    /// earlier.
    ///
    /// # Errors
    ///
    /// There is no memory, or the device may not.
    pub fn store32(&mut self, address: u64, word: u32) -> Result<(), DmaError> {
        self.check_alignment(address)?;
        let done = self.master
            && self
                .memory
                .store(word.to_le(), GuestAddress(address), Ordering::Release)
                .is_ok();
        self.check(done, address, 4)
    }

    /// Where this process sees the bytes at `address`, if they are one piece of memory.
    pub(crate) fn host_address(&self, address: u64, len: usize) -> Option<*mut u8> {
        let slice = self.memory.get_slice(GuestAddress(address), len).ok()?;
        Some(slice.ptr_guard_mut().as_ptr())
    }

    fn check_alignment(&mut self, address: u64) -> Result<(), DmaError> {
        if address.is_multiple_of(4) {
            return Ok(());
        }
        self.refused += 1;
        Err(DmaError::Unaligned { address })
    }

    fn check(&mut self, done: bool, address: u64, len: usize) -> Result<(), DmaError> {
        if done {
            return Ok(());
        }
        self.refused += 1;
        Err(if self.master {
            DmaError::Nowhere { address, len }
        } else {
            DmaError::NotMaster
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dma() -> Dma {
        let mut dma = Dma::default();
        dma.map_anonymous(0x1000, 0x2000).unwrap();
        dma.set_master(true);
        dma
    }

    #[test]
    fn what_is_written_is_read() {
        let mut dma = dma();
        dma.write(0x1ffe, &[1, 2, 3, 4]).unwrap();
        let mut data = [0; 4];
        dma.read(0x1ffe, &mut data).unwrap();
        assert_eq!(data, [1, 2, 3, 4]);
        dma.store32(0x1000, 0x0403_0201).unwrap();
        assert_eq!(dma.load32(0x1000), Ok(0x0403_0201));
        assert_eq!(dma.refused(), 0);
    }

    #[test]
    fn nothing_outside_memory_is_reached() {
        let mut dma = dma();
        let (address, len) = (0x2ffe, 4);
        assert_eq!(
            dma.write(address, &[0; 4]),
            Err(DmaError::Nowhere { address, len })
        );
        for address in [0, 0xffc, 0x3000, u64::MAX - 3] {
            assert!(dma.load32(address).is_err(), "{address:#x}");
            assert!(dma.store32(address, 0).is_err(), "{address:#x}");
            assert!(dma.read(address, &mut [0; 8]).is_err(), "{address:#x}");
        }
        assert_eq!(
            dma.load32(0x1002),
            Err(DmaError::Unaligned { address: 0x1002 })
        );
        assert_eq!(dma.refused(), 14);
    }

    #[test]
    fn a_device_that_is_no_bus_master_reaches_nothing() {
        let mut dma = dma();
        dma.set_master(false);
        assert_eq!(dma.write(0x1000, &[1]), Err(DmaError::NotMaster));
        assert_eq!(dma.load32(0x1000), Err(DmaError::NotMaster));
        dma.set_master(true);
        assert_eq!(dma.load32(0x1000), Ok(0));
    }

    #[test]
    fn memory_comes_and_goes() {
        let mut dma = dma();
        assert!(dma.map_anonymous(0x2000, 0x1000).is_err(), "it overlaps");
        dma.map_anonymous(0x10_0000, 0x1000).unwrap();
        dma.unmap(0, u64::MAX);
        assert!(dma.load32(0x1000).is_err());
        dma.map_anonymous(0x1000, 0x1000).unwrap();
        assert_eq!(dma.load32(0x1000), Ok(0));
    }
}
