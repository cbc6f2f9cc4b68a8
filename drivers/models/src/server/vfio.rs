//! QEMU's side: the vfio-user protocol, of which the crate `vfio_user` knows the
//! messages.

use std::fs::File;
use std::io;
use std::path::Path;

use vfio_bindings::bindings::vfio::{
    VFIO_IRQ_INFO_AUTOMASKED, VFIO_IRQ_INFO_EVENTFD, VFIO_IRQ_INFO_MASKABLE,
    VFIO_IRQ_INFO_NORESIZE, VFIO_IRQ_SET_ACTION_TRIGGER, VFIO_IRQ_SET_ACTION_UNMASK,
    VFIO_IRQ_SET_DATA_NONE, VFIO_PCI_CONFIG_REGION_INDEX, VFIO_PCI_INTX_IRQ_INDEX,
    VFIO_PCI_MSI_IRQ_INDEX, VFIO_PCI_MSIX_IRQ_INDEX, VFIO_PCI_NUM_IRQS, VFIO_PCI_NUM_REGIONS,
    VFIO_REGION_INFO_FLAG_READ, VFIO_REGION_INFO_FLAG_WRITE, vfio_region_info,
};
use vfio_user::{DmaMapFlags, DmaUnmapFlags, IrqInfo, Server, ServerBackend, ServerRegion};

use super::{Shared, remove_stale};
use crate::device::Device;
use crate::interrupts::Signal;
use crate::pci::{CONFIG_LEN, ConfigSpace};

/// A server for a function with the configuration space `config`, at `socket`.
pub(super) fn server(config: &ConfigSpace, socket: &Path) -> anyhow::Result<Server> {
    remove_stale(socket)?;
    let regions = (0..VFIO_PCI_NUM_REGIONS)
        .map(|index| {
            let size = match (index, config.bars().get(index as usize)) {
                (VFIO_PCI_CONFIG_REGION_INDEX, _) => CONFIG_LEN as u64,
                (_, Some(bar)) => bar.len().into(),
                _ => 0,
            };
            region(index, size)
        })
        .collect();
    let irqs = (0..VFIO_PCI_NUM_IRQS)
        .map(|index| irq(index, config))
        .collect();
    Ok(Server::new(socket, true, irqs, regions)?)
}

fn region(index: u32, size: u64) -> ServerRegion {
    let flags = match size {
        0 => 0,
        _ => VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE,
    };
    ServerRegion {
        region_info: vfio_region_info {
            argsz: size_of::<vfio_region_info>() as u32,
            index,
            size,
            flags,
            ..vfio_region_info::default()
        },
        sparse_areas: Vec::new(),
        mmap_fd: None,
    }
}

fn irq(index: u32, config: &ConfigSpace) -> IrqInfo {
    let messages = VFIO_IRQ_INFO_EVENTFD | VFIO_IRQ_INFO_NORESIZE;
    let line = VFIO_IRQ_INFO_EVENTFD | VFIO_IRQ_INFO_MASKABLE | VFIO_IRQ_INFO_AUTOMASKED;
    let (flags, count) = match index {
        VFIO_PCI_INTX_IRQ_INDEX => (line, 1),
        VFIO_PCI_MSI_IRQ_INDEX => (messages, config.messages().msi),
        VFIO_PCI_MSIX_IRQ_INDEX => (messages, config.messages().msix),
        _ => (0, 0),
    };
    IrqInfo {
        index,
        flags: if count == 0 { 0 } else { flags },
        count: count.into(),
    }
}

/// What QEMU asks of the model.
pub(super) struct Backend<'a, D> {
    shared: &'a Shared<D>,
}

impl<'a, D: Device> Backend<'a, D> {
    pub(super) fn new(shared: &'a Shared<D>) -> Self {
        Self { shared }
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

impl<D: Device> ServerBackend for Backend<'_, D> {
    fn region_read(&mut self, region: u32, offset: u64, data: &mut [u8]) -> io::Result<()> {
        self.shared.with(|core| match region {
            VFIO_PCI_CONFIG_REGION_INDEX => {
                core.device.config().read(saturated(offset), data);
            }
            _ => core
                .device
                .read(&mut core.host, region as usize, offset, data),
        });
        Ok(())
    }

    fn region_write(&mut self, region: u32, offset: u64, data: &[u8]) -> io::Result<()> {
        self.shared.with(|core| match region {
            VFIO_PCI_CONFIG_REGION_INDEX => {
                core.device.config_mut().write(saturated(offset), data);
                core.host.dma.set_master(core.device.config().is_master());
            }
            _ => core
                .device
                .write(&mut core.host, region as usize, offset, data),
        });
        Ok(())
    }

    fn dma_map(
        &mut self,
        _flags: DmaMapFlags,
        offset: u64,
        address: u64,
        size: u64,
        file: Option<File>,
    ) -> io::Result<()> {
        // Without a file it is ROM, or a screen's memory: no NIC has business there.
        let Some(file) = file else { return Ok(()) };
        self.shared.with(|core| {
            core.host.dma.unmap(address, size);
            core.host
                .dma
                .map(address, size, file, offset)
                .map_err(io::Error::other)
        })
    }

    fn dma_unmap(&mut self, flags: DmaUnmapFlags, address: u64, size: u64) -> io::Result<()> {
        self.shared.with(|core| {
            if flags.contains(DmaUnmapFlags::UNMAP_ALL) {
                core.host.dma.unmap(0, u64::MAX);
            } else {
                core.host.dma.unmap(address, size);
            }
        });
        Ok(())
    }

    fn reset(&mut self) -> io::Result<()> {
        self.shared.with(|core| core.device.reset(&mut core.host));
        Ok(())
    }

    fn set_irqs(
        &mut self,
        index: u32,
        flags: u32,
        start: u32,
        count: u32,
        fds: Vec<File>,
    ) -> io::Result<()> {
        let without_data = flags & VFIO_IRQ_SET_DATA_NONE != 0;
        let triggers = flags & VFIO_IRQ_SET_ACTION_TRIGGER != 0;
        let unmasks = flags & VFIO_IRQ_SET_ACTION_UNMASK != 0;
        self.shared.with(|core| {
            let now = core.host.now;
            let interrupts = &mut core.host.interrupts;
            match index {
                VFIO_PCI_INTX_IRQ_INDEX if triggers => {
                    let file = fds.into_iter().next();
                    interrupts.set_intx(file.map(Signal::Event), now);
                }
                VFIO_PCI_INTX_IRQ_INDEX if unmasks => interrupts.unmask_intx(now),
                VFIO_PCI_MSI_IRQ_INDEX | VFIO_PCI_MSIX_IRQ_INDEX if triggers => {
                    let config = core.device.config().messages();
                    let msix = index == VFIO_PCI_MSIX_IRQ_INDEX;
                    let most = if msix { config.msix } else { config.msi };
                    if start.saturating_add(count) > most.into() {
                        return Err(invalid("more messages than there are"));
                    }
                    let signals: Vec<_> =
                        fds.into_iter().map(|fd| Some(Signal::Event(fd))).collect();
                    if !(without_data && count > 0) {
                        interrupts.set_messages(msix, start as usize, signals);
                    }
                }
                _ => {}
            }
            core.advance();
            Ok(())
        })
    }
}

fn saturated(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}
