//! What threads share. [`crate::engine`]'s rounds name nothing but this, so that a test can put loom's versions here
//! and try every order in which threads can meet.

use std::sync::{LockResult, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
pub(crate) use std::sync::{Mutex, MutexGuard};
pub(crate) use std::thread::yield_now;

/// Locks a mutex.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    whole(mutex.lock())
}

/// Locks for reading.
pub(crate) fn read<T: ?Sized>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    whole(lock.read())
}

/// Locks for writing.
pub(crate) fn write<T: ?Sized>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    whole(lock.write())
}

/// Whoever panicked with the lock left nothing half done behind it: that holds for everything that is locked by this.
/// A server ends with its first panic (`panic = "abort"`), so only tests, which go on, ever come here after one.
pub(crate) fn whole<G>(locked: LockResult<G>) -> G {
    locked.unwrap_or_else(PoisonError::into_inner)
}
