//! What threads share. [`crate::engine`]'s rounds name nothing but this, so that a test can put loom's versions here
//! and try every order in which threads can meet.

use std::sync::PoisonError;

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
pub(crate) use std::sync::{Mutex, MutexGuard};
pub(crate) use std::thread::yield_now;

/// Whoever panicked with the mutex left nothing half done behind it: that holds for every mutex that is locked by this.
/// A server ends with its first panic (`panic = "abort"`), so only tests, which go on, ever come here after one.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
