//! The driver against the model in `drivers/models`, which Linux's driver works with.

mod costs;
mod faults;
mod rings;
mod start;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use uniperf_nic_models::InProcess;
use uniperf_nic_models::forcedeth::{Forcedeth as Model, Generation};

use super::ids::Features;
use super::{Error, Forcedeth, NAME};
use crate::hw::{DmaRegion, DmaSlice, OutOfDmaMemory, Platform, Registers};
use crate::nic::{
    Causes, Config, Event, Interrupt, InterruptKind, Link, Nic, Offload, Receive, Register,
    RxChecksum, Transmit, TxError,
};

const MAC: [u8; 6] = [0x52, 0x54, 0x00, 0x12, 0x34, 0x56];
/// Longer than the model takes to negotiate.
const NEGOTIATION: Duration = Duration::from_millis(150);
/// How often the loop looks after the NIC.
const LOOK: Duration = Duration::from_secs(1);

/// A model, as the driver reaches it.
#[derive(Clone)]
struct Hardware(InProcess<Model>);

// SAFETY: the tests use each model on one thread; the driver's types ask for `Send`
// because an interrupt handler can run on any CPU.
unsafe impl Send for Hardware {}

impl Registers for Hardware {
    fn read32(&self, offset: usize) -> u32 {
        // Each access takes its time, as on a bus.
        self.0.advance(Duration::from_nanos(120));
        self.0.read32(offset)
    }

    fn write32(&self, offset: usize, value: u32) {
        self.0.write32(offset, value);
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
        self.0.advance(Duration::from_micros(microseconds.into()));
    }
}

/// The same, and how often its registers are accessed.
#[derive(Clone)]
struct Counted(Hardware, Rc<Cell<usize>>);

// SAFETY: as for `Hardware`.
unsafe impl Send for Counted {}

impl Registers for Counted {
    fn read32(&self, offset: usize) -> u32 {
        self.1.set(self.1.get() + 1);
        self.0.read32(offset)
    }

    fn write32(&self, offset: usize, value: u32) {
        self.1.set(self.1.get() + 1);
        self.0.write32(offset, value);
    }
}

impl Counted {
    /// Accesses while `run` runs.
    fn during(&self, run: impl FnOnce()) -> usize {
        let before = self.1.get();
        run();
        self.1.get() - before
    }
}

const SMALL: Config = Config {
    rx_ring: 16,
    tx_ring: 16,
    mtu: 1500,
};

fn try_start(hardware: &Hardware, config: Config) -> Result<Forcedeth<Hardware>, Error> {
    let generation = hardware.0.device(|nic| nic.generation());
    let mut platform = hardware.clone();
    let (device, revision) = (generation.device_id(), generation.revision());
    Forcedeth::start(hardware.clone(), &mut platform, device, revision, config)
}

fn plugged(generation: Generation) -> Hardware {
    Hardware(InProcess::new(Model::new(generation, MAC)))
}

impl Forcedeth<Hardware> {
    fn has_msi(&self) -> bool {
        self.mac.model.features.contains(Features::MSI)
    }
}

/// A NIC that runs, with its link up.
fn start_with(generation: Generation, config: Config) -> (Hardware, Forcedeth<Hardware>) {
    let hardware = plugged(generation);
    let mut nic = try_start(&hardware, config).unwrap();
    hardware.0.advance(NEGOTIATION);
    nic.service(Causes::LINK);
    assert!(matches!(nic.link(), Link::Up { .. }), "{generation}");
    (hardware, nic)
}

fn start(generation: Generation) -> (Hardware, Forcedeth<Hardware>) {
    start_with(generation, SMALL)
}

/// A frame to the NIC of `len` bytes that differ.
fn frame(len: usize) -> Vec<u8> {
    let mut frame = MAC.to_vec();
    frame.extend([2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    frame.extend((14..len).map(|at| (at * 7) as u8));
    frame
}

fn poll_all(nic: &mut Forcedeth<Hardware>) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    nic.halves()
        .0
        .poll(usize::MAX, |frame| frames.push(frame.bytes.to_vec()));
    frames
}

fn queue(nic: &mut Forcedeth<Hardware>, frame: &[u8], offload: Offload) -> Result<(), TxError> {
    let (_, tx) = nic.halves();
    tx.send(frame.len(), &[], offload, |buffer| {
        buffer.copy_from_slice(frame);
    })
}

fn send(nic: &mut Forcedeth<Hardware>, frame: &[u8]) {
    queue(nic, frame, Offload::None).unwrap();
    nic.halves().1.flush();
}

/// Frames go both ways, and the model has nothing against the driver.
fn is_well(hardware: &Hardware, nic: &mut Forcedeth<Hardware>) {
    hardware.0.take_sent();
    nic.halves().1.reclaim();
    poll_all(nic);
    for len in [60, 200, 1514] {
        let frame = frame(len);
        send(nic, &frame);
        assert_eq!(hardware.0.take_sent(), std::slice::from_ref(&frame));
        assert_eq!(nic.halves().1.reclaim(), 1);
        hardware.0.receive(&frame);
        assert_eq!(poll_all(nic), [frame]);
    }
    assert_eq!(hardware.0.complaints(), "");
}
