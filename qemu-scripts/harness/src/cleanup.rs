//! What must not outlive this process, and how it goes when a signal ends it.
//!
//! Everything is released by `Drop` as a rule. For SIGINT, SIGTERM and SIGHUP a
//! thread of its own does the same from a list; for SIGKILL there is the parent
//! death signal of each child, and the next start, which removes the namespaces
//! that nobody holds any more.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Something to be taken away when the process ends early.
#[derive(Clone, Debug)]
pub(crate) enum Resource {
    /// A child, to be killed.
    Process(u32),
    /// A network namespace, to be deleted.
    Namespace(String),
    /// A folder of temporary files, to be removed.
    Folder(PathBuf),
}

struct Registry {
    next: u64,
    resources: BTreeMap<u64, Resource>,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    next: 0,
    resources: BTreeMap::new(),
});

fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps a resource on the list for as long as it lives.
#[derive(Debug)]
pub(crate) struct Registration(u64);

impl Drop for Registration {
    fn drop(&mut self) {
        registry().resources.remove(&self.0);
    }
}

/// Puts `resource` on the list of what a signal takes away.
pub(crate) fn register(resource: Resource) -> Registration {
    watch_signals();
    let mut registry = registry();
    let key = registry.next;
    registry.next += 1;
    registry.resources.insert(key, resource);
    Registration(key)
}

/// What is left to be said when a signal ends this process.
static LAST_WORDS: Mutex<Option<Box<dyn FnOnce() + Send>>> = Mutex::new(None);
static ENDING: AtomicBool = AtomicBool::new(false);

fn last_words() -> MutexGuard<'static, Option<Box<dyn FnOnce() + Send>>> {
    LAST_WORDS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has `words` called when a signal ends this process, after all is removed, for as
/// long as this lives.
#[derive(Debug)]
pub(crate) struct LastWords(());

impl LastWords {
    /// There is room for those of one; earlier ones are forgotten.
    pub(crate) fn new(words: impl FnOnce() + Send + 'static) -> Self {
        watch_signals();
        *last_words() = Some(Box::new(words));
        Self(())
    }
}

impl Drop for LastWords {
    fn drop(&mut self) {
        *last_words() = None;
    }
}

/// Does not return once a signal is ending this process: what fails then fails
/// because its children are dead.
pub(crate) fn give_way_to_signal() {
    while ENDING.load(Ordering::Relaxed) {
        std::thread::park();
    }
}

fn watch_signals() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let Ok(mut signals) = Signals::new([SIGINT, SIGTERM, SIGHUP]) else {
            return;
        };
        std::thread::spawn(move || {
            if let Some(signal) = signals.forever().next() {
                end(signal);
            }
        });
    });
}

fn end(signal: i32) -> ! {
    ENDING.store(true, Ordering::Relaxed);
    // The lock is kept: nothing new starts, and nothing is released twice.
    let registry = registry();
    // Children first, then what they use.
    for resource in registry.resources.values() {
        if let Resource::Process(pid) = resource {
            let _ = kill(Pid::from_raw(pid.cast_signed()), Signal::SIGKILL);
        }
    }
    for resource in registry.resources.values() {
        match resource {
            Resource::Process(_) => {}
            Resource::Namespace(name) => crate::namespace::delete(name),
            Resource::Folder(path) => {
                let _ = std::fs::remove_dir_all(path);
            }
        }
    }
    eprintln!("\nuniperf: stopped");
    let words = last_words().take();
    if let Some(words) = words {
        words();
    }
    std::process::exit(128 + signal);
}
