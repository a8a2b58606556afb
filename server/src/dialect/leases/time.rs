//! Wall-clock times as ISO-8601 texts, in UTC with milliseconds.

const DAY_MS: i64 = 86_400_000;

/// `2026-02-15T08:30:00.000Z` from milliseconds since 1970.
pub(super) fn iso(wall_ms: i64) -> String {
    let (days, ms) = (wall_ms.div_euclid(DAY_MS), wall_ms.rem_euclid(DAY_MS));
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
    let ms = ms % 1000;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// Year, month and day of a day since 1970-01-01.
///
/// Years are counted from March, so that the leap day is the last of its year and months have the same
/// lengths every year: 153 days in every five. 400 years have 146,097 days.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468; // Since 0000-03-01.
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let leap_days = day_of_era / 1460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_where_the_calendar_has_them() {
        for (wall_ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_000_000_000_000, "2001-09-09T01:46:40.000Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999Z"),
            (1_771_144_200_001, "2026-02-15T08:30:00.001Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(iso(wall_ms), text);
        }
    }

    #[test]
    fn every_day_of_four_centuries_follows_the_one_before() {
        let mut before = civil(-1);
        for days in 0..146_097 {
            let (year, month, day) = civil(days);
            let is_next = match before {
                (y, 12, 31) => (year, month, day) == (y + 1, 1, 1),
                (y, m, d) => {
                    (year, month, day) == (y, m, d + 1) && d < 31
                        || (year, month, day) == (y, m + 1, 1) && d >= 28
                }
            };
            assert!(is_next, "{before:?} then {:?}", (year, month, day));
            before = (year, month, day);
        }
    }
}
