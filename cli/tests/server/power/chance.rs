//! Random choices that can be repeated.

/// A generator of random numbers from a seed.
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new() -> Self {
        let seed = leasehold_testkit::seed("SEED");
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % n
    }

    pub(crate) fn coin(&mut self) -> bool {
        self.below(2) == 1
    }
}
