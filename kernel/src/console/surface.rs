//! From a screen's description to its memory.

use core::slice;

use x86_64::instructions::port::Port;

use super::screen::Surface;
use super::screen::pixels::Painter;
use crate::handover::{Pixels, Screen};
use crate::memory::Region;
use crate::paging;

/// What a PC keeps for the memory of its display adapter.
const VGA_MEMORY: Region = 0xa_0000..0xc_0000;
/// Index and data of the CRT controller, when the adapter is in a colour mode.
const CRT_INDEX: u16 = 0x3d4;
const CRT_DATA: u16 = 0x3d5;
const CURSOR_START: u8 = 0x0a;
const CURSOR_OFF: u8 = 1 << 5;

/// The memory of `screen`, mapped; `None` where there is none, or where its
/// description cannot be true. What is `usable` is RAM, which no screen lies in.
pub(super) fn open(
    screen: &Screen,
    usable: impl Iterator<Item = Region> + Clone,
) -> Option<Surface<'static>> {
    match screen {
        Screen::Text {
            address,
            columns,
            rows,
        } => text(*address, usize::from(*columns), usize::from(*rows)),
        Screen::Pixels(description) => pixels(description, usable),
    }
}

fn text(address: u64, columns: usize, rows: usize) -> Option<Surface<'static>> {
    let cells = columns * rows;
    let end = address.checked_add(cells as u64 * 2)?;
    let in_window = VGA_MEMORY.start <= address && end <= VGA_MEMORY.end;
    if cells == 0 || !in_window || !address.is_multiple_of(2) {
        return None;
    }
    if !has_controller() {
        return None;
    }
    hide_cursor();
    let first = address as *mut u16;
    // SAFETY: the adapter's memory, mapped one to one since boot; nobody else uses it.
    let memory = unsafe { slice::from_raw_parts_mut(first, cells) };
    Some(Surface::Text { columns, memory })
}

/// Whether there is an adapter behind the memory: its index register can be read
/// back. Without one, loaders may well describe a screen, and there may be RAM.
fn has_controller() -> bool {
    let mut index = Port::<u8>::new(CRT_INDEX);
    [CURSOR_START, CURSOR_START + 1].into_iter().all(|number| {
        // SAFETY: selects a register, and changes none.
        unsafe {
            index.write(number);
            index.read() == number
        }
    })
}

fn hide_cursor() {
    // SAFETY: the ports are the adapter's, which is in a text mode.
    unsafe {
        Port::new(CRT_INDEX).write(CURSOR_START);
        Port::new(CRT_DATA).write(CURSOR_OFF);
    }
}

fn pixels(
    description: &Pixels,
    usable: impl Iterator<Item = Region> + Clone,
) -> Option<Surface<'static>> {
    let painter = Painter::new(description)?;
    let region = description.address..description.address + painter.frame_len() as u64;
    let is_ram = |ram: Region| ram.start < region.end && region.start < ram.end;
    if usable.clone().any(is_ram) {
        return None;
    }
    let first = paging::map_write_combining(region, usable).ok()?;
    // SAFETY: the frame buffer is mapped, is no RAM, and nobody else uses it.
    let frame = unsafe { slice::from_raw_parts_mut(first.as_ptr(), painter.frame_len()) };
    Some(Surface::Pixels { painter, frame })
}
