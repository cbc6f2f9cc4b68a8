//! The file that a boot loader has put beside the image: one firmware image, or an
//! archive of some.
//!
//! Boot loaders put files there as they put Linux's initial RAM file system: GRUB and
//! iPXE join several, and an archive is of cpio's format `newc`, with zeroes before the
//! next one. The crates that read it panic over bad lengths, which would end the
//! appliance.

/// The first bytes of an entry, without and with a checksum.
const MAGICS: [&[u8]; 2] = [b"070701", b"070702"];
/// Bytes of an entry's head: the magic and 13 numbers of 8 hexadecimal digits.
const HEAD: usize = 110;
const FILE_SIZE: usize = 6;
const NAME_SIZE: usize = 11;
/// The name of the entry that ends an archive.
const TRAILER: &[u8] = b"TRAILER!!!";

/// A file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File<'a> {
    /// Its name in the archive; empty for one that is in none.
    pub name: &'a [u8],
    /// What is in it.
    pub contents: &'a [u8],
}

/// The files in what was loaded. Where an archive is damaged, those before the damage.
#[derive(Clone, Debug)]
pub struct Files<'a> {
    rest: &'a [u8],
    /// Bytes before `rest`, as entries are aligned by their place.
    before: usize,
    is_archive: bool,
}

impl<'a> Files<'a> {
    /// Those in `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            before: 0,
            is_archive: is_entry(bytes),
        }
    }

    fn skip(&mut self, len: usize) -> Option<&'a [u8]> {
        let (skipped, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        self.before += len;
        Some(skipped)
    }

    /// Skips to a multiple of four bytes, or to the end.
    fn align(&mut self) {
        let len = self.before.next_multiple_of(4) - self.before;
        self.skip(len.min(self.rest.len()));
    }

    fn entry(&mut self) -> Option<File<'a>> {
        let zeroes = self.rest.iter().take_while(|byte| **byte == 0).count();
        self.skip(zeroes);
        if !is_entry(self.rest) {
            return None;
        }
        let head = self.skip(HEAD)?;
        let (len, name_len) = (number(head, FILE_SIZE)?, number(head, NAME_SIZE)?);
        let name = self.skip(name_len)?;
        self.align();
        let contents = self.skip(len)?;
        self.align();
        let name = name.strip_suffix(&[0]).unwrap_or(name);
        Some(File { name, contents })
    }
}

impl<'a> Iterator for Files<'a> {
    type Item = File<'a>;

    fn next(&mut self) -> Option<File<'a>> {
        if !self.is_archive {
            let contents = core::mem::take(&mut self.rest);
            let name: &[u8] = &[];
            return (!contents.is_empty()).then_some(File { name, contents });
        }
        loop {
            let Some(file) = self.entry() else {
                self.rest = &[];
                return None;
            };
            if file.name != TRAILER && !file.contents.is_empty() {
                return Some(file);
            }
        }
    }
}

fn is_entry(bytes: &[u8]) -> bool {
    MAGICS.iter().any(|magic| bytes.starts_with(magic))
}

/// Number `index` of an entry's head.
fn number(head: &[u8], index: usize) -> Option<usize> {
    let digits = head.get(6 + index * 8..)?.get(..8)?;
    usize::from_str_radix(core::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An archive of `files`.
    pub(crate) fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (name, contents) in files.iter().chain(&[("TRAILER!!!", &[] as &[u8])]) {
            bytes.extend(b"070701");
            for index in 0..13 {
                let number = match index {
                    FILE_SIZE => contents.len(),
                    NAME_SIZE => name.len() + 1,
                    _ => index,
                };
                bytes.extend(format!("{number:08X}").bytes());
            }
            // The numbers count from behind the magic; so does `number`.
            bytes.extend(name.bytes());
            bytes.push(0);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            bytes.extend_from_slice(contents);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes
    }

    fn all(bytes: &[u8]) -> Vec<(String, usize)> {
        Files::new(bytes)
            .map(|file| {
                let name = String::from_utf8_lossy(file.name).into_owned();
                (name, file.contents.len())
            })
            .collect()
    }

    #[test]
    fn one_file_alone_and_archives_one_after_the_other_are_read() {
        assert_eq!(all(&[]), []);
        assert_eq!(all(&[1, 2, 3]), [(String::new(), 3)]);
        let mut joined = archive(&[("a.dat", &[1; 5]), ("empty", &[])]);
        joined.resize(joined.len().next_multiple_of(512), 0);
        joined.extend(archive(&[("lib/b.dat", &[2; 8])]));
        let expected = [("a.dat".to_owned(), 5), ("lib/b.dat".to_owned(), 8)];
        assert_eq!(all(&joined), expected);
        assert_eq!(Files::new(&joined).last().unwrap().contents, [2; 8]);
    }

    proptest! {
        #[test]
        fn a_damaged_archive_gives_what_is_before_the_damage(cut in 0usize..700, at in 0usize..700, with: u8) {
            let mut bytes = archive(&[("a", &[1; 100]), ("b", &[2; 200])]);
            bytes.truncate(cut.max(6));
            let at = at % bytes.len();
            if at >= 6 {
                bytes[at] = with;
            }
            for file in Files::new(&bytes) {
                prop_assert!(file.contents.len() <= bytes.len());
            }
        }

        #[test]
        fn no_bytes_make_it_fail(mut bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            bytes.splice(0..0, *b"070701");
            prop_assert!(Files::new(&bytes).count() <= bytes.len());
        }
    }
}
