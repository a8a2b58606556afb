//! Synchronization primitives. The engine's rounds use only these, so that a test can substitute loom's versions and
//! try every interleaving of threads.

use std::sync::{LockResult, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

pub use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
pub use std::sync::{Mutex, MutexGuard};
pub use std::thread::yield_now;

/// Locks a mutex.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    whole(mutex.lock())
}

/// Locks for reading.
pub fn read<T: ?Sized>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    whole(lock.read())
}

/// Locks for writing.
pub fn write<T: ?Sized>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    whole(lock.write())
}

/// Returns the guard even if a thread panicked while it held the lock. This is safe, because no code that uses
/// these locks leaves data half changed when it panics. Only tests continue after a panic: a server is built with
/// `panic = "abort"`.
pub fn whole<G>(locked: LockResult<G>) -> G {
    locked.unwrap_or_else(PoisonError::into_inner)
}
