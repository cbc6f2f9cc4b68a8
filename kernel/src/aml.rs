//! What the appliance needs of ACPI's byte code, found by its shape without an
//! interpreter: `\_S5`, the sleep types that turn the machine off, which is a package of
//! constants in every table seen, and the entries of PCI routing tables, where they are
//! packages of constants too.

#![cfg_attr(not(any(test, target_os = "none")), allow(dead_code))]

/// Encoding of the terms (ACPI 6.5, 20.3).
const ZERO: u8 = 0x00;
const ONE: u8 = 0x01;
const NAME: u8 = 0x08;
const BYTE_PREFIX: u8 = 0x0a;
const WORD_PREFIX: u8 = 0x0b;
const DWORD_PREFIX: u8 = 0x0c;
const PACKAGE: u8 = 0x12;

/// Finds `Name (_S5, Package () { A, B, … })` and returns the sleep types A, for the PM1a
/// control register, and B, for PM1b.
pub(crate) fn soft_off_types(aml: &[u8]) -> Option<[u8; 2]> {
    const OBJECT: &[u8] = b"_S5_";
    aml.windows(OBJECT.len())
        .enumerate()
        .filter(|(_, window)| *window == OBJECT)
        .find_map(|(at, _)| {
            let is_name = aml[..at].ends_with(&[NAME]) || aml[..at].ends_with(&[NAME, b'\\']);
            is_name.then(|| sleep_types(&aml[at + OBJECT.len()..]))?
        })
}

/// The first elements of a package, where they are constants of three bits. Where there is
/// one only, or the second is something else, it is for both.
fn sleep_types(aml: &[u8]) -> Option<[u8; 2]> {
    let aml = aml.strip_prefix(&[PACKAGE])?;
    // Bits 6 and 7 of the first length byte count the further ones.
    let further = usize::from(aml.first()? >> 6);
    let (elements, rest) = aml.get(1 + further..)?.split_first()?;
    let (first, rest) = (*elements >= 1).then(|| integer(rest))??;
    let second = (*elements >= 2).then(|| integer(rest)).flatten();
    let types = [first, second.map_or(first, |(second, _)| second)];
    types
        .iter()
        .all(|kind| *kind < 8)
        .then(|| types.map(|kind| kind as u8))
}

/// The global system interrupts that routing tables (ACPI 6.5, 6.2.13) have for pin `pin`
/// (0 for INTA#) of PCI device `device`. Several busses may have such a device.
pub(crate) fn interrupts_of(aml: &[u8], device: u8, pin: u8) -> impl Iterator<Item = u32> {
    // All functions of the device.
    let address = u32::from(device) << 16 | 0xffff;
    let starts = aml.iter().enumerate().filter(|(_, byte)| **byte == PACKAGE);
    starts.filter_map(move |(at, _)| {
        let [of, its, source, interrupt] = four_integers(&aml[at..])?;
        (of == address && its == u32::from(pin) && source == 0).then_some(interrupt)
    })
}

/// The elements of a package of four integers.
fn four_integers(aml: &[u8]) -> Option<[u32; 4]> {
    let aml = aml.strip_prefix(&[PACKAGE])?;
    let further = usize::from(aml.first()? >> 6);
    let mut rest = aml.get(1 + further..)?.strip_prefix(&[4])?;
    let mut integers = [0; 4];
    for place in &mut integers {
        (*place, rest) = integer(rest)?;
    }
    Some(integers)
}

/// An integer of up to 32 bits, and what follows it.
fn integer(aml: &[u8]) -> Option<(u32, &[u8])> {
    let (kind, rest) = aml.split_first()?;
    let len = match *kind {
        ZERO => return Some((0, rest)),
        ONE => return Some((1, rest)),
        BYTE_PREFIX => 1,
        WORD_PREFIX => 2,
        DWORD_PREFIX => 4,
        _ => return None,
    };
    let (digits, rest) = rest.split_at_checked(len)?;
    let value = digits
        .iter()
        .rev()
        .fold(0, |value, digit| value << 8 | u32::from(*digit));
    Some((value, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_shapes_that_firmware_has_are_read() {
        let types = |aml: &[u8]| soft_off_types(aml);
        assert_eq!(
            types(b"x\x08_S5_\x12\x06\x04\x00\x00\x00\x00"),
            Some([0, 0])
        );
        assert_eq!(
            types(b"\x08\\_S5_\x12\x0a\x04\x0a\x05\x0a\x06\x00\x00"),
            Some([5, 6])
        );
        assert_eq!(types(b"\x08_S5_\x12\x47\x00\x04\x01\x00"), Some([1, 0]));
        assert_eq!(types(b"\x08_S5_\x12\x04\x01\x0a\x07"), Some([7, 7]));
    }

    #[test]
    fn other_mentions_are_passed_over() {
        let types = |aml: &[u8]| soft_off_types(aml);
        assert_eq!(types(b"_S5_\x12\x06\x04\x0a\x07"), None);
        assert_eq!(types(b"\x08_S5_\x12\x06\x00"), None);
        assert_eq!(types(b"\x08_S5_\x12\x06\x02\x0a\x08\x00"), None);
        assert_eq!(types(b"\x08_S5_"), None);
        assert_eq!(types(b"\x10_S5_\x08_S5_\x12\x06\x04\x0a\x07"), Some([7, 7]));
    }

    #[test]
    fn routing_entries_of_constants_are_found() {
        // Package { Package { 0x001FFFFF, 0, 0, 0x10 }, Package { 0x0001FFFF, 1, 0, 0x11 },
        // Package { 0xFFFF, 2, LNKC, 0 }, Package { 0xFFFF, 1, 0, 0x15 } }
        let aml = b"\x12\x33\x04\
            \x12\x0b\x04\x0c\xff\xff\x1f\x00\x00\x00\x0a\x10\
            \x12\x0c\x04\x0c\xff\xff\x01\x00\x01\x00\x0a\x11\
            \x12\x0d\x04\x0b\xff\xff\x0a\x02LNKC\x00\
            \x12\x0a\x04\x0b\xff\xff\x01\x00\x0a\x15";
        let found = |device, pin| interrupts_of(aml, device, pin).collect::<Vec<_>>();
        assert_eq!(found(31, 0), [16]);
        assert_eq!(found(1, 1), [17]);
        assert_eq!(found(0, 1), [21]);
        assert_eq!(found(0, 2), []);
        assert_eq!(found(31, 1), []);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(aml in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = soft_off_types(&aml);
            let _ = interrupts_of(&aml, 1, 2).count();
            let _ = interrupts_of(&[b"\x12\x0c\x04", &aml[..]].concat(), 1, 2).count();
            let _ = soft_off_types(&[b"\x08_S5_\x12", &aml[..]].concat());
        }
    }
}
