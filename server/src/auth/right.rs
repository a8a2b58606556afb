//! What somebody may be allowed to do.

use std::fmt;

/// A right, on locks or files.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Right {
    /// See locks.
    Read,
    /// Take locks.
    Acquire,
    /// Take locks away from others.
    Revoke,
    /// See files.
    FilesRead,
    /// Change files.
    FilesWrite,
    /// Everything.
    Admin,
}

impl Right {
    /// All there are.
    pub const ALL: [Self; 6] =
        [Self::Read, Self::Acquire, Self::Revoke, Self::FilesRead, Self::FilesWrite, Self::Admin];

    /// As it is written in rules.
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
    /// Does whoever has this have `other` too?
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
