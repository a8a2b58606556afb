//! Measures the memory that a held lock takes, with an allocator that counts. The result is deterministic, so it can be
//! a test.

#![allow(unsafe_code, reason = "counting allocations means being the allocator")]
#![allow(clippy::print_stdout, reason = "the figure is worth seeing")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use leasehold_core::*;

struct Counting;

static N_BYTES: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all calls are passed to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        N_BYTES.fetch_add(layout.size(), Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        N_BYTES.fetch_sub(layout.size(), Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const N_LOCKS: usize = 1_000_000;
const NAME_BYTES: usize = 17;
/// The limit, not counting the name.
const BYTES_PER_LOCK_MAX: usize = 220;

#[test]
fn a_held_lock_is_small() {
    let mut machine = Machine::new(Limits::default(), 1);
    let before = N_BYTES.load(Relaxed);
    for n in 0..N_LOCKS {
        let applied = machine.apply(Timestamp::ZERO, acquire(n));
        assert!(applied.outcome.is_ok());
    }
    let per_lock = (N_BYTES.load(Relaxed) - before) / N_LOCKS - NAME_BYTES;
    println!("{per_lock} bytes per held lock beside its name");
    assert!(per_lock <= BYTES_PER_LOCK_MAX, "{per_lock} bytes per held lock");
}

fn acquire(n: usize) -> Acquire {
    let name = format!("orders/{n:010}");
    assert_eq!(name.len(), NAME_BYTES);
    let lock = LockKey::new("default", name);
    let owner = Owner::new("anonymous", "worker-1");
    let ttl = Some(Span::from_secs(3600));
    Acquire { ttl, ..Acquire::new(lock, owner, Dialect(0), Secret([7; 16])) }
}
