//! The engine's rounds (`engine/src/rounds`), compiled again with loom's atomics and mutexes: every order in
//! which its threads can meet is tried, and nobody's sleep has a timeout, so a lost wake-up is a deadlock that loom
//! reports.
//!
//! The bounds: three or four threads, one or two questions each, at most [`PREEMPTIONS_MAX`] switches to another thread
//! where none had to be.

#![allow(dead_code, reason = "not everything is needed here")]

mod models;
#[path = "../../../engine/src/rounds/mod.rs"]
mod rounds;
mod world;

/// What the rounds are built from: see `base/src/sync.rs`.
mod sync {
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
    pub(crate) use loom::sync::{Mutex, MutexGuard};
    pub(crate) use loom::thread::yield_now;

    pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().expect("nobody panics")
    }
}

/// Bugs of this kind need one or two.
const PREEMPTIONS_MAX: usize = 2;
