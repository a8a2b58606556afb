//! Wall-clock times as text, and the days of the calendar. All in UTC.

const DAY_MS: i64 = 86_400_000;

/// Formats as `2024-01-15T10:30:00Z`. Rounded down, so that a client that reads a deadline gives up sooner, never
/// later.
pub fn to_seconds(wall_ms: i64) -> String {
    format!("{}Z", without_zone(wall_ms))
}

/// Formats as `2024-01-15 10:30`, for people.
pub fn to_minutes(wall_ms: i64) -> String {
    let text = without_zone(wall_ms).replace('T', " ");
    text.rsplit_once(':').map_or(text.clone(), |(minutes, _)| minutes.to_owned())
}

/// Formats as `2024-01-15T10:30:00.000Z`.
pub fn to_millis(wall_ms: i64) -> String {
    format!("{}.{:03}Z", without_zone(wall_ms), wall_ms.rem_euclid(1000))
}

fn without_zone(wall_ms: i64) -> String {
    let (year, month, day) = date(wall_ms.div_euclid(DAY_MS));
    let second = wall_ms.rem_euclid(DAY_MS) / 1000;
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
}

// In these calculations, years begin in March, so that the leap day is their last day. They form eras of 400 years,
// which all have the same number of days.
const ERA_DAYS: i64 = 146_097;
/// The days from 0000-03-01 to 1970-01-01.
const EPOCH_DAYS: i64 = 719_468;

/// Returns the day of this date, counted from 1970-01-01. `None` if there is no such date, such as June 31.
pub fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    let from_march = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (from_march.div_euclid(400), from_march.rem_euclid(400));
    // From March on, every five months have 153 days.
    let day_of_year = (153 * (month + 9).rem_euclid(12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = era * ERA_DAYS + day_of_era - EPOCH_DAYS;
    // A date that does not exist counts as another one, such as June 31 as July 1.
    (date(days) == (year, month, day)).then_some(days)
}

/// Returns the year, month and day of a day counted from 1970-01-01.
pub fn date(days: i64) -> (i64, i64, i64) {
    let days = days + EPOCH_DAYS;
    let (era, day_of_era) = (days.div_euclid(ERA_DAYS), days.rem_euclid(ERA_DAYS));
    let leap_days = day_of_era / 1460 - day_of_era / 36_524 + day_of_era / (ERA_DAYS - 1);
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let months = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * months + 2) / 5 + 1;
    let month = if months < 10 { months + 3 } else { months - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc() {
        for (wall_ms, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (999, "1970-01-01T00:00:00Z"),
            (1000, "1970-01-01T00:00:01Z"),
            (-1, "1969-12-31T23:59:59Z"),
            (951_782_400_000, "2000-02-29T00:00:00Z"),
            (951_868_800_000, "2000-03-01T00:00:00Z"),
            (1_705_314_600_000, "2024-01-15T10:30:00Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59Z"),
            (1_735_689_599_000, "2024-12-31T23:59:59Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00Z"),
            (253_402_300_799_000, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(to_seconds(wall_ms), text, "{wall_ms}");
        }
        assert_eq!(to_minutes(1_705_314_659_999), "2024-01-15 10:30");
        assert_eq!(to_millis(-1), "1969-12-31T23:59:59.999Z");
        assert_eq!(to_millis(1_771_144_200_001), "2026-02-15T08:30:00.001Z");
    }

    #[test]
    fn every_day_of_four_centuries_follows_the_one_before() {
        let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let mut expected = (1970, 1, 1);
        for n in 0..ERA_DAYS {
            assert_eq!(date(n), expected);
            let (year, month, day) = expected;
            assert_eq!(days(year, month, day), Some(n));
            let last = match month {
                2 => 28 + i64::from(is_leap(year)),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            expected = match (month, day == last) {
                (_, false) => (year, month, day + 1),
                (12, true) => (year + 1, 1, 1),
                (_, true) => (year, month + 1, 1),
            };
        }
    }
    #[test]
    fn a_date_is_a_number_of_days_if_it_exists() {
        for (date, n) in [
            ((1969, 12, 31), Some(-1)),
            ((2000, 2, 29), Some(11_016)),
            ((2027, 2, 13), Some(20_862)),
            ((9999, 12, 31), Some(2_932_896)),
            ((2027, 2, 29), None),
            ((2026, 6, 31), None),
            ((2026, 13, 1), None),
            ((2026, 0, 1), None),
            ((2026, 1, 0), None),
        ] {
            assert_eq!(days(date.0, date.1, date.2), n, "{date:?}");
        }
    }
}
