//! The card itself: what its EEPROM says, its boot ROM's hand-off, its firmware's mailbox.

use core::fmt;

use super::dma::Words;
use super::image::{Header, Image};
use super::regs::*;
use crate::hw::{OutOfDmaMemory, Platform, Window};
use crate::nic::MacAddress;

/// How long a command may take. The longest is a DMA test of 5 ms, whose end the card
/// looks for every 7.8 ms (Linux); a model of a card can be that much slower.
const COMMAND_PATIENCE_US: u32 = 250_000;
/// How long firmware may take to say that it runs.
const HANDOFF_PATIENCE_US: u32 = 500_000;
/// How long the boot ROM may take for a block of its own.
const RDMA_PATIENCE_US: u32 = 250_000;
/// How often the answer is looked for.
const LOOK_US: u32 = 10;
/// What a confirmation consists of.
const CONFIRMED: u32 = u32::MAX;

/// Bytes of the EEPROM's strings.
const STRINGS_LEN: usize = 256;
/// Bytes of an image that are read back at once.
const CHUNK: usize = 256;
/// Bytes of memory for answers, and for DMA tests behind them.
const SCRATCH_LEN: usize = 2 * TEST_PAGE;
const TEST_PAGE: usize = 4096;

/// Why the card did not do what it was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It did not answer.
    Silent(Cmd),
    /// Its firmware does not know the command.
    Unknown(Cmd),
    /// Its firmware says that completions are not aligned.
    Unaligned,
    /// It answered with this status.
    Status(Cmd, u32),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silent(command) => write!(f, "its firmware does not answer {command:?}"),
            Self::Unknown(command) => write!(f, "its firmware does not know {command:?}"),
            Self::Unaligned => f.write_str("this host's completions are not aligned"),
            Self::Status(command, status) => {
                write!(f, "its firmware refuses {command:?} with status {status}")
            }
        }
    }
}

/// Why firmware does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// The SRAM has no room for so many bytes.
    TooLong(usize),
    /// The SRAM holds something else than what was written, from this byte on.
    Corrupt(usize),
    /// It never said that it runs.
    NotConfirmed,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong(len) => write!(f, "the card has no room for {len} bytes of firmware"),
            Self::Corrupt(at) => write!(
                f,
                "byte {at} of the firmware is another in the card: its memory or the bus is faulty"
            ),
            Self::NotConfirmed => f.write_str(
                "the firmware does not start: the file is damaged, or the card is faulty; \
                 power-cycle the machine",
            ),
        }
    }
}

/// The card.
pub struct Card<W> {
    window: W,
    /// The answer to a command or a block, and a page for DMA tests.
    scratch: Words,
    sram_end: usize,
}

/// Three words that go with a command.
pub type Data = [u32; 3];

impl<W: Window> Card<W> {
    /// The card behind `window`.
    ///
    /// # Errors
    ///
    /// No DMA memory is left.
    pub fn new(window: W, platform: &mut impl Platform) -> Result<Self, OutOfDmaMemory> {
        Ok(Self {
            window,
            scratch: Words::new(platform, SCRATCH_LEN, TEST_PAGE)?,
            sram_end: 0,
        })
    }

    /// Its memory window.
    pub fn window(&self) -> &W {
        &self.window
    }

    /// A word of its SRAM.
    pub fn word(&self, offset: usize) -> u32 {
        self.window.read32(offset).swap_bytes()
    }

    /// Whether it answers at all.
    pub fn is_there(&self) -> bool {
        self.word(MCP_HEADER_PTR) != u32::MAX
    }

    /// The header of what runs on it now.
    pub fn running(&self) -> Option<Header> {
        let at = self.word(MCP_HEADER_PTR) as usize;
        let limit = self.sram_end.max(FW_OFFSET);
        let is_inside = at.is_multiple_of(4) && at + Header::LEN <= limit;
        is_inside.then(|| {
            let mut bytes = [0; Header::LEN];
            for (index, word) in bytes.as_chunks_mut::<4>().0.iter_mut().enumerate() {
                *word = self.word(at + 4 * index).to_be_bytes();
            }
            Header::of(&bytes)
        })
    }

    /// The station address that the EEPROM names. Whatever runs on the card says where its
    /// strings are, and so how much memory there is.
    pub fn read_eeprom(&mut self) -> Option<MacAddress> {
        // The boot ROM keeps other bits in the pointer.
        let header = self.word(MCP_HEADER_PTR) as usize & 0xf_fffc;
        let sram_end = self.word(header + Header::STRING_SPECS) as usize;
        let is_sane =
            sram_end > FW_OFFSET && sram_end.is_multiple_of(4) && sram_end + STRINGS_LEN <= ETH_CMD;
        if !is_sane {
            return None;
        }
        self.sram_end = sram_end;
        let mut strings = [0; STRINGS_LEN];
        for (index, word) in strings.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            *word = self.word(sram_end + 4 * index).to_be_bytes();
        }
        mac_in(&strings)
    }

    /// Gives the card a firmware, and waits until it runs.
    ///
    /// # Errors
    ///
    /// See [`LoadError`].
    pub fn load(&self, image: &Image) -> Result<(), LoadError> {
        let bytes = image.bytes();
        if FW_OFFSET + bytes.len().next_multiple_of(8) >= self.sram_end {
            return Err(LoadError::TooLong(bytes.len()));
        }
        for (at, chunk) in (0..).step_by(CHUNK).zip(bytes.chunks(CHUNK)) {
            let mut words = [0; CHUNK / 8];
            let len = fill(&mut words, chunk);
            self.window.copy_to(FW_OFFSET + at, &words[..len]);
            self.window.fence();
        }
        self.compare(bytes)?;
        self.hand_off(bytes.len())
    }

    /// Reads the image back: a bus that loses writes and a memory that forgets show here.
    fn compare(&self, bytes: &[u8]) -> Result<(), LoadError> {
        for (at, chunk) in (0..).step_by(CHUNK).zip(bytes.chunks(CHUNK)) {
            let mut wanted = [0; CHUNK / 8];
            let len = fill(&mut wanted, chunk);
            let mut found = [0; CHUNK / 8];
            self.window.copy_from(FW_OFFSET + at, &mut found[..len]);
            if let Some(index) = (0..len).find(|index| wanted[*index] != found[*index]) {
                return Err(LoadError::Corrupt(at + 8 * index));
            }
        }
        Ok(())
    }

    fn hand_off(&self, len: usize) -> Result<(), LoadError> {
        // The first cards protect the first eight bytes.
        let words = [FW_OFFSET as u32 + 8, len as u32 - 8, 8, 0];
        match self.ask_rom(BOOT_HANDOFF, &words, HANDOFF_PATIENCE_US) {
            true => Ok(()),
            false => Err(LoadError::NotConfirmed),
        }
    }

    /// Has the card read the host's memory now and then, or no more: some chip sets then
    /// send again what they have lost. Whether it said that it does.
    pub fn dummy_rdma(&self, on: bool) -> bool {
        let bus = self.scratch.bus();
        let words = [(bus >> 32) as u32, bus as u32, u32::from(on)];
        self.ask_rom(BOOT_DUMMY_RDMA, &words, RDMA_PATIENCE_US)
    }

    /// Writes a block that begins with where and what to confirm, and waits for that.
    fn ask_rom(&self, block: usize, words: &[u32], patience: u32) -> bool {
        let bus = self.scratch.bus();
        let mut all = [0; 16];
        all[..3].copy_from_slice(&[(bus >> 32) as u32, bus as u32, CONFIRMED]);
        all[3..3 + words.len()].copy_from_slice(words);
        self.scratch.write(0, 0);
        self.write_block(block, &all);
        self.wait(patience, || self.scratch.read(0) == CONFIRMED)
    }

    /// Writes 64 bytes in one burst.
    fn write_block(&self, at: usize, words: &[u32; 16]) {
        let mut block = [0; 8];
        for (pair, to) in words.as_chunks::<2>().0.iter().zip(&mut block) {
            *to = u64::from(pair[0].to_be()) | u64::from(pair[1].to_be()) << 32;
        }
        self.window.fence();
        self.window.copy_to(at, &block);
        self.window.fence();
    }

    fn wait(&self, patience: u32, mut is_done: impl FnMut() -> bool) -> bool {
        for _ in 0..patience / LOOK_US {
            if is_done() {
                return true;
            }
            self.window.delay_us(LOOK_US);
        }
        is_done()
    }

    /// Gives the firmware a command, and returns what it answers.
    ///
    /// # Errors
    ///
    /// See [`Refusal`].
    pub fn command(&self, command: Cmd, data: Data) -> Result<u32, Refusal> {
        let bus = self.scratch.bus();
        let mut words = [0; 16];
        words[0] = command as u32;
        words[1..4].copy_from_slice(&data);
        words[4..6].copy_from_slice(&[(bus >> 32) as u32, bus as u32]);
        self.scratch.write(4, status::NO_RESPONSE);
        self.write_block(ETH_CMD, &words);
        let has_answered = || self.scratch.read(4) != status::NO_RESPONSE;
        if !self.wait(COMMAND_PATIENCE_US, has_answered) {
            return Err(Refusal::Silent(command));
        }
        match self.scratch.read(4) {
            status::OK => Ok(self.scratch.read(0)),
            status::UNKNOWN => Err(Refusal::Unknown(command)),
            status::UNALIGNED => Err(Refusal::Unaligned),
            status => Err(Refusal::Status(command, status)),
        }
    }

    /// The same for what older firmware need not know.
    ///
    /// # Errors
    ///
    /// All but [`Refusal::Unknown`].
    pub fn try_command(&self, command: Cmd, data: Data) -> Result<Option<u32>, Refusal> {
        match self.command(command, data) {
            Ok(answer) => Ok(Some(answer)),
            Err(Refusal::Unknown(_)) => Ok(None),
            Err(refusal) => Err(refusal),
        }
    }

    /// Has the card read `len` bytes of memory, write as many, and do both.
    ///
    /// # Errors
    ///
    /// It says that one of them fails.
    pub fn test_dma(&self, test: Cmd, len: usize) -> Result<(), Refusal> {
        let bus = self.scratch.bus() + TEST_PAGE as u64;
        let len = len as u32;
        for lengths in [len << 16, len, len << 16 | len] {
            self.command(test, [bus as u32, (bus >> 32) as u32, lengths])?;
        }
        Ok(())
    }
}

/// Fills `words` with `bytes`, and zeroes behind. How many words those are.
fn fill(words: &mut [u64; CHUNK / 8], bytes: &[u8]) -> usize {
    let len = bytes.len().div_ceil(8);
    for (word, piece) in words.iter_mut().zip(bytes.chunks(8)) {
        let mut whole = [0; 8];
        whole[..piece.len()].copy_from_slice(piece);
        *word = u64::from_ne_bytes(whole);
    }
    len
}

/// The station address in the EEPROM's strings: texts that each end with a zero, the
/// last of them empty.
fn mac_in(strings: &[u8; STRINGS_LEN]) -> Option<MacAddress> {
    let mut texts = strings.split(|byte| *byte == 0);
    let text = texts.find_map(|text| text.strip_prefix(b"MAC="))?;
    let mut mac = [0; 6];
    let mut parts = core::str::from_utf8(text).ok()?.split(':');
    for byte in &mut mac {
        *byte = u8::from_str_radix(parts.next()?, 16).ok()?;
    }
    let is_station = mac != [0; 6] && mac[0] & 1 == 0;
    (is_station && parts.next().is_none()).then_some(MacAddress(mac))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_found_among_the_strings() {
        let mac = |text: &str| {
            let mut strings = [0; STRINGS_LEN];
            strings[..text.len()].copy_from_slice(text.as_bytes());
            mac_in(&strings).map(|mac| mac.0)
        };
        let right = Some([0x00, 0x60, 0xdd, 0x47, 0x0a, 0x0b]);
        assert_eq!(mac("SN=299207\0MAC=00:60:dd:47:0a:0b\0PC=10G\0"), right);
        assert_eq!(mac("MAC=0:60:dd:47:a:b\0"), right);
        for text in [
            "",
            "SN=1\0",
            "MAC=\0",
            "MAC=01:02\0",
            "MAC=1:2:3:4:5:6\0",
            "MAC=0:0:0:0:0:0\0",
            "MAC=0:60:dd:47:a:b:c\0",
        ] {
            assert_eq!(mac(text), None, "{text}");
        }
        assert_eq!(mac_in(&[b'M'; STRINGS_LEN]), None);
    }
}
