//! The only place that draws random numbers.

use std::cell::RefCell;

/// Bytes to request from the operating system at a time. One request per number would take longer than most of
/// the code that needs the numbers.
const POOL_BYTES: usize = 512;

thread_local! {
    static POOL: RefCell<Pool> = const { RefCell::new(Pool::new()) };
}

/// Random bytes, of which the first `n_left` are unused.
struct Pool {
    bytes: [u8; POOL_BYTES],
    n_left: usize,
    /// The source of new bytes. `None`: the operating system.
    source: Option<Source>,
}

type Source = Box<dyn FnMut(&mut [u8])>;

impl Pool {
    const fn new() -> Self {
        Self { bytes: [0; POOL_BYTES], n_left: 0, source: None }
    }

    fn take<const N: usize>(&mut self) -> [u8; N] {
        const { assert!(N <= POOL_BYTES) };
        if self.n_left < N {
            match &mut self.source {
                Some(source) => source(&mut self.bytes),
                None => fill(&mut self.bytes),
            }
            self.n_left = POOL_BYTES;
        }
        self.n_left -= N;
        let mut taken = [0; N];
        // Used bytes are removed from the pool, so that they do not stay in memory.
        taken.swap_with_slice(&mut self.bytes[self.n_left..self.n_left + N]);
        taken
    }
}

/// Returns bytes that cannot be guessed.
pub fn bytes<const N: usize>() -> [u8; N] {
    POOL.with_borrow_mut(Pool::take)
}

/// Runs `work` with random bytes from `source` instead of the operating system, for every draw on this thread.
/// Only the simulation uses this: predictable numbers make a run repeatable.
pub fn drawn_from<T>(source: impl FnMut(&mut [u8]) + 'static, work: impl FnOnce() -> T) -> T {
    /// Restores the real source, even if the work panics, so that later draws cannot be guessed.
    struct Restored;
    impl Drop for Restored {
        fn drop(&mut self) {
            POOL.set(Pool::new());
        }
    }
    let _restored = Restored;
    POOL.set(Pool { source: Some(Box::new(source)), ..Pool::new() });
    work()
}

/// Fills the buffer from the operating system. Panics if that fails, because a lock server cannot run without
/// random numbers.
fn fill(bytes: &mut [u8]) {
    if let Err(error) = getrandom::fill(bytes) {
        panic!("the system provides no random numbers: {error}");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn bytes_are_used_once_and_removed_from_the_pool() {
        let mut pool = Pool::new();
        let given: BTreeSet<[u8; 16]> = (0..1000).map(|_| pool.take()).collect();
        assert_eq!(given.len(), 1000);
        assert!(!given.contains(&[0; 16]));
        assert!(pool.bytes[pool.n_left..].iter().all(|byte| *byte == 0));
        assert!(pool.bytes[..pool.n_left].iter().any(|byte| *byte != 0));
    }

    #[test]
    fn a_custom_source_is_used_only_during_the_work() {
        let drawn = || drawn_from(|bytes| bytes.fill(7), || [bytes::<16>(), bytes::<16>()]);
        assert_eq!((drawn(), drawn()), ([[7; 16]; 2], [[7; 16]; 2]));
        assert_ne!(bytes::<16>(), [7; 16]);
        let panicked = std::panic::catch_unwind(|| {
            drawn_from(|bytes| bytes.fill(7), || panic!("{:?}", bytes::<16>()));
        });
        assert!(panicked.is_err());
        assert_ne!(bytes::<16>(), [7; 16]);
    }
}
