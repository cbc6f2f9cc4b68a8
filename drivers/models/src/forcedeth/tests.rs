//! The model on its own: what a driver would do to it, step by step, and what none would.

use std::time::Duration;

use proptest::prelude::*;

use super::registers::*;
use super::*;
use crate::in_process::InProcess;
use crate::interrupts::InterruptMode;

const MAC: [u8; 6] = [0x52, 0x54, 0, 1, 2, 3];
const MS: Duration = Duration::from_millis(1);
const RING: u32 = 8;
const BUFFER: usize = 2048;

/// A host that has started the NIC with 64-bit descriptors.
struct Started {
    nic: InProcess<Forcedeth>,
    rx: *mut u32,
    tx: *mut u32,
    rx_buffers: (*mut u8, u64),
    tx_buffers: (*mut u8, u64),
    next: usize,
}

impl Started {
    fn new(generation: Generation) -> Self {
        let nic = InProcess::new(Forcedeth::new(generation, MAC));
        let ring = || nic.dma_alloc(RING as usize * 16, 16).unwrap();
        let (rx, tx) = (ring(), ring());
        let buffers = || nic.dma_alloc(RING as usize * BUFFER, 16).unwrap();
        let (rx_buffers, tx_buffers) = (buffers(), buffers());
        for (register, value) in [
            (TRANSMIT_POLL, MAC_ADDR_REV),
            (MAC_ADDR_A, u32::from_le_bytes([0x52, 0x54, 0, 1])),
            (MAC_ADDR_B, u32::from_le_bytes([2, 3, 0, 0])),
            (ADAPTER_CONTROL, adapter::RUNNING),
            (MII_MASK, mii::LINKCHANGE),
            (RX_RING_PHYS_ADDR, rx.1 as u32),
            (TX_RING_PHYS_ADDR, tx.1 as u32),
            (RING_SIZES, (RING - 1) << 16 | (RING - 1)),
            (OFFLOAD_CONFIG, 1600),
            (PACKET_FILTER_FLAGS, 0x7f_0000 | filter::MYADDR),
            (MULTICAST_ADDR_A, 1),
            (MULTICAST_MASK_A, !0),
            (MULTICAST_MASK_B, 0xffff),
            (TX_RX_CONTROL, 0xc0_2200 | txrx::RXCHECK),
            (LINK_SPEED, LINK_SPEED_FORCE | 50),
            (IRQ_MASK, 0xdf),
            (RECEIVER_CONTROL, receiver::START),
            (TRANSMITTER_CONTROL, xmit::START),
        ] {
            nic.write32(register, value);
        }
        nic.advance(200 * MS);
        let started = Self {
            nic,
            rx: rx.0.as_ptr().cast(),
            tx: tx.0.as_ptr().cast(),
            rx_buffers: (rx_buffers.0.as_ptr(), rx_buffers.1),
            tx_buffers: (tx_buffers.0.as_ptr(), tx_buffers.1),
            next: 0,
        };
        for index in 0..RING as usize {
            started.refill(index);
        }
        started.nic.write32(IRQ_STATUS, irq::ALL);
        started.nic.interrupt_pending();
        started
    }

    /// Gives the NIC receive descriptor `index`.
    fn refill(&self, index: usize) {
        let buffer = self.rx_buffers.1 + (index * BUFFER) as u64;
        let words = [0, buffer as u32, 0, 1 << 31 | 1600];
        for (at, word) in words.into_iter().enumerate() {
            self.set(self.rx, index, at, word);
        }
    }

    fn set(&self, ring: *mut u32, index: usize, word: usize, value: u32) {
        assert!(index < RING as usize && word < 4);
        // SAFETY: the ring has so many descriptors of four words, and only this thread
        // uses them.
        unsafe { ring.add(index * 4 + word).write_volatile(value) };
    }

    fn get(&self, ring: *mut u32, index: usize, word: usize) -> u32 {
        assert!(index < RING as usize && word < 4);
        // SAFETY: as in `set`.
        unsafe { ring.add(index * 4 + word).read_volatile() }
    }

    fn received(&self, index: usize) -> (u32, Vec<u8>) {
        let flags = self.get(self.rx, index, 3);
        let len = (flags & 0x3fff) as usize;
        // SAFETY: each buffer has 2048 bytes, and the model writes no more than 1600.
        let bytes = unsafe {
            std::slice::from_raw_parts(self.rx_buffers.0.add(index * BUFFER), len.min(BUFFER))
        };
        (flags, bytes.to_vec())
    }

    /// Sends `frame` in one descriptor with `flags`.
    fn send(&mut self, frame: &[u8], flags: u32) -> usize {
        let index = self.next % RING as usize;
        self.next += 1;
        assert!(frame.len() <= BUFFER);
        // SAFETY: each buffer has 2048 bytes.
        unsafe {
            self.tx_buffers
                .0
                .add(index * BUFFER)
                .copy_from_nonoverlapping(frame.as_ptr(), frame.len());
        }
        let buffer = self.tx_buffers.1 + (index * BUFFER) as u64;
        let last = 1 << 31 | 1 << 29 | flags | (frame.len() as u32 - 1);
        for (at, word) in [0, buffer as u32, 0, last].into_iter().enumerate() {
            self.set(self.tx, index, at, word);
        }
        let control = self.nic.read32(TX_RX_CONTROL);
        self.nic.write32(TX_RX_CONTROL, control | txrx::KICK);
        index
    }

    fn totals(&self) -> Totals {
        self.nic.device(|nic| *nic.totals())
    }
}

fn frame_to(destination: [u8; 6], len: usize) -> Vec<u8> {
    let mut frame = destination.to_vec();
    frame.extend([2, 0, 0, 0, 0, 9, 0x88, 0xb5]);
    frame.extend((14..len).map(|at| at as u8));
    frame
}

#[test]
fn frames_come_in_and_go_out() {
    let mut host = Started::new(Generation::Mcp55);
    let frame = frame_to(MAC, 300);
    host.nic.receive(&frame);
    let (flags, bytes) = host.received(0);
    assert_eq!(flags & (1 << 31 | 1 << 30 | 1 << 29), 1 << 29);
    assert_eq!(bytes, frame);
    assert!(host.nic.interrupt_pending());
    let index = host.send(&frame, 0);
    assert_eq!(host.nic.take_sent(), [frame]);
    assert_eq!(host.get(host.tx, index, 3), 1 << 29 | 299);
    assert_eq!(host.nic.read32(IRQ_STATUS) & 0x1f, irq::RX | irq::TX_OK);
    assert_eq!(host.nic.complaints(), "");
}

#[test]
fn short_frames_are_padded_on_the_wire() {
    let mut host = Started::new(Generation::Mcp55);
    host.send(&frame_to([0xff; 6], 20), 0);
    assert_eq!(host.nic.take_sent()[0].len(), 60);
    host.nic.receive(&frame_to([0xff; 6], 20));
    assert_eq!(host.received(0).1.len(), 60);
}

#[test]
fn the_filter_lets_in_what_it_is_told() {
    let host = Started::new(Generation::Mcp55);
    let others = [0x52, 0x54, 0, 9, 9, 9];
    let group = [0x01, 0, 0x5e, 0, 0, 5];
    for (destination, accepted) in [(others, false), (group, false), ([0xff; 6], true)] {
        let before = host.totals().rx_frames;
        host.nic.receive(&frame_to(destination, 64));
        assert_eq!(
            host.totals().rx_frames > before,
            accepted,
            "{destination:x?}"
        );
    }
    host.nic
        .write32(MULTICAST_ADDR_A, u32::from_le_bytes([1, 0, 0x5e, 0]));
    host.nic.write32(MULTICAST_ADDR_B, 0x0500);
    host.nic.receive(&frame_to(group, 64));
    host.nic
        .write32(PACKET_FILTER_FLAGS, 0x7f_0000 | filter::PROMISC);
    host.nic.receive(&frame_to(others, 64));
    assert_eq!(host.totals().rx_frames, 3);
    assert_eq!(host.totals().rx_filtered, 2);
}

#[test]
fn a_frame_without_a_buffer_waits_for_one() {
    let host = Started::new(Generation::Mcp55);
    for number in 0..=RING {
        host.nic.receive(&frame_to(MAC, 100 + number as usize));
    }
    assert!(!host.nic.device(|nic| nic.takes_frames()));
    assert_ne!(host.nic.read32(IRQ_STATUS) & irq::RX_NOBUF, 0);
    host.refill(0);
    host.nic.advance(MS);
    assert_eq!(host.received(0).1.len(), 108);
    assert!(host.nic.device(|nic| nic.takes_frames()));
    assert_eq!(host.totals().rx_waits, 1);
}

#[test]
fn a_peer_is_told_to_pause_while_there_are_no_buffers() {
    let host = Started::new(Generation::Mcp55);
    host.nic.write32(MISC1, misc1::PAUSE_TX);
    for _ in 0..=RING {
        host.nic.receive(&frame_to(MAC, 100));
    }
    host.refill(0);
    host.nic.advance(MS);
    let sent = host.nic.take_sent();
    let quanta: Vec<_> = sent
        .iter()
        .map(|frame| frame[14 + 2..18].to_vec())
        .collect();
    assert_eq!(quanta, [[0xff, 0xff], [0, 0]]);
    assert_eq!(
        host.nic.read32(0x2e0),
        2,
        "the counter of pause frames sent"
    );
}

#[test]
fn a_peers_pause_holds_the_transmitter_for_its_time() {
    let mut host = Started::new(Generation::Mcp55);
    host.nic.write32(
        PACKET_FILTER_FLAGS,
        0x7f_0000 | filter::MYADDR | filter::PAUSE_RX,
    );
    let mut pause = vec![1, 0x80, 0xc2, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0x88, 0x08, 0, 1];
    pause.extend(2000_u16.to_be_bytes());
    host.nic.receive(&pause);
    host.send(&frame_to(MAC, 100), 0);
    assert!(host.nic.take_sent().is_empty());
    host.nic.advance(Duration::from_micros(1000));
    assert!(host.nic.take_sent().is_empty());
    host.nic.advance(Duration::from_micros(30));
    assert_eq!(host.nic.take_sent().len(), 1);
    assert_eq!(host.received(0).0 >> 31, 1, "the host does not see it");
}

#[test]
fn a_link_change_is_seen_by_its_interrupt() {
    let host = Started::new(Generation::Ck804);
    host.nic
        .device(|nic| nic.set_partner(Partner::Absent, Duration::ZERO));
    assert_ne!(host.nic.read32(IRQ_STATUS) & irq::LINK, 0);
    assert_ne!(host.nic.read32(MII_STATUS) & mii::LINKCHANGE, 0);
    host.nic.receive(&frame_to(MAC, 100));
    assert_eq!(host.totals().rx_unheard, 1);
    host.nic.command("link 100 full").unwrap();
    host.nic.advance(200 * MS);
    host.nic.receive(&frame_to(MAC, 100));
    assert_eq!(
        host.totals().rx_unheard,
        2,
        "the MAC still runs at 1000 Mbit/s"
    );
    host.nic.write32(LINK_SPEED, LINK_SPEED_FORCE | 100);
    host.nic.receive(&frame_to(MAC, 100));
    assert_eq!(host.totals().rx_frames, 1);
}

#[test]
fn a_message_goes_out_when_causes_arise_and_when_its_mask_is_toggled() {
    let host = Started::new(Generation::Mcp55);
    host.nic.set_interrupt_mode(InterruptMode::Msi);
    host.nic.write32(MSI_IRQ_MASK, 1);
    host.nic.receive(&frame_to(MAC, 100));
    assert!(host.nic.interrupt_pending());
    host.nic.receive(&frame_to(MAC, 100));
    assert!(!host.nic.interrupt_pending(), "one stood already");
    host.nic.write32(IRQ_STATUS, irq::ALL);
    host.nic.receive(&frame_to(MAC, 100));
    assert!(host.nic.interrupt_pending());
    host.nic.write32(MSI_IRQ_MASK, 0);
    host.nic.write32(MSI_IRQ_MASK, 1);
    assert!(host.nic.interrupt_pending(), "the cause still stands");
}

#[test]
fn with_msi_x_each_cause_has_its_vector_and_masks_are_toggled() {
    let host = Started::new(Generation::Mcp55);
    host.nic.set_interrupt_mode(InterruptMode::MsiX);
    host.nic.write32(MSIX_MAP0, 0x0002_2000);
    host.nic.write32(IRQ_MASK, irq::RX);
    assert_eq!(host.nic.read32(IRQ_MASK), 0xdf & !irq::RX);
    host.nic.receive(&frame_to(MAC, 100));
    assert!(!host.nic.interrupt_pending());
    host.nic.write32(IRQ_MASK, irq::RX);
    assert!(host.nic.interrupt_pending());
    host.nic.write32(MSIX_IRQ_STATUS, irq::RX);
    assert_eq!(host.nic.read32(MSIX_IRQ_STATUS) & irq::RX, 0);
}

#[test]
fn the_timer_raises_an_interrupt_each_interval() {
    let host = Started::new(Generation::Mcp55);
    host.nic.write32(POLLING_INTERVAL, 100);
    host.nic.write32(SETUP_REG6, SETUP6_TIMER);
    host.nic.write32(IRQ_MASK, irq::TIMER);
    for _ in 0..3 {
        host.nic.advance(Duration::from_micros(1020));
        assert!(!host.nic.interrupt_pending());
        host.nic.advance(Duration::from_micros(4));
        assert!(host.nic.interrupt_pending());
        host.nic.write32(IRQ_STATUS, irq::TIMER);
    }
}

#[test]
fn the_phy_is_read_and_written_through_the_mac() {
    let host = Started::new(Generation::Mcp55);
    let read = |phy: u32, register: u32| {
        host.nic.write32(MII_STATUS, 7);
        host.nic.write32(MII_CONTROL, phy << 5 | register);
        assert_ne!(host.nic.read32(MII_CONTROL) & mii::INUSE, 0);
        assert_eq!(host.nic.read32(MII_CONTROL) & mii::INUSE, 0);
        let failed = host.nic.read32(MII_STATUS) & mii::ERROR != 0;
        (!failed).then(|| host.nic.read32(MII_DATA))
    };
    assert_eq!(read(1, 2), Some(7));
    assert_eq!(read(2, 2), None);
    host.nic.write32(MII_DATA, 0x1234);
    host.nic.write32(MII_CONTROL, 1 << 5 | 4 | mii::WRITE);
    assert_eq!(read(1, 4), Some(0x1234));
    host.nic.command("fault phy").unwrap();
    assert_eq!(read(1, 2), None);
    host.nic.command("fault mii").unwrap();
    host.nic.write32(MII_CONTROL, 1 << 5 | 4);
    assert!((0..1000).all(|_| host.nic.read32(MII_CONTROL) & mii::INUSE != 0));
}

#[test]
fn counters_are_cleared_by_reading_and_agree_with_the_totals() {
    let mut host = Started::new(Generation::Mcp79);
    host.send(&frame_to([0xff; 6], 100), 0);
    host.send(&frame_to(MAC, 200), 0);
    host.nic.receive(&frame_to(MAC, 300));
    let read = |register| host.nic.read32(register);
    assert_eq!((read(0x2d8), read(0x280), read(0x1a8)), (2, 308, 1));
    assert_eq!((read(0x2c8), read(0x2dc)), (1, 304));
    assert_eq!((read(0x2d8), read(0x2dc)), (0, 0));
    assert_eq!(host.totals().tx_bytes, 300);
}

#[test]
fn frames_come_back_in_loopback_and_stay_off_the_wire() {
    let mut host = Started::new(Generation::Mcp55);
    host.nic
        .write32(PACKET_FILTER_FLAGS, 0x7f_0000 | filter::LOOPBACK);
    let frame = frame_to([0, 1, 2, 3, 4, 5], 1500);
    host.send(&frame, 0);
    assert_eq!(host.received(0).1, frame);
    assert!(host.nic.take_sent().is_empty());
}

#[test]
fn tags_are_taken_off_and_put_on() {
    let mut host = Started::new(Generation::Mcp55);
    host.nic.write32(VLAN_CONTROL, vlan::ENABLE);
    let control = 0xc0_2200 | txrx::VLANSTRIP | txrx::VLANINS;
    host.nic.write32(TX_RX_CONTROL, control);
    let plain = frame_to(MAC, 100);
    let mut tagged = plain.clone();
    tagged.splice(12..12, [0x81, 0, 0x20, 0x07]);
    host.nic.receive(&tagged);
    assert_eq!(host.received(0).1, plain);
    assert_eq!(host.get(host.rx, 0, 1), 1 << 16 | 0x2007);
    let index = host.next;
    host.set(host.tx, index, 2, 0);
    host.send(&plain, 0);
    assert_eq!(host.nic.take_sent(), std::slice::from_ref(&plain));
    let buffer = host.tx_buffers.1;
    let words = [0, buffer as u32, 1 << 18 | 0x2007, 1 << 31 | 1 << 29 | 99];
    for (at, word) in words.into_iter().enumerate() {
        host.set(host.tx, 1, at, word);
    }
    host.nic.write32(TX_RX_CONTROL, control | txrx::KICK);
    assert_eq!(host.nic.take_sent(), [tagged]);
}

#[test]
fn faults_are_shown_where_hardware_shows_them() {
    let mut host = Started::new(Generation::Mcp55);
    for (fault, bit, register) in [
        ("crc", 1 << 22, 0x2bc),
        ("overflow", 1 << 23, 0x2b8),
        ("symbol", 1 << 18, 0x2a4),
        ("length", 1 << 21, 0x2c4),
    ] {
        let index = host.totals().rx_errors as usize;
        host.nic.command(&format!("fault rx {fault}")).unwrap();
        host.nic.receive(&frame_to(MAC, 100));
        let flags = host.received(index).0;
        assert_eq!(flags & (1 << 30 | bit), 1 << 30 | bit, "{fault}");
        assert_eq!(host.nic.read32(register), 1, "{fault}");
    }
    host.nic.command("fault tx underflow").unwrap();
    let index = host.send(&frame_to(MAC, 100), 0);
    assert_eq!(host.get(host.tx, index, 3) & 3 << 30, 1 << 30);
    assert_ne!(host.nic.read32(IRQ_STATUS) & irq::TX_ERR, 0);
    host.nic.command("fault overrun 2").unwrap();
    host.nic.receive(&frame_to(MAC, 100));
    host.nic.receive(&frame_to(MAC, 100));
    assert_eq!(host.totals().rx_dropped, 2);
    assert!(host.nic.take_sent().is_empty());
}

#[test]
fn a_stuck_transmitter_goes_on_after_it_was_stopped() {
    let mut host = Started::new(Generation::Mcp55);
    host.nic.command("fault stuck").unwrap();
    host.send(&frame_to(MAC, 100), 0);
    host.nic.advance(1000 * MS);
    assert!(host.nic.take_sent().is_empty());
    host.nic.write32(TRANSMITTER_CONTROL, 0);
    host.nic.write32(TRANSMITTER_CONTROL, xmit::START);
    assert_eq!(host.nic.take_sent().len(), 1);
}

#[test]
fn without_bus_mastering_nothing_moves() {
    let mut host = Started::new(Generation::Mcp55);
    host.nic.command("fault master 5").unwrap();
    let index = host.send(&frame_to(MAC, 100), 0);
    host.nic.receive(&frame_to(MAC, 100));
    assert!(host.nic.take_sent().is_empty());
    assert_ne!(host.get(host.tx, index, 3) >> 31, 0);
    host.nic.advance(5 * MS);
    assert_eq!(host.nic.take_sent().len(), 1);
    host.nic.command("fault master").unwrap();
    host.send(&frame_to(MAC, 100), 0);
    assert!(host.nic.take_sent().is_empty());
    host.nic.device(|nic| nic.config_mut().set_command(7));
    host.send(&frame_to(MAC, 100), 0);
    assert_eq!(host.nic.take_sent().len(), 2);
    assert_eq!(host.nic.complaints(), "");
}

#[test]
fn more_frames_under_way_than_a_generation_bears_are_complained_of() {
    let mut host = Started::new(Generation::Ck804);
    host.nic.write32(RING_SIZES, 63);
    let (ring, bus) = host.nic.dma_alloc(64 * 16, 16).unwrap();
    host.nic.write32(TX_RING_PHYS_ADDR, bus as u32);
    host.tx = ring.as_ptr().cast();
    for index in 0..17 {
        let words = [0, host.tx_buffers.1 as u32, 0, 1 << 31 | 1 << 29 | 99];
        for (at, word) in words.into_iter().enumerate() {
            // SAFETY: the ring has 64 descriptors of four words.
            unsafe { host.tx.add(index * 4 + at).write_volatile(word) };
        }
    }
    let control = host.nic.read32(TX_RX_CONTROL);
    host.nic.write32(TX_RX_CONTROL, control | txrx::KICK);
    assert!(host.nic.complaints().contains("more than 16"));
    assert_eq!(host.nic.take_sent().len(), 17);
}

#[test]
fn offloads_that_a_generation_has_not_are_complained_of() {
    let mut host = Started::new(Generation::Mcp51);
    host.send(&frame_to(MAC, 100), 1 << 26);
    assert!(host.nic.complaints().contains("offload"));
    host.nic.write32(TX_RX_CONTROL, 0x2100 | txrx::KICK);
    assert!(host.nic.complaints().contains("format"));
}

#[test]
fn commands_are_explained_and_nonsense_is_refused() {
    let host = Started::new(Generation::Mcp55);
    assert!(host.nic.command("help").unwrap().contains("flap"));
    assert!(
        host.nic
            .command("statistics")
            .unwrap()
            .contains("\ninterrupts ")
    );
    assert_eq!(host.nic.command("link").unwrap(), "1000 full");
    for line in [
        "",
        "fault",
        "fault rx",
        "fault rx what",
        "fault rx crc many",
        "fault rx crc 1 2",
        "fault late",
        "fault stuck maybe",
        "link sideways",
        "flap",
        "flap -1",
        "complaints now",
    ] {
        assert!(host.nic.command(line).is_err(), "{line}");
    }
}

/// What a guest that means harm, or knows nothing, does.
#[derive(Clone, Debug)]
enum Act {
    Read(usize),
    Write(usize, u32),
    Descriptor(usize, [u32; 4]),
    Frame(Vec<u8>),
    Wait(u16),
    Odd(usize, u64, Vec<u8>),
}

fn act() -> impl Strategy<Value = Act> {
    let register = prop_oneof![
        (0..WINDOW / 4).prop_map(|word| word * 4),
        prop::sample::select(vec![
            IRQ_MASK,
            TX_RX_CONTROL,
            TRANSMITTER_CONTROL,
            RECEIVER_CONTROL,
            RING_SIZES,
            RX_RING_PHYS_ADDR,
            TX_RING_PHYS_ADDR,
            RX_RING_PHYS_ADDR_HIGH,
            SETUP_REG6,
            MII_CONTROL,
            LINK_SPEED,
        ]),
    ];
    let value = prop_oneof![
        any::<u32>(),
        (0x1000_0000..0x1001_0000_u32),
        Just(0xc0_2201),
        Just(0x2101),
        Just(1),
    ];
    prop_oneof![
        register.clone().prop_map(Act::Read),
        (register, value.clone()).prop_map(|(register, value)| Act::Write(register, value)),
        (0..4096_usize, prop::array::uniform4(value))
            .prop_map(|(index, words)| Act::Descriptor(index, words)),
        prop::collection::vec(any::<u8>(), 0..100).prop_map(Act::Frame),
        any::<u16>().prop_map(Act::Wait),
        (
            0..7_usize,
            any::<u64>(),
            prop::collection::vec(any::<u8>(), 0..9)
        )
            .prop_map(|(bar, offset, data)| Act::Odd(bar, offset, data)),
    ]
}

proptest! {
    #[test]
    fn no_guest_makes_it_fail(
        generation in prop::sample::select(&Generation::ALL[..]),
        acts in prop::collection::vec(act(), 0..200),
    ) {
        let nic = InProcess::new(Forcedeth::new(generation, MAC));
        let (memory, _) = nic.dma_alloc(4096 * 16, 16).unwrap();
        let memory: *mut u32 = memory.as_ptr().cast();
        for act in acts {
            match act {
                Act::Read(register) => drop(nic.read32(register)),
                Act::Write(register, value) => nic.write32(register, value),
                Act::Descriptor(index, words) => words.iter().enumerate().for_each(|(at, word)| {
                    // SAFETY: there are 4096 descriptors of four words.
                    unsafe { memory.add(index * 4 + at).write_volatile(*word) };
                }),
                Act::Frame(frame) => nic.receive(&frame),
                Act::Wait(time) => nic.advance(Duration::from_micros(time.into())),
                Act::Odd(bar, offset, mut data) => nic.odd_access(bar, offset, &mut data),
            }
        }
        // It still works for one that knows it.
        nic.host(|host| host.now += MS);
        let all = nic.command("statistics").unwrap();
        prop_assert!(all.contains("complaints"));
    }
}
