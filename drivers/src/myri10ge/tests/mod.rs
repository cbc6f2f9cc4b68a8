//! The driver against the model in `drivers/models`, which Linux's driver works with.

mod faults;
mod rings;
mod start;

use std::time::Duration;

use uniperf_nic_models::myri10ge::firmware::synthetic;
use uniperf_nic_models::myri10ge::{Myri10ge as Model, Variant};
use uniperf_nic_models::{InProcess, InterruptMode};

use super::{Error, LoadError, Myri10ge, NAME};
use crate::firmware::tests::archive;
use crate::hw::{DmaRegion, DmaSlice, OutOfDmaMemory, PcieLink, Platform, Registers, Window};
use crate::nic::{
    Causes, Config, Event, Interrupt, InterruptKind, Link, Nic, Offload, Receive, Register,
    RxChecksum, Transmit, TxError,
};

const MAC: [u8; 6] = [0x52, 0x54, 0x00, 0x12, 0x34, 0x56];
const UP: Link = Link::Up {
    mbps: 10_000,
    full_duplex: true,
};
const WIDE: PcieLink = PcieLink {
    max_read_request: 4096,
    lanes: 8,
};
const SMALL: Config = Config {
    rx_ring: 16,
    tx_ring: 16,
    mtu: 1500,
};
const JUMBO: Config = Config { mtu: 9000, ..SMALL };

/// A model, as the driver reaches it.
#[derive(Clone)]
struct Hardware(InProcess<Model>);

// SAFETY: the tests use each model on one thread; the driver's types ask for `Send`
// because an interrupt handler can run on any CPU.
unsafe impl Send for Hardware {}

impl Registers for Hardware {
    fn read32(&self, offset: usize) -> u32 {
        self.0.read32(offset)
    }

    fn write32(&self, offset: usize, value: u32) {
        self.0.write32(offset, value);
    }
}

impl Window for Hardware {
    fn copy_to(&self, offset: usize, words: &[u64]) {
        for (at, word) in (offset..).step_by(8).zip(words) {
            self.0.write(at, &word.to_ne_bytes());
        }
    }

    fn copy_from(&self, offset: usize, words: &mut [u64]) {
        for (at, word) in (offset..).step_by(8).zip(words) {
            let mut bytes = [0; 8];
            self.0.read(at, &mut bytes);
            *word = u64::from_ne_bytes(bytes);
        }
    }

    fn fence(&self) {}

    fn delay_us(&self, microseconds: u32) {
        self.0.advance(Duration::from_micros(microseconds.into()));
    }
}

impl Platform for Hardware {
    fn dma_alloc(&mut self, len: usize, align: usize) -> Result<DmaRegion, OutOfDmaMemory> {
        let memory = self.0.dma_alloc(len, align);
        let (cpu, bus) = memory.ok_or(OutOfDmaMemory { requested: len })?;
        // SAFETY: the memory is the test's for as long as a handle of the model lives,
        // which the driver holds; it is handed out once; and the model reaches the same
        // bytes at `bus`.
        Ok(unsafe { DmaRegion::new(cpu, bus, len) })
    }

    fn delay_us(&mut self, microseconds: u32) {
        Window::delay_us(self, microseconds);
    }
}

fn plugged(variant: Variant) -> Hardware {
    Hardware(InProcess::new(Model::new(variant, MAC)))
}

/// Both kinds of firmware, in an archive.
fn both() -> &'static [u8] {
    let (aligned, unaligned) = (synthetic(true, "1.4.57"), synthetic(false, "1.4.57"));
    archive(&[("eth.dat", &aligned), ("ethp.dat", &unaligned)]).leak()
}

fn try_start(
    hardware: &Hardware,
    firmware: Option<&'static [u8]>,
    config: Config,
) -> Result<Myri10ge<Hardware>, Error> {
    let mut platform = hardware.clone();
    Myri10ge::start(
        hardware.clone(),
        &mut platform,
        8,
        Some(WIDE),
        firmware,
        config,
    )
}

/// A card that runs, its interrupts being masked.
fn start_with(variant: Variant, config: Config) -> (Hardware, Myri10ge<Hardware>) {
    let hardware = plugged(variant);
    let nic = try_start(&hardware, Some(both()), config).unwrap();
    assert_eq!(nic.link(), UP, "{variant}");
    (hardware, nic)
}

fn start() -> (Hardware, Myri10ge<Hardware>) {
    start_with(Variant::Aligned, SMALL)
}

/// A frame to the NIC of `len` bytes that differ.
fn frame(len: usize) -> Vec<u8> {
    let mut frame = MAC.to_vec();
    frame.extend([2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    frame.extend((14..len).map(|at| (at * 7) as u8));
    frame
}

fn poll_all(nic: &mut Myri10ge<Hardware>) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    nic.halves()
        .0
        .poll(usize::MAX, |frame| frames.push(frame.bytes.to_vec()));
    frames
}

fn queue(nic: &mut Myri10ge<Hardware>, frame: &[u8], offload: Offload) -> Result<(), TxError> {
    let (_, tx) = nic.halves();
    tx.send(frame.len(), &[], offload, |buffer| {
        buffer.copy_from_slice(frame);
    })
}

fn send(nic: &mut Myri10ge<Hardware>, frame: &[u8]) {
    queue(nic, frame, Offload::None).unwrap();
    nic.halves().1.flush();
}

/// What the interrupt handler does when one is pending, on either kind.
fn handle(hardware: &Hardware, nic: &Myri10ge<Hardware>) -> Option<Causes> {
    let pending = hardware.0.interrupt_pending();
    let causes = nic.interrupt().claim();
    assert!(pending || causes.is_none(), "claimed what nobody raised");
    causes
}

/// Frames go both ways, and the model has nothing against the driver.
fn is_well(hardware: &Hardware, nic: &mut Myri10ge<Hardware>) {
    hardware.0.take_sent();
    nic.unmask();
    hardware.0.advance(Duration::from_millis(1));
    poll_all(nic);
    for len in [60, 126, 127, 200, 1514] {
        let frame = frame(len);
        send(nic, &frame);
        assert_eq!(hardware.0.take_sent(), std::slice::from_ref(&frame));
        hardware.0.receive(&frame);
        hardware.0.advance(Duration::from_millis(1));
        assert_eq!(poll_all(nic), [frame]);
        handle(hardware, nic);
        nic.unmask();
        hardware.0.advance(Duration::from_millis(1));
        handle(hardware, nic);
        nic.halves().1.reclaim();
        nic.unmask();
    }
    assert_eq!(hardware.0.complaints(), "");
}
