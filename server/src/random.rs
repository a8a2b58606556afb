//! The only place that draws random numbers.

use std::cell::RefCell;

/// Drawn from the system at once: asking it for each number takes longer than most of what we do with them.
const POOL_BYTES: usize = 512;

thread_local! {
    static POOL: RefCell<Pool> = const { RefCell::new(Pool::new()) };
}

/// Random bytes of which the first `n_left` were given to nobody yet.
struct Pool {
    bytes: [u8; POOL_BYTES],
    n_left: usize,
    /// Who is asked for more, if not the system.
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
        // What was given away is not kept.
        taken.swap_with_slice(&mut self.bytes[self.n_left..self.n_left + N]);
        taken
    }
}

/// Bytes nobody can guess.
pub fn bytes<const N: usize>() -> [u8; N] {
    POOL.with_borrow_mut(Pool::take)
}

/// Does `work` with bytes of this source instead of the system's, for whatever draws some on this thread meanwhile.
/// Only the simulation does: what it runs can be guessed, and so run again.
pub fn drawn_from<T>(source: impl FnMut(&mut [u8]) + 'static, work: impl FnOnce() -> T) -> T {
    /// However the work ends, nobody after it draws what can be guessed.
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

/// A machine that has none to give cannot run a lock server.
fn fill(bytes: &mut [u8]) {
    if let Err(error) = getrandom::fill(bytes) {
        panic!("the system gives no random numbers: {error}");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn nothing_is_given_twice_and_nothing_given_is_kept() {
        let mut pool = Pool::new();
        let given: BTreeSet<[u8; 16]> = (0..1000).map(|_| pool.take()).collect();
        assert_eq!(given.len(), 1000);
        assert!(!given.contains(&[0; 16]));
        assert!(pool.bytes[pool.n_left..].iter().all(|byte| *byte == 0));
        assert!(pool.bytes[..pool.n_left].iter().any(|byte| *byte != 0));
    }

    #[test]
    fn a_source_of_ones_own_is_used_for_the_work_and_not_longer() {
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
