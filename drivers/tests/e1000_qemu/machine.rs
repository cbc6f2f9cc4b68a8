//! A QEMU with one NIC and no CPU running, and the wire behind the NIC.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::mm::{MapFlags, ProtFlags, mmap};
use uniperf_drivers::hw::{DmaRegion, OutOfDmaMemory, Platform, Registers};

pub const MAC: [u8; 6] = [0x52, 0x54, 0x00, 0xab, 0xcd, 0xef];
const MEMORY: usize = 64 << 20;
const BAR: u32 = 0xe000_0000;
const PATIENCE: Duration = Duration::from_secs(10);

/// A QEMU with one NIC and no CPU running.
pub struct Qemu {
    child: Child,
    folder: PathBuf,
    pub qtest: Qtest,
    monitor: Lines,
    wire: UnixDatagram,
    next_dma: usize,
}

/// A line-by-line conversation.
struct Lines {
    write: UnixStream,
    read: BufReader<UnixStream>,
}

impl Lines {
    fn new(stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let read = BufReader::new(stream.try_clone().unwrap());
        Self {
            write: stream,
            read,
        }
    }

    /// Says something and returns the first line that begins with `answer`.
    fn ask(&mut self, line: &str, answer: &str) -> String {
        writeln!(self.write, "{line}").unwrap();
        loop {
            let mut heard = String::new();
            let len = self
                .read
                .read_line(&mut heard)
                .expect("QEMU does not answer");
            assert!(len > 0 && !heard.contains("error"), "{line:?}: {heard:?}");
            if heard.starts_with(answer) {
                return heard;
            }
        }
    }
}

#[derive(Clone)]
pub struct Qtest(Arc<Mutex<Lines>>);

impl Qtest {
    pub fn ask(&self, line: &str) -> u32 {
        let answer = self.0.lock().unwrap().ask(line, "OK");
        let value = answer.trim().strip_prefix("OK 0x");
        value.map_or(0, |hex| u64::from_str_radix(hex, 16).unwrap() as u32)
    }

    pub fn pci(&self, register: u32) {
        self.ask(&format!("outl 0xcf8 {:#x}", 0x8000_2000 | register));
    }
}

impl Registers for Qtest {
    fn read32(&self, offset: usize) -> u32 {
        self.ask(&format!("readl {:#x}", BAR as usize + offset))
    }

    fn write32(&self, offset: usize, value: u32) {
        self.ask(&format!("writel {:#x} {value:#x}", BAR as usize + offset));
    }
}

impl Qemu {
    pub fn start(device: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("uniperf-{device}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = |name: &str| folder.join(name);
        let show = |name: &str| path(name).display().to_string();
        let wire = UnixDatagram::bind(path("test")).unwrap();
        wire.set_read_timeout(Some(PATIENCE)).unwrap();
        let qtest = UnixListener::bind(path("qtest")).unwrap();
        let monitor = UnixListener::bind(path("monitor")).unwrap();
        // What the CPU runs meanwhile: hlt, wherever it starts.
        std::fs::write(path("halt"), [0xf4; 65536]).unwrap();
        let memory = format!(
            "memory-backend-file,id=ram,size={MEMORY},share=on,mem-path={}",
            show("memory")
        );
        let netdev = format!(
            "dgram,id=wire,local.type=unix,local.path={},remote.type=unix,remote.path={}",
            show("qemu"),
            show("test")
        );
        let [a, b, c, d, e, f] = MAC;
        let mac = format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}");
        let child = Command::new("qemu-system-x86_64")
            .args(["-machine", "pc,accel=tcg,memory-backend=ram", "-nodefaults"])
            .args([
                "-bios",
                &show("halt"),
                "-display",
                "none",
                "-object",
                &memory,
                "-netdev",
                &netdev,
            ])
            .args([
                "-device",
                &format!("{device},id=nic,netdev=wire,addr=4,mac={mac}"),
            ])
            .args(["-qtest", &format!("unix:{}", show("qtest"))])
            .args([
                "-qtest-log",
                "/dev/null",
                "-qmp",
                &format!("unix:{}", show("monitor")),
            ])
            .spawn()
            .expect("qemu-system-x86_64 is needed; qemu-scripts/setup installs it");
        let mut monitor = Lines::new(accept(&monitor));
        monitor.ask(r#"{"execute":"qmp_capabilities"}"#, r#"{"return""#);
        let qtest = Qtest(Arc::new(Mutex::new(Lines::new(accept(&qtest)))));
        // BAR 0, and memory access and bus mastering.
        qtest.pci(0x10);
        qtest.ask(&format!("outl 0xcfc {BAR:#x}"));
        qtest.pci(0x04);
        qtest.ask("outl 0xcfc 0x6");
        Self {
            child,
            folder,
            qtest,
            monitor,
            wire,
            next_dma: 1 << 20,
        }
    }

    pub fn set_link(&mut self, up: bool) {
        let command = format!(r#"{{"execute":"set_link","arguments":{{"name":"nic","up":{up}}}}}"#);
        self.monitor.ask(&command, r#"{"return""#);
    }

    pub fn put_on_wire(&self, frame: &[u8]) {
        self.wire.send_to(frame, self.folder.join("qemu")).unwrap();
    }

    pub fn take_from_wire(&self) -> Vec<u8> {
        let mut frame = vec![0; 65536];
        let len = self.wire.recv(&mut frame).expect("no frame on the wire");
        frame.truncate(len);
        frame
    }
}

fn accept(listener: &UnixListener) -> UnixStream {
    listener.set_nonblocking(true).unwrap();
    let stream = wait_for(|| listener.accept().ok()).0;
    stream.set_nonblocking(false).unwrap();
    stream
}

pub fn wait_for<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "waited in vain");
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        // Nothing is left to do where either fails.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn map(path: &Path) -> NonNull<u8> {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a fresh mapping at an address of the kernel's choice disturbs
    // nothing, and QEMU made the file `MEMORY` long.
    let base = unsafe {
        mmap(
            std::ptr::null_mut(),
            MEMORY,
            access,
            MapFlags::SHARED,
            &file,
            0,
        )
    };
    NonNull::new(base.unwrap().cast()).unwrap()
}

impl Platform for Qemu {
    fn dma_alloc(&mut self, len: usize, align: usize) -> Result<DmaRegion, OutOfDmaMemory> {
        let bus = self.next_dma.next_multiple_of(align);
        self.next_dma = bus + len;
        if self.next_dma > MEMORY {
            return Err(OutOfDmaMemory { requested: len });
        }
        let base = map(&self.folder.join("memory"));
        // SAFETY: the guest's memory from here on is handed out to nobody else,
        // the mapping stays, and guest-physical address `bus` is byte `bus` of
        // the file.
        Ok(unsafe { DmaRegion::new(base.add(bus), bus as u64, len) })
    }

    fn delay_us(&mut self, microseconds: u32) {
        std::thread::sleep(Duration::from_micros(microseconds.into()));
    }
}

/// QEMU's version, as 702 for 7.2.
pub fn version() -> u32 {
    let output = Command::new("qemu-system-x86_64").arg("--version").output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    let mut numbers = text
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|number| number.parse::<u32>().ok());
    numbers.next().unwrap() * 100 + numbers.next().unwrap()
}
