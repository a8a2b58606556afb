//! Lock time: nanoseconds that never decrease. The engine derives them from a clock.

use std::fmt;
use std::ops::Add;

/// An instant of lock time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The start of lock time.
    pub const ZERO: Self = Self(0);
    /// Later than every instant. Used as the deadline of leases that never expire.
    pub const NEVER: Self = Self(u64::MAX);

    /// Returns the instant `nanos` nanoseconds after zero.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Returns the nanoseconds since zero.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the time from `earlier` until this instant, or zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// Returns `None` for [`Timestamp::NEVER`].
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
    /// The empty span.
    pub const ZERO: Self = Self(0);

    /// Returns a span of `nanos` nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Returns a span of `millis` milliseconds, or the longest possible span.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Returns a span of `secs` seconds, or the longest possible span.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// Returns the length in nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the length in whole milliseconds. Rounds down, so that a client stops using its lease too early rather
    /// than too late.
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
