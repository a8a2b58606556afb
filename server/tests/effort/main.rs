//! What a request costs grows no faster than the request: the largest input that is accepted and the smallest that is
//! refused, field by field, and bodies made to be expensive. CPU time is measured, not time that passes, and the bound
//! is many times what these requests take; what is quadratic takes seconds.

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

/// What one request may cost. Without optimisation everything takes up to ten times as long.
const CPU_MAX: Duration = Duration::from_millis(if cfg!(debug_assertions) { 200 } else { 20 });
/// Longer than anything here takes, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

/// One test at a time: the time of all threads is measured, also of those that serve files.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// CPU time of this process so far.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap())
}

/// Returns the status of the answer to a request, and fails if every one of three tries cost too much.
#[track_caller]
fn check(server: &Bare, text: &str, what: &str) -> u16 {
    answer(server, text, what).0
}

/// The same, with the text of the answer.
#[track_caller]
fn answer(server: &Bare, text: &str, what: &str) -> (u16, String) {
    let mut costs = [Duration::ZERO; 3];
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
