//! A bad wire: a link between QEMU and a tap that loses, delays, repeats, reorders
//! and corrupts frames, in each direction as it is told.
//!
//! QEMU's end is a `dgram` netdev on two Unix sockets, which hold frames back
//! instead of losing them; the other end is the tap itself, opened by this process.
//! Each direction is a thread of its own with a generator of its own, so what
//! happens to a direction's frame number `n` depends on the seed and `n` alone.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::poll::{PollFd, PollFlags, ppoll};

use crate::folder::Folder;
use crate::frames::Noise;
use crate::namespace::Namespace;
use crate::network::{dgram, socket_pair};

/// Most frames under way in one direction, as many as a tap's queue holds.
const QUEUE: usize = 1000;
/// Frames taken before those that are due get their turn.
const BATCH: usize = 64;
/// The largest frame: 64 KiB and its Ethernet header.
const FRAME: usize = 65_536 + 14;
/// The longest sleep, and so the time that an end takes to be noticed.
const NAP: Duration = Duration::from_millis(20);
/// What IPv4 frames have in their type field.
const IPV4: [u8; 2] = [0x08, 0x00];
const ETHERNET_HEADER: usize = 14;

/// What one direction of a link does to its frames. Rates are from 0 to 1; the
/// default is a perfect wire.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Impairment {
    /// How many frames never arrive.
    pub loss: f64,
    /// How many arrive twice.
    pub duplicate: f64,
    /// How many IPv4 frames have one bit changed behind their Ethernet header. The
    /// header and other protocols have no checksum that could tell.
    pub corrupt: f64,
    /// How many are late, and are overtaken by those behind them.
    pub late: f64,
    /// For how long all frames are under way.
    pub delay: Duration,
    /// For how much longer the late ones are.
    pub lateness: Duration,
}

impl Impairment {
    fn check(&self) -> Result<()> {
        for rate in [self.loss, self.duplicate, self.corrupt, self.late] {
            ensure!((0.0..=1.0).contains(&rate), "{rate} is no rate");
        }
        Ok(())
    }
}

/// What a link did in one direction since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImpairCounts {
    /// Frames that came.
    pub taken: u64,
    /// Frames that were handed on, copies included.
    pub delivered: u64,
    /// Frames thrown away on purpose.
    pub lost: u64,
    /// Copies made.
    pub duplicated: u64,
    /// Frames with a bit changed.
    pub corrupted: u64,
    /// Frames made late.
    pub late: u64,
    /// Frames for which the queue had no room.
    pub overflowed: u64,
    /// Frames that the far end did not take, as when QEMU is not there.
    pub refused: u64,
    /// Most frames that were under way at a time.
    pub most_queued: u64,
}

impl ImpairCounts {
    /// What happened since it was `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            taken: self.taken - before.taken,
            delivered: self.delivered - before.delivered,
            lost: self.lost - before.lost,
            duplicated: self.duplicated - before.duplicated,
            corrupted: self.corrupted - before.corrupted,
            late: self.late - before.late,
            overflowed: self.overflowed - before.overflowed,
            refused: self.refused - before.refused,
            most_queued: self.most_queued,
        }
    }
}

/// A link that runs until it is dropped.
#[derive(Debug)]
pub struct ImpairedLink {
    to_guest: Direction,
    from_guest: Direction,
    folder: Folder,
}

impl ImpairedLink {
    /// A perfect link between the tap `tap` in `namespace` and the guest that will
    /// have [`netdev`](Self::netdev).
    pub(crate) fn start(namespace: &Namespace, tap: &str) -> Result<Self> {
        let folder = Folder::new()?;
        let (near, far) = (near(&folder), far(&folder));
        let (tap, socket) = namespace.enter(|| -> Result<_> {
            // The namespace's own setting, for its sockets: the default of ten
            // frames would have both ends wait for each other all the time.
            std::fs::write("/proc/sys/net/unix/max_dgram_qlen", "512")
                .context("cannot set the length of socket queues")?;
            let socket = UnixDatagram::bind(&near)?;
            socket.set_nonblocking(true)?;
            Ok((open_tap(tap)?, socket))
        })??;
        let (tap, socket) = (Arc::new(tap), Arc::new(socket));
        let guest = || Guest(Arc::clone(&socket), far.clone());
        Ok(Self {
            to_guest: Direction::start(Tap(Arc::clone(&tap)), guest()),
            from_guest: Direction::start(guest(), Tap(tap)),
            folder,
        })
    }

    /// The options of QEMU's `-netdev`, but for the id.
    pub(crate) fn netdev(&self) -> String {
        dgram(&far(&self.folder), &near(&self.folder))
    }

    /// The sockets of a device model that is in QEMU's place.
    pub(crate) fn model_sockets(&self) -> String {
        socket_pair(&far(&self.folder), &near(&self.folder))
    }

    /// What the wire does from now on, and the seed of both directions' generators,
    /// which begin anew.
    pub fn set(&self, to_guest: Impairment, from_guest: Impairment, seed: u64) -> Result<()> {
        to_guest.check()?;
        from_guest.check()?;
        self.to_guest.set(to_guest, seed)?;
        self.from_guest.set(from_guest, !seed)
    }

    /// What happened to the frames to the guest.
    pub fn to_guest(&self) -> ImpairCounts {
        self.to_guest.counts()
    }

    /// What happened to the frames from the guest.
    pub fn from_guest(&self) -> ImpairCounts {
        self.from_guest.counts()
    }
}

/// The end of the socket that is ours.
fn near(folder: &Folder) -> PathBuf {
    folder.path().join("link")
}

/// The end that QEMU or a device model makes.
fn far(folder: &Folder) -> PathBuf {
    folder.path().join("guest")
}

/// A thread that carries frames one way.
#[derive(Debug)]
struct Direction {
    /// Its end ends the thread.
    settings: Option<Sender<(Impairment, u64)>>,
    counts: Arc<Mutex<ImpairCounts>>,
    thread: Option<JoinHandle<()>>,
}

impl Direction {
    fn start(from: impl End + 'static, to: impl End + 'static) -> Self {
        let (sender, settings) = channel();
        let counts = Arc::default();
        let carrier = Carrier {
            from,
            to,
            settings,
            impairment: Impairment::default(),
            noise: Noise::new(0),
            queue: BTreeMap::new(),
            serial: 0,
            counts: Arc::clone(&counts),
        };
        Self {
            settings: Some(sender),
            counts,
            thread: Some(std::thread::spawn(move || carrier.run())),
        }
    }

    fn set(&self, impairment: Impairment, seed: u64) -> Result<()> {
        let settings = self.settings.as_ref().context("the link has ended")?;
        settings
            .send((impairment, seed))
            .context("the link has ended")
    }

    fn counts(&self) -> ImpairCounts {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Direction {
    fn drop(&mut self) {
        self.settings = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Where frames come from and go to, without waiting.
trait End: Send {
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize>;
    fn send(&self, frame: &[u8]) -> io::Result<()>;
    fn descriptor(&self) -> BorrowedFd<'_>;
}

struct Tap(Arc<File>);

impl End for Tap {
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self.0).read(buffer)
    }

    fn send(&self, frame: &[u8]) -> io::Result<()> {
        (&*self.0).write(frame).map(drop)
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Our socket, and the path of QEMU's.
struct Guest(Arc<UnixDatagram>, PathBuf);

impl End for Guest {
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.recv(buffer)
    }

    fn send(&self, frame: &[u8]) -> io::Result<()> {
        match self.0.send(frame) {
            // QEMU was not there before; a connected socket can wait for room.
            Err(error) if error.kind() == ErrorKind::NotConnected => {
                self.0.connect(&self.1)?;
                self.0.send(frame).map(drop)
            }
            result => result.map(drop),
        }
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// What is to happen to a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fate {
    lost: bool,
    duplicated: bool,
    late: bool,
    /// Chooses the bit to be changed.
    corrupted: Option<u64>,
}

impl Fate {
    /// The fate of the next frame. Each takes the same count of numbers from the
    /// generator, so that one frame's fate changes no other's.
    fn next(noise: &mut Noise, impairment: &Impairment) -> Self {
        // The generator's numbers have 56 bits.
        let mut happens = |rate: f64| ((noise.number() as f64) / (1_u64 << 56) as f64) < rate;
        let lost = happens(impairment.loss);
        let duplicated = happens(impairment.duplicate);
        let late = happens(impairment.late);
        let corrupted = happens(impairment.corrupt);
        let bit = noise.number();
        Self {
            lost,
            duplicated,
            late,
            corrupted: corrupted.then_some(bit),
        }
    }
}

/// Changes one bit of an IPv4 frame; false when it is none.
fn corrupt(frame: &mut [u8], bit: u64) -> bool {
    if frame.len() <= ETHERNET_HEADER || frame[12..14] != IPV4 {
        return false;
    }
    let packet = &mut frame[ETHERNET_HEADER..];
    let bit = (bit % (packet.len() as u64 * 8)) as usize;
    packet[bit / 8] ^= 1 << (bit % 8);
    true
}

struct Carrier<From, To> {
    from: From,
    to: To,
    settings: Receiver<(Impairment, u64)>,
    impairment: Impairment,
    noise: Noise,
    /// Frames by when they are due and how they came.
    queue: BTreeMap<(Instant, u64), Vec<u8>>,
    serial: u64,
    counts: Arc<Mutex<ImpairCounts>>,
}

impl<From: End, To: End> Carrier<From, To> {
    fn run(mut self) {
        let mut buffer = vec![0; FRAME];
        loop {
            let Some(more) = self.take(&mut buffer) else {
                return;
            };
            let blocked = self.deliver();
            if !more {
                self.sleep(blocked);
            }
        }
    }

    /// Takes a batch of frames. Whether there may be more, or `None` when the link
    /// is to end.
    fn take(&mut self, buffer: &mut [u8]) -> Option<bool> {
        for _ in 0..BATCH {
            let received = self.from.receive(buffer);
            match self.settings.try_recv() {
                Ok((impairment, seed)) => {
                    self.impairment = impairment;
                    self.noise = Noise::new(seed);
                }
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => return None,
            }
            match received {
                Ok(length) => self.enqueue(&buffer[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Some(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    // A tap that is down, or a guest that is gone.
                    std::thread::sleep(Duration::from_millis(1));
                    return Some(false);
                }
            }
        }
        Some(true)
    }

    fn enqueue(&mut self, frame: &[u8]) {
        let fate = Fate::next(&mut self.noise, &self.impairment);
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.taken += 1;
        if fate.lost {
            counts.lost += 1;
            return;
        }
        let mut due = Instant::now() + self.impairment.delay;
        if fate.late {
            counts.late += 1;
            due += self.impairment.lateness;
        }
        let mut frame = frame.to_vec();
        if let Some(bit) = fate.corrupted {
            counts.corrupted += u64::from(corrupt(&mut frame, bit));
        }
        counts.duplicated += u64::from(fate.duplicated);
        let copy = fate.duplicated.then(|| frame.clone());
        for frame in [Some(frame), copy].into_iter().flatten() {
            if self.queue.len() >= QUEUE {
                counts.overflowed += 1;
                continue;
            }
            self.queue.insert((due, self.serial), frame);
            self.serial += 1;
        }
        counts.most_queued = counts.most_queued.max(self.queue.len() as u64);
    }

    /// Hands on what is due. Whether the far end has no room.
    fn deliver(&mut self) -> bool {
        let now = Instant::now();
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(first) = self.queue.first_entry() {
            if first.key().0 > now {
                break;
            }
            match self.to.send(first.get()) {
                Ok(()) => counts.delivered += 1,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => counts.refused += 1,
            }
            first.remove();
        }
        false
    }

    /// Sleeps until a frame comes, one is due, or the far end has room again.
    fn sleep(&self, blocked: bool) {
        let mut wait = NAP;
        if let (false, Some(((due, _), _))) = (blocked, self.queue.first_key_value()) {
            wait = wait.min(due.saturating_duration_since(Instant::now()));
        }
        let mut ends = vec![PollFd::new(self.from.descriptor(), PollFlags::POLLIN)];
        if blocked {
            ends.push(PollFd::new(self.to.descriptor(), PollFlags::POLLOUT));
        }
        // An error is a signal, or shows again at the next call.
        let _ = ppoll(&mut ends, Some(wait.into()), None);
    }
}

/// The device `name`, which must exist in the namespace that the thread is in.
fn open_tap(name: &str) -> Result<File> {
    let path = Path::new("/dev/net/tun");
    let tap = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
        .with_context(|| format!("cannot open {}", path.display()))?;
    // SAFETY: all bytes zero are a value of this structure of integers.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    ensure!(name.len() < libc::IFNAMSIZ, "{name} is too long a name");
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from.cast_signed();
    }
    // Frames as they are on a wire: the kernel cuts super-segments and completes
    // checksums before it hands them over.
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the request is a structure of the kind that the call takes.
    let result = unsafe { libc::ioctl(tap.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    let error = io::Error::last_os_error();
    ensure!(result == 0, "cannot attach to {name}: {error}");
    Ok(tap)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A direction between two sockets, and their far ends.
    fn direction() -> (Direction, UnixDatagram, UnixDatagram) {
        let end = || {
            let (ours, theirs) = UnixDatagram::pair().unwrap();
            ours.set_nonblocking(true).unwrap();
            theirs
                .set_read_timeout(Some(Duration::from_secs(5)))
                .unwrap();
            (Guest(Arc::new(ours), PathBuf::new()), theirs)
        };
        let ((from, sender), (to, receiver)) = (end(), end());
        (Direction::start(from, to), sender, receiver)
    }

    fn receive(socket: &UnixDatagram) -> Vec<u8> {
        let mut buffer = vec![0; 2048];
        let length = socket.recv(&mut buffer).unwrap();
        buffer.truncate(length);
        buffer
    }

    #[test]
    fn fates_depend_on_seed_and_number_alone() {
        let bad = Impairment {
            loss: 0.1,
            duplicate: 0.05,
            corrupt: 0.02,
            late: 0.2,
            ..Impairment::default()
        };
        let fates = |seed, impairment: &Impairment| {
            let mut noise = Noise::new(seed);
            let next = |_| Fate::next(&mut noise, impairment);
            (0..20_000).map(next).collect::<Vec<_>>()
        };
        let first = fates(1, &bad);
        assert_eq!(first, fates(1, &bad));
        assert_ne!(first, fates(2, &bad));
        let count = |is: fn(&Fate) -> bool| first.iter().filter(|fate| is(fate)).count();
        assert!((1800..2200).contains(&count(|fate| fate.lost)));
        assert!((850..1150).contains(&count(|fate| fate.duplicated)));
        assert!((300..500).contains(&count(|fate| fate.corrupted.is_some())));
        assert!((3700..4300).contains(&count(|fate| fate.late)));
        // What else the wire does has no influence on which frames are lost.
        let only = Impairment {
            loss: bad.loss,
            ..Impairment::default()
        };
        let same = |(a, b): (&Fate, &Fate)| a.lost == b.lost;
        assert!(first.iter().zip(&fates(1, &only)).all(same));
        let none = fates(1, &Impairment::default());
        assert!(!none.iter().any(|fate| fate.lost || fate.late));
    }

    #[test]
    fn one_bit_of_an_ipv4_packet_is_changed_and_nothing_else() {
        let frame = crate::frames::ethernet(0x0800, &[0; 30]);
        for bit in 0..1000 {
            let mut changed = frame.clone();
            assert!(corrupt(&mut changed, bit));
            assert_eq!(changed[..14], frame[..14]);
            let bits: u32 = changed[14..].iter().map(|byte| byte.count_ones()).sum();
            assert_eq!(bits, 1);
        }
        let mut arp = crate::frames::ethernet(0x0806, &[0; 28]);
        assert!(!corrupt(&mut arp, 5));
        assert!(!corrupt(&mut [0; 3], 5));
    }

    #[test]
    fn a_perfect_direction_carries_all_in_order() {
        let (direction, sender, receiver) = direction();
        for number in 0..200_u8 {
            sender.send(&[number; 100]).unwrap();
            assert_eq!(receive(&receiver), [number; 100]);
        }
        let counts = direction.counts();
        assert_eq!((counts.taken, counts.delivered), (200, 200));
    }

    #[test]
    fn a_bad_direction_does_what_it_is_told() {
        let (direction, sender, receiver) = direction();
        let set = |impairment| direction.set(impairment, 1).unwrap();
        let perfect = Impairment::default();
        set(Impairment {
            duplicate: 1.0,
            delay: Duration::from_millis(30),
            ..perfect
        });
        let begin = Instant::now();
        sender.send(b"twice").unwrap();
        assert_eq!(receive(&receiver), b"twice");
        assert!(begin.elapsed() >= Duration::from_millis(30));
        assert_eq!(receive(&receiver), b"twice");

        set(Impairment {
            late: 1.0,
            lateness: Duration::from_millis(200),
            ..perfect
        });
        sender.send(b"late").unwrap();
        while direction.counts().late < 1 {
            std::thread::sleep(Duration::from_millis(1));
        }
        set(perfect);
        sender.send(b"early").unwrap();
        assert_eq!(receive(&receiver), b"early");
        assert_eq!(receive(&receiver), b"late");

        set(Impairment {
            loss: 1.0,
            ..perfect
        });
        sender.send(b"lost").unwrap();
        while direction.counts().lost < 1 {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(direction.counts().delivered, 4);
    }

    #[test]
    fn rates_are_between_nothing_and_all() {
        let with = |loss| Impairment {
            loss,
            ..Impairment::default()
        };
        assert!(with(1.0).check().is_ok());
        assert!(with(1.1).check().is_err());
        assert!(with(f64::NAN).check().is_err());
    }
}
