//! The driver against the model.

mod link;
mod rings;
mod running;
mod start;
mod super_segment;
mod tso;

use super::model::{Faults, Hardware, MAC};
use super::regs::*;
use super::*;
use crate::nic::{Offload, Receive, RxFrame, Transmit};

const COPPER: u16 = 0x100e;
const FIBRE: u16 = 0x1011;

fn start_with(hardware: &Hardware, config: Config) -> Result<E1000<Hardware>, Error> {
    let device = hardware.state().model.device;
    E1000::start(hardware.clone(), &mut hardware.clone(), device, config)
}

fn start(hardware: &Hardware) -> E1000<Hardware> {
    start_with(
        hardware,
        Config {
            rx_ring: 16,
            tx_ring: 16,
            mtu: 1500,
        },
    )
    .unwrap()
}

fn with_faults(device: u16, faults: Faults) -> Hardware {
    let hardware = Hardware::new(device);
    hardware.state().faults = faults;
    hardware
}

fn failure(hardware: &Hardware) -> Error {
    start_with(hardware, Config::default())
        .err()
        .expect("it started")
}

/// A broadcast frame of `len` bytes.
fn broadcast(len: usize) -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend((6..len).map(|at| at as u8));
    frame
}

fn poll_all(nic: &mut E1000<Hardware>) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    nic.halves()
        .0
        .poll(64, |frame: RxFrame<'_>| frames.push(frame.bytes.to_vec()));
    frames
}

fn send(nic: &mut E1000<Hardware>, frame: &[u8]) {
    let (_, tx) = nic.halves();
    tx.send(frame.len(), &[], Offload::None, |buffer| {
        buffer.copy_from_slice(frame)
    })
    .unwrap();
    tx.flush();
}
