//! Damages the files of a store that no server uses.

use std::path::{Path, PathBuf};

/// The files of a store after a crash.
const FILES: [&str; 5] = ["journal.db", "journal.db-wal", "tables.db", "tables.db-wal", "mark"];

/// A random sequence of damages. `DAMAGE_SEED` repeats a sequence, and `DAMAGE_CASES` makes it longer.
pub struct Damages {
    /// The seed, from `DAMAGE_SEED` if it is set.
    pub seed: u64,
    /// The number of damages.
    pub n_cases: u64,
    state: u64,
}

impl Damages {
    /// Reads the environment. By default, uses the fixed seed and this many cases.
    pub fn new(n_cases: u64) -> Self {
        let from_env = |name| std::env::var(name).ok().and_then(|value: String| value.parse().ok());
        let n_cases = from_env("DAMAGE_CASES").unwrap_or(n_cases);
        Self { n_cases, ..Self::from(crate::seed("DAMAGE_SEED")) }
    }

    /// Creates a fixed sequence without cases.
    pub fn from(seed: u64) -> Self {
        Self { seed, n_cases: 0, state: seed }
    }

    /// Returns a random number below `n`, or 0 if `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        self.state = self.state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.state >> 33) % n.max(1)
    }

    /// Damages one file: flips a bit, or truncates or deletes the file. Returns a description.
    pub fn one(&mut self, data: &Path) -> String {
        let there: Vec<PathBuf> =
            FILES.iter().map(|name| data.join(name)).filter(|path| path.is_file()).collect();
        let path = &there[self.below(there.len() as u64) as usize];
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut bytes = std::fs::read(path).expect("a file");
        let what = match self.below(10) {
            0 => {
                std::fs::remove_file(path).expect("a file");
                return format!("{name} is deleted");
            }
            1 | 2 => {
                bytes.truncate(self.below(bytes.len() as u64) as usize);
                format!("{name} is cut to {} bytes", bytes.len())
            }
            _ => {
                let bit = self.below(bytes.len() as u64 * 8) as usize;
                bytes.get_mut(bit / 8).into_iter().for_each(|byte| *byte ^= 1 << (bit % 8));
                format!("bit {} of byte {} of {name} is flipped", bit % 8, bit / 8)
            }
        };
        std::fs::write(path, bytes).expect("a file");
        what
    }
}

/// Copies the files of a store to an existing directory.
pub fn copy_store(from: &Path, to: &Path) {
    for name in FILES.iter().filter(|name| from.join(name).is_file()) {
        std::fs::copy(from.join(name), to.join(name)).expect("a copy");
    }
}
