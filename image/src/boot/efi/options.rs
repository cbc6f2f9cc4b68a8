//! Load options, by which UEFI gives a command line: text in 16-bit characters,
//! where it is text.

/// The command line in `options`, character by character.
///
/// Firmware gives boot entries of its own making binary options, which are not for
/// us: anything but printable ASCII up to a zero makes the whole line empty. The
/// UEFI shell puts the program's own name first; it is left out.
pub fn command_line(options: &[u8]) -> impl Iterator<Item = u8> + Clone + '_ {
    let line = options
        .chunks_exact(2)
        .map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
        .take_while(|unit| *unit != 0);
    let is_text = line.clone().all(is_printable);
    let line = line.take_while(move |_| is_text).map(|unit| unit as u8);
    let name = line.clone().take_while(|byte| *byte != b' ');
    line.skip(if is_program(name.clone()) {
        name.count()
    } else {
        0
    })
}

fn is_printable(unit: u16) -> bool {
    matches!(unit, 0x20..=0x7e | 0x09)
}

/// Whether a word is an application's name, and no argument that names a file.
fn is_program(word: impl Iterator<Item = u8> + Clone) -> bool {
    let mut tail = [0; 4];
    for byte in word.clone() {
        tail = [tail[1], tail[2], tail[3], byte.to_ascii_lowercase()];
    }
    tail == *b".efi" && !word.into_iter().any(|byte| byte == b'=')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn utf16(text: &str) -> Vec<u8> {
        text.encode_utf16().flat_map(u16::to_le_bytes).collect()
    }

    fn read(options: &[u8]) -> String {
        String::from_utf8(command_line(options).collect()).unwrap()
    }

    #[test]
    fn text_is_read_with_and_without_a_zero_at_its_end() {
        assert_eq!(read(&utf16("ip=dhcp rx=poll")), "ip=dhcp rx=poll");
        assert_eq!(read(&utf16("ip=dhcp\0rubbish\u{1}")), "ip=dhcp");
        assert_eq!(read(&[]), "");
        assert_eq!(read(&[b'a', 0, b'b']), "a");
    }

    #[test]
    fn the_programs_name_is_left_out() {
        assert_eq!(read(&utf16("FS0:\\uniperf.EFI ip=dhcp")), " ip=dhcp");
        assert_eq!(read(&utf16("uniperf.efi")), "");
        assert_eq!(read(&utf16("ip=dhcp x.efi")), "ip=dhcp x.efi");
        assert_eq!(read(&utf16("initrd=a.efi b")), "initrd=a.efi b");
    }

    #[test]
    fn what_is_not_text_is_no_command_line() {
        assert_eq!(read(&[0x4e, 0xac, 0x08, 0x81, 0x11, 0x9f, 0x59, 0x4d]), "");
        assert_eq!(read(&utf16("ip=d\u{e4}")), "");
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(options in proptest::collection::vec(any::<u8>(), 0..64)) {
            let line = read(&options);
            prop_assert!(line.bytes().all(|byte| is_printable(byte.into())));
        }
    }
}
