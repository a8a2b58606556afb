//! Durations as users write them, such as `5s`, `1h 30m`, `250ms` or `10` for seconds, and as output shows them, such
//! as `4m12s`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use leasehold_core::Span;

/// A duration on the command line or in a setting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DurationArg(pub(crate) Duration);

impl DurationArg {
    /// Returns the duration as the core counts it, in nanoseconds.
    pub(crate) fn span(self) -> Span {
        Span::from_nanos(u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Returns the duration as the API counts it: whole milliseconds, rounded up so that a nonzero duration never
    /// becomes 0.
    pub(crate) fn millis(self) -> u64 {
        u64::try_from(self.0.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }
}

impl FromStr for DurationArg {
    type Err = String;

    /// A number without a unit is seconds, as in `flock -w`.
    fn from_str(text: &str) -> Result<Self, String> {
        let duration = match text.parse::<f64>() {
            Ok(seconds) => Duration::try_from_secs_f64(seconds).ok(),
            Err(_) => humantime::parse_duration(text).ok(),
        };
        duration.map(Self).ok_or_else(|| {
            "not a duration; write 30s, 250ms, 5m, \"1h 30m\", or a number of seconds".into()
        })
    }
}

/// The shortest interval between repeated actions, and the shortest TTL of a lease that is renewed. Anything shorter
/// would leave no time for other work.
pub(crate) const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Parses the interval of a repeated action, or the TTL of something that is renewed.
pub(crate) fn interval(text: &str) -> Result<DurationArg, String> {
    let DurationArg(duration) = text.parse()?;
    if duration < INTERVAL_MIN {
        return Err(format!("must be at least {}", DurationArg(INTERVAL_MIN)));
    }
    Ok(DurationArg(duration))
}

/// Parses a duration that must not be 0.
pub(crate) fn lasting(text: &str) -> Result<DurationArg, String> {
    let DurationArg(duration) = text.parse()?;
    if duration.is_zero() { Err("must be more than 0".into()) } else { Ok(DurationArg(duration)) }
}

impl fmt::Display for DurationArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_duration(self.0).fmt(f)
    }
}

/// Returns a short text for people, with two units at most.
pub(crate) fn glance(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 if time.is_zero() => "0s".into(),
        0 if time.as_millis() < 1 => format!("{}us", time.as_micros()),
        0 if time.as_millis() < 10 => format!("{:.1}ms", time.as_secs_f64() * 1e3),
        0 => format!("{}ms", time.as_millis()),
        1..10 => format!("{:.1}s", (time.as_secs_f64() * 10.0).floor() / 10.0),
        10..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_seconds_and_units_are_units() {
        let millis = |text: &str| text.parse().map(|DurationArg(time)| time.as_millis());
        assert_eq!(millis("10"), Ok(10_000));
        assert_eq!(millis("0.5"), Ok(500));
        assert_eq!(millis("250ms"), Ok(250));
        assert_eq!(millis("2m"), Ok(120_000));
        assert_eq!(millis("1h 30m"), Ok(5_400_000));
        for bad in ["", "-1", "NaN", "inf", "soon"] {
            assert!(millis(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_has_to_last_is_more_than_nothing() {
        assert_eq!(lasting("0s"), Err("must be more than 0".into()));
        assert_eq!(lasting("1ms").map(DurationArg::millis), Ok(1));
    }

    #[test]
    fn what_is_done_again_and_again_leaves_time_for_something_else() {
        assert_eq!(interval("1ns"), Err("must be at least 100ms".into()));
        assert_eq!(interval("0"), Err("must be at least 100ms".into()));
        assert_eq!(interval("0.1").map(DurationArg::millis), Ok(100));
    }

    #[test]
    fn a_glance_is_two_units_and_never_more_than_there_is() {
        let shown = |millis| glance(Duration::from_millis(millis));
        assert_eq!(shown(0), "0s");
        assert_eq!(glance(Duration::from_micros(85)), "85us");
        assert_eq!(glance(Duration::from_micros(1250)), "1.2ms");
        assert_eq!(shown(250), "250ms");
        assert_eq!(shown(9_999), "9.9s");
        assert_eq!(shown(59_999), "59s");
        assert_eq!(shown(252_000), "4m12s");
        assert_eq!(shown(3_600_000), "1h00m");
        assert_eq!(shown(187_200_000), "2d04h");
    }
}
