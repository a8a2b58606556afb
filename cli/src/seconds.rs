//! Seconds as `flock` takes them, or any duration with a unit.

use std::str::FromStr;
use std::time::Duration;

/// `10`, `0.5`, `2m`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Seconds(pub(crate) Duration);

impl FromStr for Seconds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let seconds = match text.parse::<f64>() {
            Ok(number) => Duration::try_from_secs_f64(number).map_err(|error| error.to_string()),
            Err(_) => humantime::parse_duration(text).map_err(|error| error.to_string()),
        };
        seconds.map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_seconds_and_units_are_units() {
        let millis = |text: &str| text.parse().map(|Seconds(time)| time.as_millis());
        assert_eq!(millis("10"), Ok(10_000));
        assert_eq!(millis("0.5"), Ok(500));
        assert_eq!(millis("250ms"), Ok(250));
        assert_eq!(millis("2m"), Ok(120_000));
        for bad in ["", "-1", "NaN", "inf", "soon"] {
            assert!(millis(bad).is_err(), "{bad}");
        }
    }
}
