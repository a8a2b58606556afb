//! Formats durations for messages.

use std::fmt::Write as _;
use std::time::Duration;

/// The units, from the largest to the smallest, with their length in milliseconds.
const UNITS: [(&str, u128); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

/// Formats a duration as people write it in a setting, such as `3s`, `1h 30m` or `250ms`. Less than a millisecond is
/// left out.
#[must_use]
pub fn shown(duration: Duration) -> String {
    let mut left = duration.as_millis();
    let mut text = String::new();
    for (unit, length) in UNITS {
        if left >= length {
            let space = if text.is_empty() { "" } else { " " };
            let _ = write!(text, "{space}{}{unit}", left / length);
            left %= length;
        }
    }
    if text.is_empty() { "0s".into() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_only_the_units_it_needs() {
        for (ms, text) in [
            (0, "0s"),
            (100, "100ms"),
            (3000, "3s"),
            (1500, "1s 500ms"),
            (5_400_000, "1h 30m"),
            (86_400_000, "1d"),
            (86_400_001, "1d 1ms"),
        ] {
            assert_eq!(shown(Duration::from_millis(ms)), text);
        }
    }
}
