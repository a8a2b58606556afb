//! The source of all randomness of a run, determined by its seed.

/// A SplitMix64 generator: small, fast, and the same on every machine.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// Returns the generator of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a separate generator, so that the number of draws from one does not affect the other.
    pub fn fork(&mut self) -> Self {
        Self(self.draw())
    }

    /// Draws the next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Fills these bytes with random values.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for part in bytes.chunks_mut(8) {
            part.copy_from_slice(&self.draw().to_le_bytes()[..part.len()]);
        }
    }

    /// Draws a number below `n`, which must not be zero.
    pub fn below(&mut self, n: u64) -> u64 {
        self.draw() % n
    }

    /// Draws a number from `low` up to and including `high`.
    pub fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// Returns true with a probability of `n` in a thousand.
    pub fn permille(&mut self, n: u64) -> bool {
        self.below(1000) < n
    }

    /// Draws one of these values.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}
