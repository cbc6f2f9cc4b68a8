//! The model without a driver: what no driver would do, and what all rely on.

use std::time::Duration;

use proptest::prelude::*;

use super::layout::*;
use super::*;
use crate::{InProcess, InterruptMode};

const MAC: [u8; 6] = [0x52, 0x54, 0x00, 0x12, 0x34, 0x56];

type Card = InProcess<Myri10ge>;

fn plugged(variant: Variant) -> Card {
    InProcess::new(Myri10ge::new(variant, MAC))
}

fn words(card: &Card, at: usize, words: &[u32]) {
    let mut block = [0; 64];
    for (place, word) in block.chunks_mut(4).zip(words) {
        place.copy_from_slice(&word.to_be_bytes());
    }
    for (index, piece) in block.chunks(8).enumerate() {
        card.write(at + 8 * index, piece);
    }
}

fn memory(card: &Card, len: usize) -> (*mut u8, u64) {
    let (cpu, bus) = card.dma_alloc(len, 4096).unwrap();
    (cpu.as_ptr(), bus)
}

fn bytes(at: *mut u8, len: usize) -> Vec<u8> {
    // SAFETY: the test's own memory, which only this thread and the model on it reach.
    unsafe { std::slice::from_raw_parts(at, len) }.to_vec()
}

fn hand_off(card: &Card, image: &[u8], change: impl FnOnce(&mut [u32; 7])) -> bool {
    for (index, piece) in image.chunks(8).enumerate() {
        card.write(FW_OFFSET + 8 * index, piece);
    }
    let (cpu, bus) = memory(card, 64);
    let len = image.len() as u32;
    let mut block = [0, bus as u32, u32::MAX, FW_OFFSET as u32 + 8, len - 8, 8, 0];
    change(&mut block);
    words(card, BOOT_HANDOFF, &block);
    bytes(cpu, 4) == [0xff; 4]
}

fn tell(card: &Card, number: u32, data: [u32; 3]) -> (u32, u32) {
    let (cpu, bus) = memory(card, 64);
    words(
        card,
        ETH_CMD,
        &[number, data[0], data[1], data[2], 0, bus as u32],
    );
    let answer = bytes(cpu, 8);
    (word(&answer, 0), word(&answer, 4))
}

#[test]
fn a_card_shows_its_address_and_who_runs() {
    let card = plugged(Variant::Aligned);
    let word = |at| card.read32(at).swap_bytes();
    let header = word(0x3c) as usize;
    assert_eq!(word(header + 4), u32::from_be_bytes(*b"PCIE"));
    let strings = word(header + 144) as usize;
    let mut text = [0; 256];
    card.read(strings, &mut text);
    assert!(String::from_utf8_lossy(&text).starts_with("MAC=52:54:00:12:34:56\0SN="));
}

#[test]
fn only_a_right_hand_off_of_whole_firmware_is_confirmed() {
    let image = firmware::synthetic(true, "1.4.57");
    assert!(hand_off(&plugged(Variant::Aligned), &image, |_| {}));
    for (index, value) in [(3, 0x10_0000), (4, 100), (5, 0), (6, 8), (4, u32::MAX)] {
        let card = plugged(Variant::Aligned);
        assert!(
            !hand_off(&card, &image, |block| block[index] = value),
            "{index}"
        );
        assert!(card.complaints().contains("hand-off"));
        assert!(
            !hand_off(&card, &image, |_| {}),
            "it hangs until it is switched off"
        );
    }
    let mut damaged = image.clone();
    damaged[0x800] ^= 1;
    assert!(!hand_off(&plugged(Variant::Aligned), &damaged, |_| {}));
}

#[test]
fn a_torn_block_is_no_command() {
    let card = plugged(Variant::Running);
    card.write(ETH_CMD + 56, &[0; 8]);
    assert!(card.complaints().contains("before all of it was written"));
    assert_eq!(card.device(|card| card.totals().commands), 0);
}

#[test]
fn commands_are_refused_as_they_should_be() {
    let card = plugged(Variant::Running);
    assert_eq!(tell(&card, cmd::RESET, [0; 3]), (4096, 0));
    assert_eq!(tell(&card, 63, [0; 3]).1, Failure::Unknown as u32);
    assert_eq!(
        tell(&card, cmd::ETHERNET_UP, [0; 3]).1,
        Failure::Closed as u32
    );
    assert_eq!(
        tell(&card, cmd::SET_BIG_BUFFER_SIZE, [1 << 17, 0, 0]).1,
        Failure::Range as u32
    );
    assert_eq!(
        tell(&card, cmd::SET_MTU, [9401, 0, 0]).1,
        Failure::Range as u32
    );
    assert_eq!(
        tell(&card, cmd::GET_SEND_OFFSET, [1, 0, 0]).1,
        Failure::Range as u32
    );
    for group in 0..MULTICAST_GROUPS as u32 {
        assert_eq!(
            tell(
                &card,
                cmd::JOIN_MULTICAST_GROUP,
                [0x0100_5e00, group << 16, 0]
            )
            .1,
            0
        );
    }
    let one_more = tell(&card, cmd::JOIN_MULTICAST_GROUP, [0x0100_5e01, 0, 0]);
    assert_eq!(one_more.1, Failure::Multicast as u32);
    let (_, bus) = memory(&card, 4096);
    let (answer, status) = tell(&card, cmd::DMA_TEST, [bus as u32, 0, 4096 << 16]);
    assert!(status == 0 && answer >> 16 > 0 && answer & 0xffff > 0);
    let nowhere = tell(&card, cmd::DMA_TEST, [0x10, 0, 4096]);
    assert_eq!(nowhere.1, Failure::Range as u32);
}

/// A card that is up, with interrupts by message; where its block and its queue are.
fn up() -> (Card, *mut u8, *mut u8) {
    let card = plugged(Variant::Running);
    card.set_interrupt_mode(InterruptMode::Msi);
    let (queue, queue_bus) = memory(&card, 4096);
    let (block, block_bus) = memory(&card, 64);
    let (_, buffers) = memory(&card, 1 << 20);
    for (number, data) in [
        (cmd::RESET, [0; 3]),
        (cmd::SET_INTRQ_SIZE, [4096, 0, 0]),
        (cmd::SET_INTRQ_DMA, [queue_bus as u32, 0, 0]),
        (cmd::SET_MAC_ADDRESS, [0x5254_0012, 0x3456, 0]),
        (cmd::SET_STATS_DMA_V2, [block_bus as u32, 0, 64]),
        (cmd::SET_MTU, [1518, 0, 0]),
        (cmd::SET_SMALL_BUFFER_SIZE, [126, 0, 0]),
        (cmd::SET_BIG_BUFFER_SIZE, [2048, 0, 0]),
    ] {
        assert_eq!(tell(&card, number, data).1, 0, "{number}");
    }
    for slot in 0..8_u64 {
        for (ring, size) in [(RECV_SMALL, 128), (RECV_BIG, 2048)] {
            let bus = buffers + (ring == RECV_BIG) as u64 * 65536 + slot * size;
            card.write(ring + 8 * slot as usize, &bus.to_be_bytes());
        }
    }
    assert_eq!(tell(&card, cmd::ETHERNET_UP, [0; 3]).1, 0);
    (card, block, queue)
}

fn frame(len: usize) -> Vec<u8> {
    let mut frame = MAC.to_vec();
    frame.resize(len, 7);
    frame
}

#[test]
fn a_frame_is_completed_by_its_length_and_sum_and_an_interrupt_takes_both_tokens() {
    let (card, block, queue) = up();
    assert!(card.interrupt_pending(), "of the link");
    assert_eq!(bytes(block, 64)[63], 2);
    card.receive(&frame(60));
    assert!(!card.interrupt_pending(), "the token is the driver's");
    card.write32(IRQ_ACK + 4, CLAIM.to_be());
    assert!(card.interrupt_pending());
    assert_eq!(bytes(block, 64)[63], 3);
    let slot = bytes(queue, 4);
    let sum: u32 = 23 * 0x0707;
    let sum = (sum & 0xffff) + (sum >> 16);
    assert_eq!(word(&slot, 0), sum << 16 | 60);
    // Without the other token, frames alone raise none.
    card.receive(&frame(60));
    card.write32(IRQ_ACK + 4, CLAIM.to_be());
    assert!(!card.interrupt_pending());
    card.write32(IRQ_ACK, CLAIM.to_be());
    assert!(card.interrupt_pending());
    assert_eq!(card.complaints(), "");
}

#[test]
fn frames_without_buffers_or_for_others_are_counted() {
    let (card, _, _) = up();
    for _ in 0..10 {
        card.receive(&frame(60));
        card.receive(&frame(1000));
    }
    card.receive(&[0x66; 60]);
    card.receive(&[0x33; 60]);
    card.receive(&frame(1519));
    let dropped = card.device(|card| *card.dropped());
    assert_eq!((dropped.no_small_buffer, dropped.no_big_buffer), (2, 2));
    assert_eq!(
        (dropped.unicast_filtered, dropped.multicast_filtered),
        (1, 1)
    );
    assert_eq!(dropped.link_error_or_filtered, 1);
}

#[test]
fn a_request_that_is_valid_before_its_others_are_there_wedges_the_card() {
    let (card, _, _) = up();
    let (_, bus) = memory(&card, 4096);
    let mut request = [0; 16];
    request[..8].copy_from_slice(&bus.to_be_bytes());
    request[10..12].copy_from_slice(&100_u16.to_be_bytes());
    request[13] = 2;
    request[15] = flag::FIRST | flag::NO_TSO | flag::SMALL;
    card.write(SEND, &request);
    assert!(
        card.complaints()
            .contains("before those behind it were written")
    );
    request[13] = 1;
    card.write(SEND, &request);
    assert!(card.take_sent().is_empty());
    assert_eq!(tell(&card, cmd::RESET, [0; 3]).1, 0, "a reset helps");
}

#[test]
fn addresses_at_either_end_of_memory_do_not_make_it_fail() {
    let top = [0xffff_fffc, u32::MAX];
    for (address, len) in [(0, 0_u16), (u64::MAX - 59, 60), (u64::MAX, 1)] {
        let (card, _, _) = up();
        let mut request = [0; 16];
        request[..8].copy_from_slice(&address.to_be_bytes());
        request[10..12].copy_from_slice(&len.to_be_bytes());
        request[13] = 1;
        request[15] = flag::FIRST | flag::NO_TSO | flag::SMALL;
        card.write(SEND, &request);
        assert_ne!(card.complaints(), "");
    }
    let (card, _, _) = up();
    assert_eq!(
        tell(&card, cmd::SET_STATS_DMA_V2, [0, 0, 0]).1,
        Failure::Range as u32
    );
    tell(&card, cmd::SET_STATS_DMA_V2, [top[0], top[1], 64]);
    tell(&card, cmd::SET_INTRQ_DMA, [top[0], top[1], 0]);
    card.write32(IRQ_DEASSERT, 0);
    card.write32(IRQ_ACK + 4, CLAIM.to_be());
    for _ in 0..3 {
        card.receive(&frame(60));
    }
}

#[test]
fn no_segment_is_longer_than_the_mtu() {
    for (mss, count) in [(1464_u16, 1), (1465, 0)] {
        let (card, _, _) = up();
        let (cpu, bus) = memory(&card, 4096);
        let mut packet = vec![0; 54 + usize::from(mss)];
        packet[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 60, 0, 0, 0, 0, 64, 6]);
        packet[46] = 0x50;
        // SAFETY: the test's own memory, which is longer, and only this thread reaches.
        unsafe { cpu.copy_from_nonoverlapping(packet.as_ptr(), packet.len()) };
        let request = |at: u64, len: u16, offset, flags| {
            let mut request = [0; 16];
            request[..8].copy_from_slice(&(bus + at).to_be_bytes());
            request[8..10].copy_from_slice(&mss.to_be_bytes());
            request[10..12].copy_from_slice(&len.to_be_bytes());
            request[13..].copy_from_slice(&[1, offset, flags]);
            request
        };
        let payload = flag::TSO_PLD | flag::SMALL | flag::FIRST | flag::TSO_LAST;
        card.write(SEND + 16, &request(54, mss, 0, payload));
        card.write(SEND, &request(0, 54, 34, flag::TSO_HDR | flag::FIRST));
        assert_eq!(card.take_sent().len(), count, "{}", card.complaints());
    }
}

#[test]
fn what_ipxe_asks_for_is_granted() {
    let card = plugged(Variant::Running);
    let queue = [128 | NO_STRICT_SIZE_CHECK, 0, 0];
    assert_eq!(tell(&card, cmd::SET_INTRQ_SIZE, queue).1, 0);
    assert_eq!(tell(&card, cmd::SET_BIG_BUFFER_SIZE, [1516, 0, 0]).1, 0);
    assert!(card.complaints().contains("no power of 2"));
}

#[test]
fn an_address_whose_upper_half_comes_last_shows() {
    let (card, _, _) = up();
    let slot = RECV_SMALL + 8 * 8;
    card.write(slot, &[0; 4]);
    card.write(slot + 4, &[0x10, 0, 0, 0]);
    assert_eq!(card.complaints(), "");
    card.write(slot, &[0; 4]);
    assert!(card.complaints().contains("upper half"));
}

#[test]
fn a_reboot_takes_the_configuration_with_it() {
    let (card, _, _) = up();
    card.command("fault parity").unwrap();
    assert_eq!(card.read32(0), u32::MAX);
    card.device(|card| {
        assert_eq!(card.config().command(), 0);
        let mut status = [0; 4];
        card.config().read(variant::READ32, &mut status);
        assert_ne!(status, [0; 4]);
        card.config_mut().set_command(0b110);
    });
    assert_ne!(card.read32(0x3c), u32::MAX);
}

#[test]
fn lines_that_mean_nothing_are_refused() {
    let card = plugged(Variant::Aligned);
    for line in [
        "",
        "x",
        "link",
        "link sideways",
        "fault",
        "fault rx",
        "fault rx frob",
        "flap x",
        "fault tags",
    ] {
        assert!(card.command(line).is_err(), "{line}");
    }
    for line in [
        "help",
        "statistics",
        "state",
        "complaints",
        "complaints clear",
        "link down",
        "flap 5",
    ] {
        assert!(card.command(line).is_ok(), "{line}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn nothing_that_is_written_makes_it_fail(
        running: bool,
        writes in prop::collection::vec(
            (
                prop_oneof![
                    any::<u32>().prop_map(|at| at as usize % WINDOW),
                    (0usize..0x100).prop_map(|at| ETH_CMD + at % 64),
                    (0usize..0x200).prop_map(|at| BOOT_HANDOFF + at),
                    (0usize..0x4000).prop_map(|at| SEND + at),
                    (0usize..0x1000).prop_map(|at| RECV_SMALL + at),
                    (0usize..0x1000).prop_map(|at| RECV_BIG + at),
                    (0usize..0x100).prop_map(|at| IRQ_ACK + at),
                ],
                prop::collection::vec(any::<u8>(), 1..9),
            ),
            0..60,
        ),
        len in 0usize..2000,
    ) {
        let (card, _, _) = if running { up() } else { (plugged(Variant::Aligned), std::ptr::null_mut(), std::ptr::null_mut()) };
        for (at, data) in &writes {
            card.write(*at, data);
            let mut back = data.clone();
            card.read(*at, &mut back);
            card.odd_access(*at % 7, *at as u64, &mut back);
        }
        card.receive(&frame(len.max(6)));
        card.receive(&[]);
        card.advance(Duration::from_millis(10));
    }

    #[test]
    fn no_requests_make_it_fail(
        requests in prop::collection::vec((0u64..0x2000, any::<u16>(), 0u16..3000, 0u8..20, any::<u8>(), any::<u8>()), 1..40)
    ) {
        let (card, _, _) = up();
        let (_, bus) = memory(&card, 1 << 16);
        for (slot, (at, mss, len, count, offset, flags)) in requests.iter().enumerate() {
            let mut request = [0; 16];
            request[..8].copy_from_slice(&(bus + at).to_be_bytes());
            request[8..10].copy_from_slice(&mss.to_be_bytes());
            request[10..12].copy_from_slice(&len.to_be_bytes());
            request[13..16].copy_from_slice(&[*count, *offset, *flags]);
            card.write(SEND + 16 * slot, &request);
        }
    }
}
