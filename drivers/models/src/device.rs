//! What every model is, and what it reaches the rest of the machine through.

use std::time::Duration;

use crate::complaints::Complaints;
use crate::dma::Dma;
use crate::interrupts::Interrupts;
use crate::link::Wire;
use crate::pci::ConfigSpace;

/// A model of a PCI device with one network port.
pub trait Device: Send {
    /// Its configuration space.
    fn config(&self) -> &ConfigSpace;

    /// Its configuration space, to be written.
    fn config_mut(&mut self) -> &mut ConfigSpace;

    /// Answers a read of `data.len()` bytes at `offset` of base address register `bar`.
    fn read(&mut self, host: &mut Host, bar: usize, offset: u64, data: &mut [u8]);

    /// Takes a write of `data` at `offset` of base address register `bar`.
    fn write(&mut self, host: &mut Host, bar: usize, offset: u64, data: &[u8]);

    /// Whether it takes another frame from the wire now. Where it does not, frames wait
    /// in the wire, as they do in a peer that was told to pause.
    fn takes_frames(&self) -> bool {
        true
    }

    /// Takes a frame from the wire, from the destination address on, without its FCS.
    fn receive(&mut self, host: &mut Host, frame: &[u8]);

    /// Does what is due at [`Host::now`].
    fn advance(&mut self, host: &mut Host);

    /// When [`advance`](Self::advance) is to be called next, on the clock of
    /// [`Host::now`].
    fn deadline(&self) -> Option<Duration>;

    /// Takes it back to its state after power-on.
    fn reset(&mut self, host: &mut Host);

    /// Answers a line of the person's or the test's: statistics, faults, the link.
    ///
    /// # Errors
    ///
    /// What is wrong with the line, and which ones there are.
    fn command(&mut self, host: &mut Host, words: &[&str]) -> Result<String, String>;
}

/// What a model reaches while it is called.
#[derive(Debug)]
pub struct Host {
    /// Guest memory.
    pub dma: Dma,
    /// Interrupts to the guest.
    pub interrupts: Interrupts,
    /// The cable.
    pub wire: Box<dyn Wire>,
    /// What the guest did wrong.
    pub complaints: Complaints,
    /// Time since the model was started.
    pub now: Duration,
}

impl Host {
    /// A host without memory, at its beginning.
    pub fn new(wire: Box<dyn Wire>) -> Self {
        Self {
            dma: Dma::default(),
            interrupts: Interrupts::default(),
            wire,
            complaints: Complaints::default(),
            now: Duration::ZERO,
        }
    }

    /// Puts `frame` on the wire. One that the far end does not take is lost, as on a
    /// cable.
    pub fn send(&mut self, frame: &[u8]) {
        self.wire.send(frame);
    }
}
