//! The driver against QEMU's own e1000, without a guest: the test plays the CPU
//! through QEMU's qtest socket, and shares the guest's memory with its DMA.
//!
//! Needs `qemu-system-x86_64` 7.2 or newer.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::mm::{MapFlags, ProtFlags, mmap};
use uniperf_drivers::e1000::{Config, E1000, ids};
use uniperf_drivers::hw::{DmaRegion, DmaSlice, OutOfDmaMemory, Platform, Registers};
use uniperf_drivers::nic::{
    Causes, Event, Interrupt, Link, MacAddress, Nic, Offload, Receive, Transmit,
};

const MAC: [u8; 6] = [0x52, 0x54, 0x00, 0xab, 0xcd, 0xef];
const MEMORY: usize = 64 << 20;
const BAR: u32 = 0xe000_0000;
const PATIENCE: Duration = Duration::from_secs(10);
const UP: Link = Link::Up {
    mbps: 1000,
    full_duplex: true,
};

/// A QEMU with one NIC and no CPU running.
struct Qemu {
    child: Child,
    folder: PathBuf,
    qtest: Qtest,
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
struct Qtest(Arc<Mutex<Lines>>);

impl Qtest {
    fn ask(&self, line: &str) -> u32 {
        let answer = self.0.lock().unwrap().ask(line, "OK");
        let value = answer.trim().strip_prefix("OK 0x");
        value.map_or(0, |hex| u64::from_str_radix(hex, 16).unwrap() as u32)
    }

    fn pci(&self, register: u32) {
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
    fn start(device: &str) -> Self {
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

    fn set_link(&mut self, up: bool) {
        let command = format!(r#"{{"execute":"set_link","arguments":{{"name":"nic","up":{up}}}}}"#);
        self.monitor.ask(&command, r#"{"return""#);
    }

    fn put_on_wire(&self, frame: &[u8]) {
        self.wire.send_to(frame, self.folder.join("qemu")).unwrap();
    }

    fn take_from_wire(&self) -> Vec<u8> {
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

fn wait_for<T>(mut look: impl FnMut() -> Option<T>) -> T {
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
        tx_ring: 16,
        mtu: 1500,
    };
    let mut nic = E1000::start(registers, &mut qemu, id, config).unwrap();
    assert_eq!(nic.identity().mac, MacAddress(MAC));
    assert_eq!(nic.link(), UP);
    // QEMU takes no frame for a second after the receiver is switched on.
    std::thread::sleep(Duration::from_millis(1100));

    sends(&mut qemu, &mut nic);
    receives(&mut qemu, &mut nic);
    interrupts(&mut qemu, &mut nic);
    flaps(&mut qemu, &mut nic);
    counts(&mut nic);
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

fn counts(nic: &mut E1000<Qtest>) {
    let statistics = nic.statistics();
    assert_eq!(statistics.tx_frames, 50);
    assert_eq!(statistics.rx_frames, 53);
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
