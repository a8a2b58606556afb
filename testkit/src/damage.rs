//! Things that happen to the files of a store no server uses.

use std::path::{Path, PathBuf};

/// The files of a store that a crash leaves.
const FILES: [&str; 5] = ["journal.db", "journal.db-wal", "tables.db", "tables.db-wal", "mark"];

/// Where a run of random damage begins and how long it is. `DAMAGE_SEED` repeats one, `DAMAGE_CASES` makes it longer.
pub struct Damages {
    /// As `DAMAGE_SEED` wants it.
    pub seed: u64,
    /// How many things happen.
    pub n_cases: u64,
    state: u64,
}

impl Damages {
    /// From the environment; otherwise the seed of every day and this many cases.
    pub fn new(n_cases: u64) -> Self {
        let from_env = |name| std::env::var(name).ok().and_then(|value: String| value.parse().ok());
        let n_cases = from_env("DAMAGE_CASES").unwrap_or(n_cases);
        Self { n_cases, ..Self::from(crate::seed("DAMAGE_SEED")) }
    }

    /// Always the same: no cases.
    pub fn from(seed: u64) -> Self {
        Self { seed, n_cases: 0, state: seed }
    }

    /// A random number below `n`, or 0 if there is none.
    pub fn below(&mut self, n: u64) -> u64 {
        self.state = self.state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.state >> 33) % n.max(1)
    }

    /// One thing happens to one file: a bit is flipped, or it is cut or deleted. In words.
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

/// Copies the files of a store into a folder that is there.
pub fn copy_store(from: &Path, to: &Path) {
    for name in FILES.iter().filter(|name| from.join(name).is_file()) {
        std::fs::copy(from.join(name), to.join(name)).expect("a copy");
    }
}
