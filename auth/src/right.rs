//! The rights that rules grant.

use std::fmt;

/// A right that a rule can grant, on locks or files.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Right {
    /// Read locks, leases and their history.
    Read,
    /// Acquire locks.
    Acquire,
    /// Revoke leases of other principals.
    Revoke,
    /// Read files.
    FilesRead,
    /// Write files.
    FilesWrite,
    /// All rights, including server administration.
    Admin,
}

impl Right {
    /// All rights.
    pub const ALL: [Self; 6] =
        [Self::Read, Self::Acquire, Self::Revoke, Self::FilesRead, Self::FilesWrite, Self::Admin];

    /// Returns the name used in rules.
    pub fn name(self) -> &'static str {
        match self {
            Right::Read => "read",
            Right::Acquire => "acquire",
            Right::Revoke => "revoke",
            Right::FilesRead => "files-read",
            Right::FilesWrite => "files-write",
            Right::Admin => "admin",
        }
    }
}

impl Right {
    /// Returns whether this right includes `other`.
    pub fn implies(self, other: Self) -> bool {
        self == other
            || match self {
                Right::Admin => true,
                Right::Acquire | Right::Revoke => other == Right::Read,
                Right::FilesWrite => other == Right::FilesRead,
                Right::Read | Right::FilesRead => false,
            }
    }
}

impl std::str::FromStr for Right {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|right| right.name() == word);
        let allowed = Self::ALL.map(Self::name).join(", ");
        known.ok_or_else(|| format!("unknown right {word:?}; allowed: {allowed}"))
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
