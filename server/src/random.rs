//! The only place that draws random numbers.

use std::cell::RefCell;

/// Drawn from the system at once: asking it for each number takes longer than most of what we do with them.
const POOL_BYTES: usize = 512;

thread_local! {
    static POOL: RefCell<Pool> = const { RefCell::new(Pool { bytes: [0; POOL_BYTES], n_left: 0 }) };
}

/// Random bytes of which the first `n_left` were given to nobody yet.
struct Pool {
    bytes: [u8; POOL_BYTES],
    n_left: usize,
}

impl Pool {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        const { assert!(N <= POOL_BYTES) };
        if self.n_left < N {
            fill(&mut self.bytes);
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
        let mut pool = Pool { bytes: [0; POOL_BYTES], n_left: 0 };
        let given: BTreeSet<[u8; 16]> = (0..1000).map(|_| pool.take()).collect();
        assert_eq!(given.len(), 1000);
        assert!(!given.contains(&[0; 16]));
        assert!(pool.bytes[pool.n_left..].iter().all(|byte| *byte == 0));
        assert!(pool.bytes[..pool.n_left].iter().any(|byte| *byte != 0));
    }
}
