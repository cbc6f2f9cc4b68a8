//! Network namespaces of our own: made, entered, removed, and removed for those
//! who could not do it themselves.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::fcntl::{Flock, FlockArg};
use nix::sched::{CloneFlags, setns};

use crate::cleanup::{Registration, Resource, register};
use crate::process;

/// Where `ip netns` keeps the names.
const NAMES: &str = "/run/netns";
/// Where each live owner of a namespace holds a lock on a file of its name.
const LOCKS: &str = "/run/uniperf";
const IP_TIMEOUT: Duration = Duration::from_secs(10);

/// A named network namespace with nothing but its loopback, removed on drop.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    file: File,
    _lock: Flock<File>,
    _registration: Registration,
}

impl Namespace {
    /// Makes the namespace `name`. An old one of that name whose owner is gone is
    /// replaced; one whose owner lives is an error that says so.
    pub fn create(name: &str) -> Result<Self> {
        reap();
        let exists = Path::new(NAMES).join(name).exists();
        if exists && !lock_path(name).exists() {
            bail!(
                "there is a network namespace {name} already that was not made here: remove it \
                 (ip netns del {name}), or give --namespace another name"
            );
        }
        let Some(lock) = take_lock(name)? else {
            bail!(
                "the network namespace {name} is in use by process {}: end that one first \
                 (ctrl-C in its terminal)",
                owner(name)
            );
        };
        if exists {
            delete_name(name);
        }
        let registration = register(Resource::Namespace(name.to_owned()));
        ip(Command::new("ip").args(["netns", "add", name]))?;
        let namespace = Self {
            name: name.to_owned(),
            file: File::open(Path::new(NAMES).join(name))?,
            _lock: lock,
            _registration: registration,
        };
        namespace.ip(&["link", "set", "lo", "up"])?;
        Ok(namespace)
    }

    /// Makes a namespace with a name that only this process uses.
    pub fn create_private() -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self::create(&format!("uniperf-{}-{number}", std::process::id()))
    }

    /// Its name, as `ip netns exec` takes it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `ip ARGS` in the namespace.
    pub fn ip(&self, args: &[&str]) -> Result<String> {
        let mut command = Command::new("ip");
        self.hold(&mut command);
        ip(command.args(args))
    }

    /// Makes `command` run in the namespace.
    pub fn hold(&self, command: &mut Command) {
        let file = self.file.as_raw_fd();
        // SAFETY: setns is a plain system call. The descriptor is open in the
        // child between fork and exec as long as `self` lives when it is spawned;
        // otherwise setns fails and so does the spawn.
        unsafe {
            command.pre_exec(move || match libc::setns(file, libc::CLONE_NEWNET) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            });
        }
    }

    /// Runs `task` on a thread that is in the namespace; sockets made there stay
    /// in it.
    pub fn enter<T: Send>(&self, task: impl FnOnce() -> T + Send) -> Result<T> {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                setns(&self.file, CloneFlags::CLONE_NEWNET)
                    .with_context(|| format!("cannot enter namespace {}", self.name))?;
                Ok(task())
            });
            match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        delete(&self.name);
    }
}

/// Removes the namespace and its lock file; whoever calls this holds the lock.
pub(crate) fn delete(name: &str) {
    delete_name(name);
    let _ = std::fs::remove_file(lock_path(name));
}

fn delete_name(name: &str) {
    let _ = Command::new("ip")
        .args(["netns", "del", name])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .status();
}

/// Removes the namespaces of owners that were killed.
fn reap() {
    let Ok(locks) = std::fs::read_dir(LOCKS) else {
        return;
    };
    for lock in locks.flatten() {
        let Ok(name) = lock.file_name().into_string() else {
            continue;
        };
        if let Ok(Some(_lock)) = take_lock(&name) {
            delete(&name);
        }
    }
}

/// Locks the file that stands for `name`; `None` when a live process has it.
fn take_lock(name: &str) -> Result<Option<Flock<File>>> {
    let path = lock_path(name);
    std::fs::create_dir_all(LOCKS).with_context(|| format!("cannot make {LOCKS}"))?;
    loop {
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .with_context(|| format!("cannot open {}", path.display()))?;
        let lock = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => lock,
            Err((_, nix::errno::Errno::EWOULDBLOCK)) => return Ok(None),
            Err((_, error)) => bail!("cannot lock {}: {error}", path.display()),
        };
        // The last owner may have removed the file between the open and the lock.
        let same = match std::fs::metadata(&path) {
            Ok(named) => named.ino() == lock.metadata()?.ino(),
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            Err(error) => return Err(error.into()),
        };
        if same {
            std::fs::write(&path, std::process::id().to_string())?;
            return Ok(Some(lock));
        }
    }
}

fn lock_path(name: &str) -> PathBuf {
    Path::new(LOCKS).join(name)
}

fn owner(name: &str) -> String {
    std::fs::read_to_string(lock_path(name)).unwrap_or_default()
}

fn ip(command: &mut Command) -> Result<String> {
    Ok(process::run(command, IP_TIMEOUT)?.success()?.stdout)
}
