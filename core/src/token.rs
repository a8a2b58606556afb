//! The fencing token.

use std::fmt;

/// Grows with every grant of a lock and is never handed out twice, so that whatever the lock protects can
/// refuse a writer whose token is older than one it has seen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Token(u64);

impl Token {
    /// Before the first grant.
    pub const ZERO: Self = Self(0);
    /// Tokens stay exactly representable in a JSON number.
    pub const MAX: Self = Self((1 << 53) - 1);

    /// The token with this value; `None` beyond [`Token::MAX`].
    pub const fn new(value: u64) -> Option<Self> {
        if value <= Self::MAX.0 { Some(Self(value)) } else { None }
    }

    /// As a number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The token of the next grant; `None` when a lock has used them all up.
    pub fn next(self) -> Option<Self> {
        Self::new(self.0 + 1)
    }

    /// Moved up by `by`, at most to [`Token::MAX`].
    pub fn raised(self, by: u64) -> Self {
        Self(self.0.saturating_add(by).min(Self::MAX.0))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
