//! Dates: this protocol writes RFC 2822 in UTC, and reads RFC 2822 and ISO 8601.

use leasehold_base::calendar;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
/// Weekdays, starting with that of 1970-01-01.
const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const DAY_S: i64 = 24 * 3600;

/// Formats a date, such as `Sun, 15 Nov 2026 02:18:43 -0000`.
pub(super) fn rfc2822(epoch_ms: i64) -> String {
    let epoch_s = epoch_ms.div_euclid(1000);
    let (days, second) = (epoch_s.div_euclid(DAY_S), epoch_s.rem_euclid(DAY_S));
    let (year, month, day) = calendar::date(days);
    let weekday = WEEKDAYS[days.rem_euclid(7) as usize];
    let month = MONTHS[month as usize - 1];
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{weekday}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} -0000")
}

/// Returns seconds since 1970. A time without a zone is UTC.
pub(super) fn parse(text: &str) -> Option<f64> {
    let text = text.trim();
    parse_iso8601(text).or_else(|| parse_rfc2822(text))
}

/// Parses `[Sun, ]15 Nov 2026 02:18[:43] -0000`.
fn parse_rfc2822(text: &str) -> Option<f64> {
    let (weekday, rest) = match text.split_once(',') {
        Some((weekday, rest)) => (Some(weekday), rest),
        None => (None, text),
    };
    let words: Vec<_> = rest.split_whitespace().collect();
    let [day, month, year, clock, zone] = words[..] else { return None };
    let month = MONTHS.iter().position(|known| known.eq_ignore_ascii_case(month))? as i64 + 1;
    let year = digits(year, 4, 4)?;
    let days = calendar::days(year, month, digits(day, 1, 2)?)?;
    let expected = WEEKDAYS[days.rem_euclid(7) as usize];
    if weekday.is_some_and(|weekday| !weekday.eq_ignore_ascii_case(expected)) {
        return None;
    }
    let offset = match zone {
        "GMT" | "UT" | "UTC" | "Z" => 0,
        numbers => parse_offset(numbers)?,
    };
    Some((days * DAY_S - offset) as f64 + parse_clock(clock)?)
}

/// Parses `2026-11-15[T02:18[:43[.5]][Z|+01:00|+0100]]`.
fn parse_iso8601(text: &str) -> Option<f64> {
    let (date, rest) = text.split_at_checked(10)?;
    let mut parts = date.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    let days = calendar::days(digits(year, 4, 4)?, digits(month, 2, 2)?, digits(day, 2, 2)?)?;
    let midnight = (days * DAY_S) as f64;
    if parts.next().is_some() {
        return None;
    }
    if rest.is_empty() {
        return Some(midnight);
    }
    let rest = rest.strip_prefix(['T', 't', ' '])?;
    let (clock, offset) = match rest.find(['Z', 'z', '+', '-', ' ']) {
        None => (rest, 0),
        Some(at) if rest[at..].eq_ignore_ascii_case("z") => (&rest[..at], 0),
        Some(at) => (&rest[..at], parse_offset(&rest[at..])?),
    };
    Some(midnight + parse_clock(clock)? - offset as f64)
}

/// Parses `+01:00` or `-0100` to seconds. A plus sign that a client did not encode in a query arrives as a space, which
/// the caller might already have removed by splitting.
fn parse_offset(text: &str) -> Option<i64> {
    let (sign, digits_of) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' | b' ' => (1, &text[1..]),
        _ => (1, text),
    };
    let plain = match digits_of.split_once(':') {
        Some((hours, minutes)) if hours.len() == 2 => format!("{hours}{minutes}"),
        Some(_) => return None,
        None => digits_of.to_owned(),
    };
    let number = digits(&plain, 4, 4)?;
    let (hours, minutes) = (number / 100, number % 100);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

/// Parses `02:18`, `02:18:43` or `02:18:43.5`.
fn parse_clock(text: &str) -> Option<f64> {
    let mut parts = text.split(':');
    let (hour, minute) = (digits(parts.next()?, 2, 2)?, digits(parts.next()?, 2, 2)?);
    let second = parts.next().unwrap_or("00");
    let (whole, fraction) = second.split_once('.').unwrap_or((second, "0"));
    let whole = digits(whole, 2, 2)?;
    digits(fraction, 1, 9)?;
    let fraction: f64 = format!("0.{fraction}").parse().ok()?;
    // A leap second counts as the first second of the next minute.
    let is_time = hour < 24 && minute < 60 && whole <= 60 && parts.next().is_none();
    is_time.then_some((hour * 3600 + minute * 60 + whole) as f64 + fraction)
}

fn digits(text: &str, n_min: usize, n_max: usize) -> Option<i64> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let fits = (n_min..=n_max).contains(&text.len());
    text.parse().ok().filter(|_| is_number && fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_written_as_the_protocol_writes_it() {
        for (epoch_ms, text) in [
            (0, "Thu, 01 Jan 1970 00:00:00 -0000"),
            (1_794_709_123_999, "Sun, 15 Nov 2026 02:18:43 -0000"),
            (951_782_400_000, "Tue, 29 Feb 2000 00:00:00 -0000"),
            (-1, "Wed, 31 Dec 1969 23:59:59 -0000"),
        ] {
            assert_eq!(rfc2822(epoch_ms), text);
        }
    }

    #[test]
    fn every_day_comes_back() {
        for day in (-200_000..200_000).step_by(13) {
            let text = rfc2822(day * DAY_S * 1000);
            assert_eq!(parse(&text), Some((day * DAY_S) as f64), "{text}");
        }
    }

    #[test]
    fn one_instant_has_many_spellings() {
        for text in [
            "Sun, 15 Nov 2026 02:18:43 -0000",
            "Sun, 15 Nov 2026 02:18:43 GMT",
            "15 Nov 2026 03:18:43 +0100",
            "15 Nov 2026 03:18:43  0100",
            "2026-11-15T02:18:43Z",
            "2026-11-15T02:18:43",
            "2026-11-15 02:18:43",
            "2026-11-15T02:18:43.000+00:00",
            "2026-11-15T03:18:43+01:00",
            "2026-11-15T03:18:43 01:00",
            "2026-11-14T21:18:43-0500",
        ] {
            assert_eq!(parse(text), Some(1_794_709_123.0), "{text}");
        }
        assert_eq!(parse("2026-11-15T02:18:43.5Z"), Some(1_794_709_123.5));
        assert_eq!(parse("2026-11-15"), Some(1_794_700_800.0));
    }

    #[test]
    fn invalid_dates_are_rejected() {
        for text in [
            "",
            "now",
            "1794709123",
            "Mon, 15 Nov 2026 02:18:43 -0000",
            "Sun, 15 Nov 2026 02:18:43",
            "15 Nov 26 02:18:43 GMT",
            "31 Jun 2026 00:00:00 GMT",
            "2026-02-29",
            "2026-13-01",
            "2026-11-15T24:00:00Z",
            "2026-11-15T02:60:00Z",
            "2026-11-15T02:18:43+25:00",
            "2026-11-15T02:18:43Zx",
            "2026-11-15T",
            "+026-11-15",
            "2026-11-1é",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
