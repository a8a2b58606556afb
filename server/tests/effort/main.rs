//! Tests that the cost of a request grows no faster than its size. They send the largest accepted and the smallest
//! refused value of each field, and bodies built to be expensive.
//!
//! They measure CPU time, not elapsed time. The limit is many times what these requests need, while quadratic behavior
//! would take seconds.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod content;
mod field;
mod head;
mod redis;
mod xml;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_testkit::Bare;
use rustix::time::{ClockId, clock_gettime};

/// Maximum CPU time of one request. Without optimization, everything takes up to ten times as long.
const CPU_MAX: Duration = Duration::from_millis(if cfg!(debug_assertions) { 200 } else { 20 });
/// Test timeout, longer than a busy machine needs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs one test at a time, because the CPU time of all threads is measured, including those that serve files.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the CPU time that this process has used so far.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap())
}

/// Sends a request and returns the response status. Fails if all of ten tries used too much CPU time.
#[track_caller]
fn check(server: &Bare, text: &str, what: &str) -> u16 {
    answer(server, text, what).0
}

/// Like `check`, but also returns the response text.
#[track_caller]
fn answer(server: &Bare, text: &str, what: &str) -> (u16, String) {
    let mut costs = [Duration::ZERO; 10];
    for cost in &mut costs {
        let before = cpu();
        let (status, told) = server.told(text.as_bytes(), PATIENCE).unwrap_or_else(|| {
            panic!("{what}: not a request, or no answer: {}", &text[..text.len().min(200)])
        });
        *cost = cpu() - before;
        if *cost <= CPU_MAX {
            return (status.as_u16(), told);
        }
    }
    panic!("{what}: {} bytes cost {costs:?} of CPU, {CPU_MAX:?} are allowed", text.len());
}
