//! Parses durations like Go's `time.ParseDuration`: `30s`, `1h30m`, `1.5s`, `500ms`.

use leasehold_core::Span;

/// The maximum duration in Go, in nanoseconds.
const NANOS_MAX: u128 = i64::MAX as u128;
/// Maximum digits of a fraction that are read. Further digits are less than a nanosecond, even of the longest unit.
const FRACTION_DIGITS_MAX: usize = 18;

/// Returns the duration in `text`. `None` if it is malformed or not positive.
pub(super) fn parse_positive(text: &str) -> Option<Span> {
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    let mut nanos = 0;
    while !rest.is_empty() {
        let (part, after) = parse_part(rest)?;
        nanos += part;
        if nanos > NANOS_MAX {
            return None;
        }
        rest = after;
    }
    // Rejects empty text, and `0`, which Go accepts without a unit.
    let nanos = u64::try_from(nanos).ok().filter(|nanos| *nanos > 0)?;
    Some(Span::from_nanos(nanos))
}

/// Parses one number with its unit to nanoseconds. Also returns the rest of the text.
fn parse_part(text: &str) -> Option<(u128, &str)> {
    let (whole, rest) = digits(text);
    let (fraction, rest) = rest.strip_prefix('.').map_or(("", rest), digits);
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let (unit, rest) = rest.split_at(rest.find(|c: char| is_of_number(c)).unwrap_or(rest.len()));
    let unit = nanos_of(unit)?;
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let whole = whole.checked_mul(unit).filter(|nanos| *nanos <= NANOS_MAX)?;
    Some((whole + fraction_of(unit, fraction), rest))
}

/// Returns `0.fraction` units, rounded down to whole nanoseconds.
fn fraction_of(unit: u128, fraction: &str) -> u128 {
    let digits = fraction.bytes().take(FRACTION_DIGITS_MAX).map(|digit| u128::from(digit - b'0'));
    let (value, scale) =
        digits.fold((0, 1), |(value, scale), digit| (value * 10 + digit, scale * 10));
    unit * value / scale
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

fn is_of_number(c: char) -> bool {
    c == '.' || c.is_ascii_digit()
}

fn nanos_of(unit: &str) -> Option<u128> {
    match unit {
        "ns" => Some(1),
        // The micro sign and the Greek letter look the same.
        "us" | "\u{b5}s" | "\u{3bc}s" => Some(1_000),
        "ms" => Some(1_000_000),
        "s" => Some(1_000_000_000),
        "m" => Some(60_000_000_000),
        "h" => Some(3_600_000_000_000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        const SECOND: u64 = 1_000_000_000;
        for (text, nanos) in [
            ("30s", 30 * SECOND),
            ("+30s", 30 * SECOND),
            ("030s", 30 * SECOND),
            ("1h30m", 5_400 * SECOND),
            ("30m1h", 5_400 * SECOND),
            ("1s1s", 2 * SECOND),
            ("0h5s", 5 * SECOND),
            ("1.5s", SECOND + SECOND / 2),
            ("1.5h", 5_400 * SECOND),
            (".5s", SECOND / 2),
            ("1.s", SECOND),
            ("500ms", SECOND / 2),
            ("1m500ms", 60 * SECOND + SECOND / 2),
            ("7us", 7_000),
            ("7µs", 7_000),
            ("7μs", 7_000),
            ("7ns", 7),
            ("1.9ns", 1),
            ("0.1000000000000000000009s", SECOND / 10),
            ("0.3333333333333333333h", 1_199_999_999_999),
            ("9223372036854775807ns", i64::MAX as u64),
            ("2562047h47m16.854775807s", i64::MAX as u64),
        ] {
            assert_eq!(parse_positive(text), Some(Span::from_nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn what_go_refuses_and_what_is_not_above_zero_is_no_duration() {
        for text in [
            "",
            "0",
            "+0",
            "-0",
            "0s",
            "0h0m",
            "0.9ns",
            "-1s",
            "-1h30m",
            "--1s",
            "+-1s",
            "++1s",
            "+",
            "-",
            ".",
            ".s",
            "+.s",
            "s",
            "30",
            "1.5",
            "1h30",
            "1..5s",
            "1.5.5s",
            "1,5s",
            "1e3s",
            "0x1s",
            "1_0s",
            " 30s",
            "30s ",
            "30 s",
            "1h 30m",
            "1h-30m",
            "30S",
            "30sec",
            "1d",
            "1w",
            "1y",
            "soon",
            "٣s",
            "3秒",
            "inf",
            "NaNs",
            "9223372036854775808ns",
            "2562047h47m16.854775808s",
            "3000000h",
            "99999999999999999999999999999999999999999999999999s",
        ] {
            assert_eq!(parse_positive(text), None, "{text:?}");
        }
    }
}
