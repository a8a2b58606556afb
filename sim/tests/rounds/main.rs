//! Tests the engine's rounds (`engine/src/rounds`), compiled with loom's atomics and mutexes. Loom tries every
//! interleaving of the threads. A sleep has no timeout, so a lost wake-up is a deadlock that loom reports.
//!
//! The bounds: three or four threads, one or two requests each, and at most [`PREEMPTIONS_MAX`] switches to another
//! thread that were not necessary.

#![allow(dead_code, reason = "not everything is needed here")]

mod models;
#[path = "../../../engine/src/rounds/mod.rs"]
mod rounds;
mod world;

/// The primitives that the rounds use: see `base/src/sync.rs`.
mod sync {
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
    pub(crate) use loom::sync::{Mutex, MutexGuard};
    pub(crate) use loom::thread::yield_now;

    pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().expect("not poisoned")
    }
}

/// Bugs of this kind need one or two switches.
const PREEMPTIONS_MAX: usize = 2;
