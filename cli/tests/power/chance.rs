//! Chance that can be repeated.

/// Numbers that follow from a seed.
pub(crate) struct Chance(u64);

impl Chance {
    /// `SEED` if it is set, else another each time; printed, so that a failure can be repeated.
    #[expect(clippy::print_stdout, reason = "a failure is repeated with it")]
    pub(crate) fn new() -> Self {
        let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
        println!("SEED={seed}");
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
