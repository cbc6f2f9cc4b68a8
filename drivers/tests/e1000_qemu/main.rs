//! The driver against QEMU's own e1000, without a guest: the test plays the CPU
//! through QEMU's qtest socket, and shares the guest's memory with its DMA.
//!
//! Needs `qemu-system-x86_64` 7.2 or newer.

mod machine;
mod tso;
mod verdicts;

use std::time::Duration;

use machine::{MAC, Qemu, Qtest, wait_for};
use uniperf_drivers::e1000::{E1000, ids};
use uniperf_drivers::hw::{DmaSlice, Platform};
use uniperf_drivers::nic::{
    Causes, Config, Event, Interrupt, Link, MacAddress, Nic, Offload, Receive, Transmit,
};

const UP: Link = Link::Up {
    mbps: 1000,
    full_duplex: true,
};

fn frame(number: u16, len: usize) -> Vec<u8> {
    let mut frame = MAC.to_vec();
    frame.extend([2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    frame.extend(number.to_be_bytes());
    frame.extend((frame.len()..len).map(|at| at as u8));
    frame
}

fn receive_one(nic: &mut E1000<Qtest>) -> Vec<u8> {
    let (rx, _) = nic.halves();
    wait_for(|| {
        let mut got = None;
        rx.poll(1, |frame| got = Some(frame.bytes.to_vec()));
        got
    })
}

fn exercise(device: &str, id: u16) {
    let mut qemu = Qemu::start(device);
    let registers = qemu.qtest.clone();
    qemu.qtest.pci(0);
    assert_eq!(
        qemu.qtest.ask("inl 0xcfc"),
        u32::from(id) << 16 | u32::from(ids::VENDOR)
    );

    let config = Config {
        rx_ring: 16,
        tx_ring: 64,
        mtu: 1500,
    };
    let mut nic = E1000::start(registers, &mut qemu, id, config).unwrap();
    assert_eq!(nic.identity().mac, MacAddress(MAC));
    assert_eq!(nic.link(), UP);
    // QEMU takes no frame for a second after the receiver is switched on.
    std::thread::sleep(Duration::from_millis(1100));

    sends(&mut qemu, &mut nic);
    let super_segments = tso::cuts(&mut qemu, &mut nic, device);
    receives(&mut qemu, &mut nic);
    let computes = device == "e1000e";
    let checksummed = verdicts::verdicts(&mut qemu, &mut nic, computes);
    interrupts(&mut qemu, &mut nic);
    flaps(&mut qemu, &mut nic);
    counts(&mut nic, 50 + 2 * super_segments, 53 + checksummed);
}

/// Some times round the ring, in every form a frame can have.
fn sends(qemu: &mut Qemu, nic: &mut E1000<Qtest>) {
    let region = qemu.dma_alloc(1000, 64).unwrap();
    // SAFETY: the region has 1000 bytes, and nothing else uses it.
    unsafe { region.cpu().write_bytes(0x5a, 1000) };
    let forms: [(usize, &[DmaSlice], Offload); 5] = [
        (60, &[], Offload::None),
        (1514, &[], Offload::None),
        (
            54,
            &[region.slice(0..333), region.slice(100..767)],
            Offload::None,
        ),
        (
            54,
            &[region.slice(0..1000)],
            Offload::Checksum {
                start: 34,
                offset: 50,
            },
        ),
        (
            42,
            &[region.slice(0..999)],
            Offload::Checksum {
                start: 34,
                offset: 40,
            },
        ),
    ];
    let (_, tx) = nic.halves();
    let resting = tx.free();
    for number in 0..50 {
        let (header, payload, offload) = forms[number % forms.len()];
        let len = payload.iter().fold(header, |len, piece| len + piece.len);
        let mut start = frame(number as u16, header);
        if let Offload::Checksum { offset, .. } = offload {
            make_ipv4(&mut start, len, offset.into());
        }
        tx.send(header, payload, offload, |out| out.copy_from_slice(&start))
            .unwrap();
        tx.flush();
        let mut expected = start;
        expected.resize(len, 0x5a);
        if let Offload::Checksum { start, offset } = offload {
            let sum = !sum(&expected[start.into()..]);
            let at = usize::from(offset);
            expected[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        }
        assert_eq!(qemu.take_from_wire(), expected, "frame {number}");
        assert_eq!(tx.reclaim(), 1);
    }
    assert_eq!(tx.free(), resting);
}

/// Turns a frame's first bytes into headers of IPv4 and of TCP or UDP, by where
/// the checksum goes, with the pseudo-header's sum in it. Some emulations look.
fn make_ipv4(frame: &mut [u8], len: usize, checksum: usize) {
    let protocol = if checksum == 50 { 6 } else { 17 };
    let ip_len = (len - 14) as u16;
    frame[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 0]);
    frame[16..18].copy_from_slice(&ip_len.to_be_bytes());
    frame[18..24].copy_from_slice(&[0, 1, 0, 0, 64, protocol]);
    frame[24..34].copy_from_slice(&[0, 0, 10, 77, 0, 2, 10, 77, 0, 1]);
    let ip_sum = !sum(&frame[14..34]);
    frame[24..26].copy_from_slice(&ip_sum.to_be_bytes());
    if protocol == 6 {
        frame[46] = 5 << 4;
    } else {
        frame[38..40].copy_from_slice(&(ip_len - 20).to_be_bytes());
    }
    let mut pseudo = frame[26..34].to_vec();
    pseudo.extend([0, protocol]);
    pseudo.extend((ip_len - 20).to_be_bytes());
    frame[checksum..checksum + 2].copy_from_slice(&sum(&pseudo).to_be_bytes());
}

fn sum(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    let sum: u32 = bytes.chunks(2).map(word).sum();
    let once = (sum & 0xffff) + (sum >> 16);
    ((once & 0xffff) + (once >> 16)) as u16
}

fn receives(qemu: &mut Qemu, nic: &mut E1000<Qtest>) {
    for number in 0..50 {
        let sent = frame(number, 60 + 29 * usize::from(number));
        qemu.put_on_wire(&sent);
        assert_eq!(receive_one(nic), sent);
    }
    let mut foreign = frame(0, 60);
    foreign[5] ^= 1;
    qemu.put_on_wire(&foreign);
    qemu.put_on_wire(&frame(0, 1600));
    qemu.put_on_wire(&frame(77, 60));
    assert_eq!(
        receive_one(nic),
        frame(77, 60),
        "neither a stranger's nor one too long"
    );
    assert_eq!(nic.halves().0.free_buffers(), 15);
}

fn interrupts(qemu: &mut Qemu, nic: &mut E1000<Qtest>) {
    let interrupt = nic.interrupt();
    while interrupt.claim().is_some() {}
    nic.unmask();
    qemu.put_on_wire(&frame(1, 60));
    let causes = wait_for(|| interrupt.claim());
    assert!(causes.contains(Causes::RECEIVE), "{causes:?}");
    assert_eq!(interrupt.claim(), None);
    receive_one(nic);
}

fn flaps(qemu: &mut Qemu, nic: &mut E1000<Qtest>) {
    let interrupt = nic.interrupt();
    for link in [Link::Down, UP] {
        nic.unmask();
        qemu.set_link(link == UP);
        // QEMU negotiates for half a second.
        std::thread::sleep(Duration::from_millis(600));
        let event = wait_for(|| nic.service(interrupt.claim()?));
        assert_eq!(event, Event::Link(link));
    }
    qemu.put_on_wire(&frame(2, 60));
    assert_eq!(receive_one(nic), frame(2, 60));
}

/// At least as many frames sent: a super-segment counts for its segments, or
/// for one.
fn counts(nic: &mut E1000<Qtest>, sent: usize, received: usize) {
    let statistics = nic.statistics();
    assert!(statistics.tx_frames >= sent as u64);
    assert_eq!(statistics.rx_frames, received as u64);
    assert!(statistics.rx_bytes > 50 * 60 && statistics.tx_bytes > 50 * 60);
    assert_eq!(nic.statistics(), statistics, "reading resets nothing");
}

#[test]
fn qemu_82540em() {
    exercise("e1000-82540em", 0x100e);
}

#[test]
fn qemu_82544gc() {
    exercise("e1000-82544gc", 0x100c);
}

#[test]
fn qemu_82545em() {
    exercise("e1000-82545em", 0x100f);
}

#[test]
fn qemu_82574l() {
    exercise("e1000e", 0x10d3);
}
