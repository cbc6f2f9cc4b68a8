//! Firmware images: what they are, and which of them fits.

use core::fmt;

use super::regs::MCP_HEADER_PTR;
use crate::firmware::Files;

/// The type of an Ethernet firmware.
const TYPE_ETH: u32 = u32::from_be_bytes(*b"ETH ");
const VERSION: usize = 8;
const VERSION_LEN: usize = 128;
/// What a version begins with that this driver can talk to.
const MAJOR_MINOR: &str = "1.4.";
/// How the versions for hosts that do not align completions are marked.
const UNALIGNED_MARK: &str = "-P-";
/// How those with slices are: they want another setup.
const SLICES_MARK: &str = "ndis";
/// How the files of a kind are named that no open driver loads. Their headers say the
/// same as those of the others.
const BIG_MARK: &[u8] = b"_big_";

/// What a header says.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Header {
    kind: u32,
    version: [u8; VERSION_LEN],
}

impl Header {
    /// Bytes that all headers have.
    pub const LEN: usize = 152;
    /// Where one says where the EEPROM's strings are.
    pub const STRING_SPECS: usize = 144;

    /// The one in `bytes`.
    pub fn of(bytes: &[u8; Self::LEN]) -> Self {
        let kind = u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        let mut version = [0; VERSION_LEN];
        version.copy_from_slice(&bytes[VERSION..VERSION + VERSION_LEN]);
        Self { kind, version }
    }

    /// The version's text, as `1.4.57 -- 2013/10/23 13:58:51 myri10ge firmware`.
    pub fn version(&self) -> &str {
        let end = self.version.iter().position(|byte| *byte == 0);
        let text = &self.version[..end.unwrap_or(VERSION_LEN)];
        core::str::from_utf8(text).unwrap_or("?")
    }

    /// The version's number alone, as `1.4.57`.
    pub fn number(&self) -> &str {
        self.version().split(' ').next().unwrap_or_default()
    }

    /// Whether it is an Ethernet firmware of a version that the driver knows.
    ///
    /// # Errors
    ///
    /// What it is instead.
    pub fn check(&self) -> Result<(), Unusable> {
        if self.kind != TYPE_ETH {
            return Err(Unusable::Kind(self.kind));
        }
        if !self.version().starts_with(MAJOR_MINOR) {
            return Err(Unusable::Version);
        }
        if self.version().contains(SLICES_MARK) {
            return Err(Unusable::Slices);
        }
        Ok(())
    }

    /// Whether it wants the host to align its completions to 8 bytes.
    pub fn wants_aligned(&self) -> bool {
        !self.version().contains(UNALIGNED_MARK)
    }
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x} {:?}", self.kind, self.version())
    }
}

/// Why a file is not firmware that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// It ends before its header does.
    Short,
    /// It is of another type.
    Kind(u32),
    /// It is of a version that the driver does not know.
    Version,
    /// It is for several queues.
    Slices,
    /// Its name says that it is of a kind that no open driver loads.
    Big,
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short => f.write_str("is no firmware, or is cut short"),
            Self::Kind(kind) => write!(f, "is of the type {kind:#010x} and not for Ethernet"),
            Self::Version => f.write_str("is of another version than 1.4"),
            Self::Slices => f.write_str("is for several queues (rss); take the one without"),
            Self::Big => f.write_str("is one of those named big; take the one without"),
        }
    }
}

/// A firmware image that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image {
    bytes: &'static [u8],
    /// What its header says.
    pub header: Header,
}

impl Image {
    /// The one in `bytes`.
    ///
    /// # Errors
    ///
    /// See [`Unusable`].
    pub fn of(bytes: &'static [u8]) -> Result<Self, Unusable> {
        let at = bytes.get(MCP_HEADER_PTR..MCP_HEADER_PTR + 4);
        let at = at.map_or(usize::MAX, |at| {
            at.iter().fold(0, |at, byte| at << 8 | usize::from(*byte))
        });
        let header = bytes.get(at..).and_then(<[u8]>::first_chunk);
        let header = Header::of(header.ok_or(Unusable::Short)?);
        header.check()?;
        Ok(Self { bytes, header })
    }

    /// All of it.
    pub const fn bytes(&self) -> &'static [u8] {
        self.bytes
    }
}

/// The images that were found in what was loaded beside the driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Images {
    /// For hosts that align their completions.
    pub aligned: Option<Image>,
    /// For the others; it runs everywhere.
    pub unaligned: Option<Image>,
    /// What is wrong with the first file that could not be used.
    pub unusable: Option<Unusable>,
}

impl Images {
    /// Those in `file`, which may be an archive.
    pub fn find(file: Option<&'static [u8]>) -> Self {
        let mut images = Self::default();
        for file in Files::new(file.unwrap_or_default()) {
            let is_big = file
                .name
                .windows(BIG_MARK.len())
                .any(|name| name == BIG_MARK);
            let image = match Image::of(file.contents) {
                Ok(_) if is_big => Err(Unusable::Big),
                image => image,
            };
            match image {
                Ok(image) if image.header.wants_aligned() => {
                    images.aligned.get_or_insert(image);
                }
                Ok(image) => {
                    images.unaligned.get_or_insert(image);
                }
                Err(unusable) => {
                    images.unusable.get_or_insert(unusable);
                }
            }
        }
        images
    }
}

#[cfg(test)]
mod tests {
    use uniperf_nic_models::myri10ge::firmware::synthetic;

    use super::*;
    use crate::firmware::tests::archive;

    fn leak(bytes: Vec<u8>) -> &'static [u8] {
        bytes.leak()
    }

    #[test]
    fn both_kinds_are_found_in_an_archive_and_told_apart() {
        let (aligned, unaligned) = (synthetic(true, "1.4.57"), synthetic(false, "1.4.9"));
        let file = leak(archive(&[
            ("readme", b"no firmware"),
            ("eth.dat", &aligned),
            ("ethp.dat", &unaligned),
        ]));
        let images = Images::find(Some(file));
        assert_eq!(images.aligned.unwrap().bytes(), aligned);
        let header = images.unaligned.unwrap().header;
        assert_eq!(header.number(), "1.4.9");
        assert_eq!(images.unusable, Some(Unusable::Short));
        let one = Images::find(Some(leak(unaligned)));
        assert!(one.aligned.is_none() && one.unaligned.is_some());
        assert_eq!(Images::find(None), Images::default());
    }

    #[test]
    fn of_all_the_packages_files_the_usual_two_are_taken() {
        let files: Vec<(String, Vec<u8>)> = ["eth_big", "eth", "ethp_big", "ethp"]
            .into_iter()
            .map(|name| {
                let image = synthetic(!name.starts_with("ethp"), "1.4.57");
                (format!("myri10ge_{name}_z8e.dat"), image)
            })
            .collect();
        let entries: Vec<(&str, &[u8])> = files
            .iter()
            .map(|(name, image)| (name.as_str(), image.as_slice()))
            .collect();
        let whole = leak(archive(&entries));
        let images = Images::find(Some(whole));
        let names: Vec<&[u8]> = Files::new(whole)
            .filter(|file| {
                let taken = [images.aligned, images.unaligned];
                taken
                    .iter()
                    .flatten()
                    .any(|image| core::ptr::eq(image.bytes(), file.contents))
            })
            .map(|file| file.name)
            .collect();
        assert_eq!(
            names,
            [&b"myri10ge_eth_z8e.dat"[..], b"myri10ge_ethp_z8e.dat"]
        );
        assert_eq!(images.unusable, Some(Unusable::Big));
    }

    #[test]
    fn what_cannot_be_used_is_said() {
        let mut other = synthetic(true, "1.4.57");
        other[0x104] = b'X';
        assert!(matches!(Image::of(leak(other)), Err(Unusable::Kind(_))));
        let version = |version| Image::of(leak(synthetic(true, version))).unwrap_err();
        assert_eq!(version("1.5.0"), Unusable::Version);
        assert_eq!(version("1.4.57 ndis"), Unusable::Slices);
        let cut = synthetic(true, "1.4.57")[..0x110].to_vec();
        assert_eq!(Image::of(leak(cut)), Err(Unusable::Short));
        assert_eq!(Image::of(&[0xff; 0x200]), Err(Unusable::Short));
    }
}
