//! State that only the boot processor touches, the only one that runs.

use core::cell::UnsafeCell;

use x86_64::instructions::interrupts::without_interrupts;

/// A value shared between the loop and interrupt handlers.
pub(crate) struct SingleCore<T>(UnsafeCell<T>);

// SAFETY: `with` is the only way in. It runs with interrupts off, and only one
// processor runs.
unsafe impl<T> Sync for SingleCore<T> {}

impl<T> SingleCore<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// Lends the value with interrupts off. Must not be called from inside `f`
    /// on the same value.
    #[inline]
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: see `Sync`; each value's user keeps it to one module, where no
        // `f` calls back.
        without_interrupts(|| f(unsafe { &mut *self.0.get() }))
    }

    /// Where the value lies.
    pub(crate) const fn address(&self) -> *mut T {
        self.0.get()
    }
}
