//! What [`crate::engine`]'s rounds are built from. They name nothing else that threads share, so that a test can put
//! loom's versions here and try every order in which threads can meet.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
pub(crate) use std::sync::{Mutex, MutexGuard};
pub(crate) use std::thread::yield_now;
