//! ACPI's tables as they lie in memory, for what has to be known before there is a
//! heap. They are checked before they are believed; firmware is not always right.

use core::num::NonZeroU64;

/// Root system description pointer (ACPI 6.5, 5.2.5.3): checksum over the first 20
/// bytes, RSDT at 16, and from revision 2 on the XSDT at 24.
const ROOT_SIGNATURE: &[u8] = b"RSD PTR ";
const ROOT_LEN: usize = 20;
const ROOT_LEN_2: usize = 36;
const ROOT_REVISION: usize = 15;
const ROOT_RSDT: usize = 16;
const ROOT_XSDT: usize = 24;

/// Where a BIOS keeps the root pointer (5.2.5.1): the first KiB of the extended BIOS
/// data area, whose segment is at 0x40e, or the BIOS itself, at a multiple of 16.
const EXTENDED_DATA_SEGMENT: u64 = 0x40e;
const EXTENDED_DATA_LEN: u64 = 1 << 10;
const BIOS: core::ops::Range<u64> = 0xe_0000..0x10_0000;
const ROOT_ALIGN: usize = 16;

/// Every table's header (5.2.6): signature, length at 4.
const HEADER_LEN: usize = 36;
/// A longer one is a wrong length. Byte code has some hundred KiB.
const MOST_LEN: usize = 4 << 20;

/// Physical memory.
pub trait Memory {
    /// The `len` bytes at `address`, or `None` where they cannot be read.
    fn read(&self, address: u64, len: usize) -> Option<&[u8]>;
}

/// The tables.
#[derive(Clone, Copy, Debug)]
pub struct Tables<M> {
    memory: M,
    root: u64,
}

impl<M: Memory> Tables<M> {
    /// Finds the tables by the root pointer at `told`, or else by the one that a BIOS
    /// keeps in its usual places.
    pub fn find(memory: M, told: Option<NonZeroU64>) -> Option<Self> {
        let root = told
            .map(NonZeroU64::get)
            .filter(|at| is_root(&memory, *at))
            .or_else(|| search(&memory))?;
        Some(Self { memory, root })
    }

    /// Physical address of the root pointer.
    pub fn root(&self) -> Option<NonZeroU64> {
        NonZeroU64::new(self.root)
    }

    /// The first table with `signature`, whole, header included.
    pub fn table(&self, signature: &[u8; 4]) -> Option<&[u8]> {
        self.tables(signature).next()
    }

    /// All tables with `signature`.
    pub fn tables(&self, signature: &[u8; 4]) -> impl Iterator<Item = &[u8]> {
        let (list, entry_len) = self.entries().unwrap_or((&[], 4));
        list.chunks_exact(entry_len).filter_map(move |entry| {
            let mut address = [0; 8];
            address[..entry_len].copy_from_slice(entry);
            self.at(u64::from_le_bytes(address), signature)
        })
    }

    /// The list of tables, and the length of an entry.
    fn entries(&self) -> Option<(&[u8], usize)> {
        let root = self.memory.read(self.root, ROOT_LEN)?;
        let wide = (root[ROOT_REVISION] >= 2)
            .then(|| self.memory.read(self.root, ROOT_LEN_2))
            .flatten()
            .filter(|root| sum(root) == 0)
            .and_then(|root| self.list(u64_at(root, ROOT_XSDT)?, b"XSDT"));
        match wide {
            Some(list) => Some((list, 8)),
            None => Some((self.list(u64::from(u32_at(root, ROOT_RSDT)?), b"RSDT")?, 4)),
        }
    }

    fn list(&self, address: u64, signature: &[u8; 4]) -> Option<&[u8]> {
        self.at(address, signature)?.get(HEADER_LEN..)
    }

    /// The whole table at `address`, if it has that signature.
    pub fn at(&self, address: u64, signature: &[u8; 4]) -> Option<&[u8]> {
        let header = self.memory.read(address, HEADER_LEN)?;
        if !header.starts_with(signature) {
            return None;
        }
        let len = u32_at(header, 4)? as usize;
        if !(HEADER_LEN..=MOST_LEN).contains(&len) {
            return None;
        }
        let table = self.memory.read(address, len)?;
        (sum(table) == 0).then_some(table)
    }
}

fn search(memory: &impl Memory) -> Option<u64> {
    let segment = memory
        .read(EXTENDED_DATA_SEGMENT, 2)
        .map_or(0, |word| u16::from_le_bytes([word[0], word[1]]));
    let extended_data = u64::from(segment) << 4;
    let places = [extended_data..extended_data + EXTENDED_DATA_LEN, BIOS];
    places
        .into_iter()
        .filter(|place| place.start != 0)
        .flat_map(|place| place.step_by(ROOT_ALIGN))
        .find(|at| is_root(memory, *at))
}

fn is_root(memory: &impl Memory, address: u64) -> bool {
    memory
        .read(address, ROOT_LEN)
        .is_some_and(|root| root.starts_with(ROOT_SIGNATURE) && sum(root) == 0)
}

fn sum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum, byte| sum.wrapping_add(*byte))
}

/// The little-endian word at `at`.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*word))
}

/// The little-endian double word at `at`.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let word = bytes.get(at..)?.first_chunk()?;
    Some(u64::from_le_bytes(*word))
}

/// The first 4 GiB, which are mapped one to one at boot.
#[cfg(target_os = "none")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct FirstFourGib;

#[cfg(target_os = "none")]
impl Memory for FirstFourGib {
    fn read(&self, address: u64, len: usize) -> Option<&[u8]> {
        let end = address.checked_add(len as u64)?;
        if address == 0 || end > 4 << 30 {
            return None;
        }
        // SAFETY: mapped one to one, and nobody writes what firmware keeps there.
        Some(unsafe { core::slice::from_raw_parts(address as *const u8, len) })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Physical memory from address 0 on.
    pub(crate) struct Ram(Vec<u8>);

    impl Memory for Ram {
        fn read(&self, address: u64, len: usize) -> Option<&[u8]> {
            let start = usize::try_from(address).ok()?;
            self.0.get(start..start.checked_add(len)?)
        }
    }

    impl Ram {
        fn put(&mut self, at: usize, bytes: &[u8]) {
            self.0[at..at + bytes.len()].copy_from_slice(bytes);
        }

        /// A table whose checksum is right.
        fn table(&mut self, at: usize, signature: &[u8; 4], body: &[u8]) {
            let mut table = vec![0; HEADER_LEN];
            table.extend(body);
            let len = table.len() as u32;
            table[..4].copy_from_slice(signature);
            table[4..8].copy_from_slice(&len.to_le_bytes());
            table[9] = 0u8.wrapping_sub(sum(&table));
            self.put(at, &table);
        }

        fn root(&mut self, at: usize, revision: u8, rsdt: u32, xsdt: u64) {
            let mut root = [0; ROOT_LEN_2];
            root[..8].copy_from_slice(ROOT_SIGNATURE);
            root[ROOT_REVISION] = revision;
            root[ROOT_RSDT..ROOT_RSDT + 4].copy_from_slice(&rsdt.to_le_bytes());
            root[8] = 0u8.wrapping_sub(sum(&root[..ROOT_LEN]));
            root[20] = ROOT_LEN_2 as u8;
            root[ROOT_XSDT..ROOT_XSDT + 8].copy_from_slice(&xsdt.to_le_bytes());
            root[32] = 0u8.wrapping_sub(sum(&root));
            self.put(at, &root);
        }
    }

    const RSDT: usize = 0x10_1000;
    const XSDT: usize = 0x10_2000;
    const HPET: usize = 0x10_3000;
    const FADT: usize = 0x10_4000;

    fn ram() -> Ram {
        let mut ram = Ram(vec![0; 0x11_0000]);
        ram.table(HPET, b"HPET", &[1, 2, 3, 4]);
        ram.table(FADT, b"FACP", &[5; 80]);
        let words = [HPET as u32, FADT as u32].map(u32::to_le_bytes);
        ram.table(RSDT, b"RSDT", words.as_flattened());
        let words = [FADT as u64].map(u64::to_le_bytes);
        ram.table(XSDT, b"XSDT", words.as_flattened());
        ram
    }

    fn find(ram: &Ram, signature: &[u8; 4]) -> Option<usize> {
        let tables = Tables::find(ram, None)?;
        tables.table(signature).map(<[u8]>::len)
    }

    impl Memory for &Ram {
        fn read(&self, address: u64, len: usize) -> Option<&[u8]> {
            (**self).read(address, len)
        }
    }

    #[test]
    fn a_bios_has_the_root_pointer_in_either_of_its_places() {
        let mut ram = ram();
        assert_eq!(find(&ram, b"HPET"), None);
        ram.root(0xf_5a10, 0, RSDT as u32, 0);
        assert_eq!(find(&ram, b"HPET"), Some(40));
        assert_eq!(find(&ram, b"MCFG"), None);
        ram.put(0x40e, &0x9fc0u16.to_le_bytes());
        ram.root(0x9_fc20, 0, RSDT as u32, 0);
        assert_eq!(Tables::find(&ram, None).unwrap().root, 0x9_fc20);
    }

    #[test]
    fn what_the_loader_says_goes_first_if_it_is_true() {
        let mut ram = ram();
        ram.root(0xf_5a10, 0, RSDT as u32, 0);
        ram.root(0x10_5008, 0, RSDT as u32, 0);
        let root = |told| Tables::find(&ram, NonZeroU64::new(told)).unwrap().root;
        assert_eq!(root(0x10_5008), 0x10_5008);
        assert_eq!(root(0x10_5010), 0xf_5a10);
        assert_eq!(root(u64::MAX), 0xf_5a10);
    }

    #[test]
    fn the_list_with_wide_addresses_is_preferred_while_it_is_sound() {
        let mut ram = ram();
        ram.root(0xe_0000, 2, RSDT as u32, XSDT as u64);
        assert_eq!(find(&ram, b"HPET"), None);
        assert_eq!(find(&ram, b"FACP"), Some(116));
        ram.put(XSDT + 9, &[0xaa]);
        assert_eq!(find(&ram, b"HPET"), Some(40));
    }

    #[test]
    fn tables_with_wrong_checksum_or_length_are_not_believed() {
        let mut ram = ram();
        ram.root(0xe_0000, 0, RSDT as u32, 0);
        ram.put(HPET + 37, &[0xaa]);
        assert_eq!(find(&ram, b"HPET"), None);
        ram.put(FADT + 4, &u32::MAX.to_le_bytes());
        assert_eq!(find(&ram, b"FACP"), None);
        ram.put(FADT + 4, &3u32.to_le_bytes());
        assert_eq!(find(&ram, b"FACP"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(
            noise in proptest::collection::vec((0usize..0x2000, any::<u8>()), 0..64),
            told in any::<u64>(),
        ) {
            let mut ram = ram();
            ram.root(0xf_0000, 2, RSDT as u32, XSDT as u64);
            for (at, byte) in noise {
                ram.put(if at < 0x100 { 0xf_0000 + at } else { RSDT + at }, &[byte]);
            }
            if let Some(tables) = Tables::find(&ram, NonZeroU64::new(told)) {
                let _ = tables.table(b"HPET");
                let _ = tables.table(b"FACP");
            }
        }
    }
}
