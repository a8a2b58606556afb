//! Durations as people write them: `5s`, `1h 30m`, `250ms`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use leasehold_core::Span;

/// A duration that can be a setting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lasting(pub(crate) Duration);

impl Lasting {
    /// As the core counts.
    pub(crate) fn span(self) -> Span {
        Span::from_nanos(u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl FromStr for Lasting {
    type Err = humantime::DurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        humantime::parse_duration(text).map(Self)
    }
}

impl fmt::Display for Lasting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_duration(self.0).fmt(f)
    }
}
