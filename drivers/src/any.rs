//! Whichever NIC the machine has, as one type.
//!
//! What is generic over [`Nic`] is compiled for each type that it is used with. The
//! appliance's loop and stack are most of the image, so it uses them with this one. What
//! the loop asks most is always inlined: a call in its place costs more than the choice.

use crate::e1000::{self, E1000};
use crate::forcedeth::{self, Forcedeth};
use crate::hw::{DmaSlice, Registers, Window};
use crate::myri10ge::{self, Myri10ge};
use crate::nic::{
    Capabilities, Causes, Event, Identity, Interrupt, InterruptKind, Link, Nic, Offload, Receive,
    Register, RxDropped, RxFrame, Statistics, Transmit, TxError,
};

/// What `match` arms over the drivers have in common.
macro_rules! each {
    ($whole:expr, $one:pat => $answer:expr) => {
        match $whole {
            Self::E1000($one) => $answer,
            Self::Forcedeth($one) => $answer,
            Self::Myri10ge($one) => $answer,
        }
    };
}

/// A started NIC of any driver.
#[expect(
    clippy::large_enum_variant,
    reason = "a machine has one of them, for good"
)]
pub enum AnyNic<R: Registers, W: Window> {
    /// Of Intel's 8254x family.
    E1000(E1000<R>),
    /// Of the nForce chipsets.
    Forcedeth(Forcedeth<R>),
    /// Myricom's.
    Myri10ge(Myri10ge<W>),
}

/// The receive half of an [`AnyNic`].
pub enum AnyRx<'a, R: Registers, W: Window> {
    /// Of Intel's 8254x family.
    E1000(&'a mut e1000::rings::RxRing<R>),
    /// Of the nForce chipsets.
    Forcedeth(&'a mut forcedeth::receive::RxRing),
    /// Myricom's.
    Myri10ge(&'a mut myri10ge::receive::RxRing<W>),
}

/// The transmit half of an [`AnyNic`].
pub enum AnyTx<'a, R: Registers, W: Window> {
    /// Of Intel's 8254x family.
    E1000(&'a mut e1000::rings::TxRing<R>),
    /// Of the nForce chipsets.
    Forcedeth(&'a mut forcedeth::transmit::TxRing<R>),
    /// Myricom's.
    Myri10ge(&'a mut myri10ge::transmit::TxRing<W>),
}

/// What the interrupt handler holds of an [`AnyNic`].
pub enum AnyInterrupt<R: Registers + Send, W: Window + Send> {
    /// Of Intel's 8254x family.
    E1000(<E1000<R> as Nic>::Interrupt),
    /// Of the nForce chipsets.
    Forcedeth(<Forcedeth<R> as Nic>::Interrupt),
    /// Myricom's.
    Myri10ge(<Myri10ge<W> as Nic>::Interrupt),
}

impl<R: Registers + Send, W: Window + Send> Nic for AnyNic<R, W> {
    type Rx<'a>
        = AnyRx<'a, R, W>
    where
        Self: 'a;
    type Tx<'a>
        = AnyTx<'a, R, W>
    where
        Self: 'a;
    type Interrupt = AnyInterrupt<R, W>;

    fn identity(&self) -> &Identity {
        each!(self, nic => nic.identity())
    }

    #[inline(always)]
    fn capabilities(&self) -> &Capabilities {
        each!(self, nic => nic.capabilities())
    }

    #[inline(always)]
    fn link(&self) -> Link {
        each!(self, nic => nic.link())
    }

    #[inline(always)]
    fn halves(&mut self) -> (Self::Rx<'_>, Self::Tx<'_>) {
        match self {
            Self::E1000(nic) => {
                let (rx, tx) = nic.halves();
                (AnyRx::E1000(rx), AnyTx::E1000(tx))
            }
            Self::Forcedeth(nic) => {
                let (rx, tx) = nic.halves();
                (AnyRx::Forcedeth(rx), AnyTx::Forcedeth(tx))
            }
            Self::Myri10ge(nic) => {
                let (rx, tx) = nic.halves();
                (AnyRx::Myri10ge(rx), AnyTx::Myri10ge(tx))
            }
        }
    }

    fn interrupt(&self) -> Self::Interrupt {
        match self {
            Self::E1000(nic) => AnyInterrupt::E1000(nic.interrupt()),
            Self::Forcedeth(nic) => AnyInterrupt::Forcedeth(nic.interrupt()),
            Self::Myri10ge(nic) => AnyInterrupt::Myri10ge(nic.interrupt()),
        }
    }

    #[inline(always)]
    fn mask(&mut self) {
        each!(self, nic => nic.mask());
    }

    #[inline(always)]
    fn unmask(&mut self) {
        each!(self, nic => nic.unmask());
    }

    fn raise_interrupt(&mut self, kind: InterruptKind) {
        each!(self, nic => nic.raise_interrupt(kind));
    }

    fn throttle(&mut self, per_second: u32) {
        each!(self, nic => nic.throttle(per_second));
    }

    fn service(&mut self, causes: Causes) -> Option<Event> {
        each!(self, nic => nic.service(causes))
    }

    fn statistics(&mut self) -> Statistics {
        each!(self, nic => nic.statistics())
    }

    fn registers(&mut self, visit: &mut dyn FnMut(Register, u32)) {
        each!(self, nic => nic.registers(visit));
    }

    fn stop(&mut self) {
        each!(self, nic => nic.stop());
    }
}

impl<R: Registers, W: Window> Receive for AnyRx<'_, R, W> {
    fn poll(&mut self, budget: usize, sink: impl FnMut(RxFrame<'_>)) -> usize {
        each!(self, rx => rx.poll(budget, sink))
    }

    #[inline(always)]
    fn pending(&self) -> bool {
        each!(self, rx => rx.pending())
    }

    fn set_replenish(&mut self, frames: usize) {
        each!(self, rx => rx.set_replenish(frames));
    }

    fn free_buffers(&self) -> usize {
        each!(self, rx => rx.free_buffers())
    }

    fn dropped(&self) -> RxDropped {
        each!(self, rx => rx.dropped())
    }
}

impl<R: Registers, W: Window> Transmit for AnyTx<'_, R, W> {
    #[inline(always)]
    fn send<T>(
        &mut self,
        header_len: usize,
        payload: &[DmaSlice],
        offload: Offload,
        fill: impl FnOnce(&mut [u8]) -> T,
    ) -> Result<T, TxError> {
        each!(self, tx => tx.send(header_len, payload, offload, fill))
    }

    #[inline(always)]
    fn flush(&mut self) {
        each!(self, tx => tx.flush());
    }

    #[inline(always)]
    fn reclaim(&mut self) -> usize {
        each!(self, tx => tx.reclaim())
    }

    #[inline(always)]
    fn accepts(
        &self,
        header_len: usize,
        payload: &[DmaSlice],
        offload: Offload,
    ) -> Result<(), TxError> {
        each!(self, tx => tx.accepts(header_len, payload, offload))
    }

    #[inline(always)]
    fn free(&self) -> usize {
        each!(self, tx => tx.free())
    }

    fn capacity(&self) -> usize {
        each!(self, tx => tx.capacity())
    }
}

impl<R: Registers + Send, W: Window + Send> Interrupt for AnyInterrupt<R, W> {
    fn claim(&self) -> Option<Causes> {
        each!(self, handle => handle.claim())
    }
}
