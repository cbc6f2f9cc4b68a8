//! A NIC made of memory, and its end of the wire.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use uniperf_drivers::hw::DmaSlice;
use uniperf_drivers::nic::*;

pub const OUR_MAC: MacAddress = MacAddress([0x02, 0, 0, 0, 0, 2]);

/// What the NIC, its interrupt handler and the test share.
pub struct Hardware {
    /// Frames that the NIC has received and nobody has polled.
    pub received: RefCell<VecDeque<Vec<u8>>>,
    pub rx_ring: usize,
    pub missed: Cell<u64>,
    /// What the NIC says of each frame's checksums.
    pub verdict: Cell<RxChecksum>,
    /// Frames on the wire.
    pub sent: RefCell<VecDeque<Vec<u8>>>,
    /// Frames that are in the ring and not yet announced to the NIC.
    pub announced: RefCell<VecDeque<Vec<u8>>>,
    pub tx_ring: usize,
    /// Descriptors that wait to be reclaimed.
    pub in_flight: Cell<usize>,
    /// How many frames the NIC may send before it stalls.
    pub tx_credit: Cell<usize>,
    pub doorbells: Cell<u64>,
    pub masked: Cell<bool>,
    pub pending: Cell<Option<Causes>>,
    /// Causes that arose while masked.
    pub latched: Cell<Causes>,
    /// Whether a frame that comes while masked raises no interrupt later.
    pub loses_masked_causes: Cell<bool>,
    /// Done just after an unmasking.
    pub on_unmask: RefCell<Option<Hook>>,
    pub link: Cell<Link>,
    /// Something has taken the NIC's bus away, and nobody has given it back.
    pub cut_off: Cell<bool>,
    pub stopped: Cell<bool>,
}

/// Something to be done to the hardware once.
pub type Hook = Box<dyn FnOnce(&Hardware)>;

pub const UP: Link = Link::Up {
    mbps: 1000,
    full_duplex: true,
};

impl Hardware {
    pub fn new(rx_ring: usize, tx_ring: usize) -> Rc<Self> {
        Rc::new(Self {
            received: RefCell::default(),
            rx_ring,
            missed: Cell::new(0),
            verdict: Cell::new(RxChecksum::Unknown),
            sent: RefCell::default(),
            announced: RefCell::default(),
            tx_ring,
            in_flight: Cell::new(0),
            tx_credit: Cell::new(usize::MAX),
            doorbells: Cell::new(0),
            masked: Cell::new(false),
            pending: Cell::new(None),
            latched: Cell::new(Causes::empty()),
            loses_masked_causes: Cell::new(false),
            on_unmask: RefCell::default(),
            link: Cell::new(UP),
            cut_off: Cell::default(),
            stopped: Cell::new(false),
        })
    }

    /// A frame arrives. `false` if the ring had no room.
    pub fn arrive(&self, frame: Vec<u8>) -> bool {
        if self.received.borrow().len() >= self.rx_ring {
            self.missed.set(self.missed.get() + 1);
            return false;
        }
        self.received.borrow_mut().push_back(frame);
        self.raise(Causes::RECEIVE);
        true
    }

    pub fn set_link(&self, link: Link) {
        self.link.set(link);
        self.raise(Causes::LINK);
    }

    /// Raises an interrupt: the handler masks the NIC and leaves the causes.
    fn raise(&self, causes: Causes) {
        if self.masked.get() {
            return self.latched.set(self.latched.get() | causes);
        }
        self.masked.set(true);
        let before = self.pending.get().unwrap_or(Causes::empty());
        self.pending.set(Some(before | causes));
    }

    /// The NIC sends what was announced, as far as it is allowed to.
    pub fn transmit(&self) {
        let mut announced = self.announced.borrow_mut();
        while self.tx_credit.get() > 0
            && let Some(frame) = announced.pop_front()
        {
            if self.tx_credit.get() != usize::MAX {
                self.tx_credit.set(self.tx_credit.get() - 1);
            }
            self.sent.borrow_mut().push_back(frame);
        }
    }
}

pub struct MemoryNic {
    identity: Identity,
    capabilities: Capabilities,
    rx: Rx,
    tx: Tx,
    hardware: Rc<Hardware>,
}

impl MemoryNic {
    pub fn new(hardware: &Rc<Hardware>, max_mtu: usize) -> Self {
        Self {
            identity: Identity {
                driver: "memory",
                model: "a NIC made of memory",
                pci_id: (0, 0),
                mac: OUR_MAC,
            },
            capabilities: Capabilities {
                max_mtu,
                rx_ring: hardware.rx_ring,
                tx_ring: hardware.tx_ring,
                rx_checksum: true,
                tx_checksum: false,
                scatter_gather: false,
                tso_v4: false,
                tso_v6: false,
                tso_max_bytes: 0,
                interrupt_throttle: false,
            },
            rx: Rx {
                hardware: hardware.clone(),
            },
            tx: Tx {
                hardware: hardware.clone(),
                longest: max_mtu + 14,
                staged: VecDeque::new(),
            },
            hardware: hardware.clone(),
        }
    }
}

pub struct Quiet;

impl Interrupt for Quiet {
    fn claim(&self) -> Option<Causes> {
        None
    }
}

impl Nic for MemoryNic {
    type Rx<'a> = &'a mut Rx;
    type Tx<'a> = &'a mut Tx;
    type Interrupt = Quiet;

    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn link(&self) -> Link {
        self.hardware.link.get()
    }

    fn halves(&mut self) -> (&mut Rx, &mut Tx) {
        (&mut self.rx, &mut self.tx)
    }

    fn interrupt(&self) -> Quiet {
        Quiet
    }

    fn mask(&mut self) {
        self.hardware.masked.set(true);
    }

    fn unmask(&mut self) {
        self.hardware.masked.set(false);
        let mut latched = self.hardware.latched.replace(Causes::empty());
        if self.hardware.received.borrow().is_empty() || self.hardware.loses_masked_causes.get() {
            latched.remove(Causes::RECEIVE);
        }
        if !latched.is_empty() {
            self.hardware.raise(latched);
        }
        let hook = self.hardware.on_unmask.borrow_mut().take();
        if let Some(hook) = hook {
            hook(&self.hardware);
        }
    }

    fn raise_interrupt(&mut self, _kind: InterruptKind) {}

    fn throttle(&mut self, _: u32) {}

    fn service(&mut self, causes: Causes) -> Option<Event> {
        causes
            .contains(Causes::LINK)
            .then(|| Event::Link(self.link()))
    }

    fn statistics(&mut self) -> Statistics {
        Statistics {
            rx_missed: self.hardware.missed.get(),
            ..Statistics::default()
        }
    }

    fn registers(&mut self, visit: &mut dyn FnMut(Register, u32)) {
        for offset in [0, 4, 8, 0x100] {
            visit(Register::Nic(offset), offset as u32);
        }
        (0..10).for_each(|number| visit(Register::Phy(number), number));
    }

    fn stop(&mut self) {
        self.hardware.stopped.set(true);
    }
}

pub struct Rx {
    hardware: Rc<Hardware>,
}

impl Receive for Rx {
    fn poll(&mut self, budget: usize, mut sink: impl FnMut(RxFrame<'_>)) -> usize {
        for done in 0..budget {
            let Some(frame) = self.hardware.received.borrow_mut().pop_front() else {
                return done;
            };
            sink(RxFrame {
                bytes: &frame,
                checksum: self.hardware.verdict.get(),
            });
        }
        budget
    }

    fn pending(&self) -> bool {
        !self.hardware.received.borrow().is_empty()
    }

    fn set_replenish(&mut self, _: usize) {}

    fn free_buffers(&self) -> usize {
        self.hardware.rx_ring - self.hardware.received.borrow().len()
    }

    fn dropped(&self) -> RxDropped {
        RxDropped::default()
    }
}

pub struct Tx {
    hardware: Rc<Hardware>,
    longest: usize,
    staged: VecDeque<Vec<u8>>,
}

impl Transmit for Tx {
    fn send<R>(
        &mut self,
        header_len: usize,
        payload: &[DmaSlice],
        offload: Offload,
        fill: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R, TxError> {
        if header_len > self.longest || !payload.is_empty() || offload != Offload::None {
            return Err(TxError::Unsupported);
        }
        if self.free() == 0 {
            return Err(TxError::RingFull);
        }
        // As a real ring's buffer would, it holds what was sent before.
        let mut buffer = vec![0xa5; header_len];
        let result = fill(&mut buffer);
        self.staged.push_back(buffer);
        self.hardware
            .in_flight
            .set(self.hardware.in_flight.get() + 1);
        Ok(result)
    }

    fn flush(&mut self) {
        self.hardware
            .doorbells
            .set(self.hardware.doorbells.get() + 1);
        self.hardware
            .announced
            .borrow_mut()
            .append(&mut self.staged);
        self.hardware.transmit();
    }

    fn reclaim(&mut self) -> usize {
        let left = self.staged.len() + self.hardware.announced.borrow().len();
        self.hardware.in_flight.replace(left) - left
    }

    fn free(&self) -> usize {
        self.hardware.tx_ring - self.hardware.in_flight.get()
    }

    fn capacity(&self) -> usize {
        self.hardware.tx_ring
    }
}
