//! The fencing token.

use std::fmt;

/// A fencing token. It grows with every grant of a lock and is never issued twice. So the resource that the lock
/// protects can reject a writer whose token is lower than one it has seen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Token(u64);

impl Token {
    /// The value before the first grant.
    pub const ZERO: Self = Self(0);
    /// The largest token, so that every token is exact as a JSON number.
    pub const MAX: Self = Self((1 << 53) - 1);

    /// Returns the token with this value, or `None` above [`Token::MAX`].
    pub const fn new(value: u64) -> Option<Self> {
        if value <= Self::MAX.0 { Some(Self(value)) } else { None }
    }

    /// Returns the token as a number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the token of the next grant, or `None` if the lock has used up all tokens.
    pub fn next(self) -> Option<Self> {
        Self::new(self.0 + 1)
    }

    /// Returns the token increased by `by`, up to [`Token::MAX`].
    pub fn raised(self, by: u64) -> Self {
        Self(self.0.saturating_add(by).min(Self::MAX.0))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
