//! Lock time: nanoseconds that only grow. Where they come from is the engine's affair.

use std::fmt;
use std::ops::Add;

/// An instant of lock time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The first instant there is.
    pub const ZERO: Self = Self(0);
    /// Later than every instant: the deadline of what has none.
    pub const NEVER: Self = Self(u64::MAX);

    /// The instant `nanos` after zero.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since zero.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// How long from `earlier` until this; nothing if it is not later.
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// `None` for [`Timestamp::NEVER`].
    pub fn finite(self) -> Option<Self> {
        (self != Self::NEVER).then_some(self)
    }
}

impl Add<Span> for Timestamp {
    type Output = Self;

    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.finite() {
            Some(at) => Span(at.0).fmt(f),
            None => f.write_str("never"),
        }
    }
}

/// A length of lock time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(u64);

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// `nanos` nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// `millis` milliseconds, or the longest span there is.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// `secs` seconds, or the longest span there is.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// In nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// In whole milliseconds, rounded down: a client told less gives up sooner, never later.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0 % 1_000_000_000, self.0 % 1_000_000) {
            (0, _) => write!(f, "{}s", self.0 / 1_000_000_000),
            (_, 0) => write!(f, "{}ms", self.0 / 1_000_000),
            _ => write!(f, "{}ns", self.0),
        }
    }
}
