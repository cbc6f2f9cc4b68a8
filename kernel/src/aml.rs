//! The one object of ACPI's byte code that the appliance needs: `\_S5`, the sleep
//! type that turns the machine off. It is a package of constants in every table
//! seen, so it is found by its shape, without an interpreter.

#![cfg_attr(not(any(test, target_os = "none")), allow(dead_code))]

/// Encoding of the terms (ACPI 6.5, 20.3).
const ZERO: u8 = 0x00;
const ONE: u8 = 0x01;
const NAME: u8 = 0x08;
const BYTE_PREFIX: u8 = 0x0a;
const PACKAGE: u8 = 0x12;

/// Finds `Name (_S5, Package () { TYPE, … })` and returns TYPE.
pub(crate) fn soft_off_type(aml: &[u8]) -> Option<u8> {
    const OBJECT: &[u8] = b"_S5_";
    aml.windows(OBJECT.len())
        .enumerate()
        .filter(|(_, window)| *window == OBJECT)
        .find_map(|(at, _)| {
            let is_name = aml[..at].ends_with(&[NAME]) || aml[..at].ends_with(&[NAME, b'\\']);
            is_name.then(|| package_head(&aml[at + OBJECT.len()..]))?
        })
}

/// The first element of a package, where it is a small constant.
fn package_head(aml: &[u8]) -> Option<u8> {
    let aml = aml.strip_prefix(&[PACKAGE])?;
    // Bits 6 and 7 of the first length byte count the further ones.
    let further = usize::from(aml.first()? >> 6);
    match aml.get(1 + further..)? {
        [0, ..] => None,
        [_, BYTE_PREFIX, value, ..] | [_, value @ (ZERO | ONE), ..] => Some(*value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_shapes_that_firmware_has_are_read() {
        assert_eq!(
            soft_off_type(b"x\x08_S5_\x12\x06\x04\x00\x00\x00\x00"),
            Some(0)
        );
        assert_eq!(
            soft_off_type(b"\x08\\_S5_\x12\x0a\x04\x0a\x05\x0a\x05\x00\x00"),
            Some(5)
        );
        assert_eq!(soft_off_type(b"\x08_S5_\x12\x47\x00\x04\x01\x01"), Some(1));
    }

    #[test]
    fn other_mentions_are_passed_over() {
        assert_eq!(soft_off_type(b"_S5_\x12\x06\x04\x0a\x07"), None);
        assert_eq!(soft_off_type(b"\x08_S5_\x12\x06\x00"), None);
        assert_eq!(soft_off_type(b"\x08_S5_"), None);
        assert_eq!(
            soft_off_type(b"\x10_S5_\x08_S5_\x12\x06\x04\x0a\x07"),
            Some(7)
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(aml in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = soft_off_type(&aml);
            let _ = soft_off_type(&[b"\x08_S5_\x12", &aml[..]].concat());
        }
    }
}
