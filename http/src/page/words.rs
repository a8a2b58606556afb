//! Formats times and numbers for people. The script of the pages formats durations in the same way.

use leasehold_base::calendar;
use maud::{Markup, html};

/// Formats a duration, such as `3 min 05 s`. Two units keep the text short and its width steady.
pub fn length(ms: u64) -> String {
    let s = ms / 1000;
    match s {
        0..60 => format!("{s} s"),
        60..3600 => format!("{} min {:02} s", s / 60, s % 60),
        3600..86_400 => format!("{} h {:02} min", s / 3600, s / 60 % 60),
        _ => format!("{} d {} h", s / 86_400, s / 3600 % 24),
    }
}

/// Renders a duration that the script counts down. `whole` is the full duration, if known; it adds a bar.
pub fn left(ms: u64, whole: Option<u64>) -> Markup {
    let whole = whole.filter(|whole| *whole > 0);
    let share = whole.map(|whole| ms.min(whole) * 100 / whole);
    html! {
        span data-left=(ms) data-whole=[whole] {
            span.run { (length(ms)) }
            @if let Some(share) = share {
                svg.left viewBox="0 0 100 3" preserveAspectRatio="none" aria-hidden="true" {
                    rect.rail width="100" height="3" {}
                    rect width=(share) height="3" {}
                }
            }
        }
    }
}

/// Renders a duration that the script counts up.
pub fn ago(ms: u64) -> Markup {
    html! { span data-since=(ms) { (length(ms)) } }
}

/// Renders a time such as `2026-11-16 06:30:00.123 UTC`.
pub fn moment(wall_ms: i64) -> Markup {
    let text = calendar::to_millis(wall_ms);
    let shown = text.replace('T', " ").replace('Z', "");
    html! { time datetime=(text) { (shown) span.dim { " UTC" } } }
}

/// Renders a time such as `2026-11-16 06:30:00`, in UTC.
pub fn day(wall_ms: i64) -> Markup {
    let text = calendar::to_millis(wall_ms);
    let shown = text.split('.').next().unwrap_or_default().replace('T', " ");
    html! { time datetime=(text) { (shown) } }
}

/// Formats a number such as `100,000`.
pub fn count(n: usize) -> String {
    let digits = n.to_string();
    let mut said = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            said.push(',');
        }
        said.push(digit);
    }
    said
}

/// Formats a size such as `1.5 MiB`.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut unit = 0;
    let mut n_tenths = n.saturating_mul(10);
    while n_tenths >= 10_240 && unit < UNITS.len() - 1 {
        n_tenths /= 1024;
        unit += 1;
    }
    let unit_name = UNITS[unit];
    match unit {
        0 => format!("{n} B"),
        _ => format!("{}.{} {unit_name}", n_tenths / 10, n_tenths % 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_numbers_are_short_and_plain() {
        for (ms, said) in [
            (0, "0 s"),
            (59_999, "59 s"),
            (60_000, "1 min 00 s"),
            (3_599_000, "59 min 59 s"),
            (3_600_000, "1 h 00 min"),
            (90_061_000, "1 d 1 h"),
        ] {
            assert_eq!(length(ms), said);
        }
        for (n, said) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(count(n), said);
        }
        for (n, said) in [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1_572_864, "1.5 MiB")] {
            assert_eq!(bytes(n), said);
        }
        let said = left(2500, Some(10_000)).into_string();
        assert!(said.contains("data-left=\"2500\"") && said.contains("width=\"25\""), "{said}");
        assert!(!left(1, None).into_string().contains("svg"));
    }
}
