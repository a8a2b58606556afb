//! Charts of the samples that this server has taken.

use std::fmt::Write;

use maud::{Markup, html};

use super::sample::{KEPT, Sample};
use crate::http::page::count;

const WIDTH: f64 = 120.0;
const HEIGHT: f64 = 40.0;

/// Renders a line without labels, to be shown next to a number. The samples fill the whole width.
pub(super) fn spark(samples: &[Sample], of: impl Fn(&Sample) -> f64) -> Markup {
    let traced = trace(samples, of, samples.len());
    html! {
        svg viewBox="0 0 120 40" preserveAspectRatio="none" aria-hidden="true" focusable="false" { (traced) }
    }
}

/// Renders a chart with its name and maximum, and with a text description for screen readers.
pub(super) fn chart(word: &str, samples: &[Sample], of: impl Fn(&Sample) -> f64) -> Markup {
    let most = samples.iter().map(&of).fold(0.0, f64::max);
    let latest = samples.last().map_or(0.0, &of);
    let (latest, most) = (figure(latest), figure(most));
    let said = format!("{word}: {latest} now, at most {most} in the last ten minutes");
    html! {
        figure {
            figcaption { span { (word) } span { "at most " (most) } }
            svg.chart viewBox="0 0 120 40" preserveAspectRatio="none" role="img" aria-label=(said) {
                line.axis x1="0" y1="39.5" x2="120" y2="39.5" {}
                (trace(samples, of, KEPT))
            }
        }
    }
}

/// Formats a number with one decimal, such as `1,600.6`; integers have no decimal.
fn figure(n: f64) -> String {
    let tenths = (n * 10.0).round() as usize;
    match tenths % 10 {
        0 => count(tenths / 10),
        tenth => format!("{}.{tenth}", count(tenths / 10)),
    }
}

/// Renders a line of up to `n_room` samples with the newest sample at the right end. If there are fewer samples, the
/// left part stays empty.
fn trace(samples: &[Sample], of: impl Fn(&Sample) -> f64, n_room: usize) -> Markup {
    if samples.len() < 2 {
        return html! {};
    }
    let most = samples.iter().map(&of).fold(1.0, f64::max);
    let step = WIDTH / (n_room - 1) as f64;
    let n_missing = n_room.saturating_sub(samples.len());
    let mut line = String::new();
    for (n, sample) in samples.iter().enumerate() {
        let x = (n_missing + n) as f64 * step;
        let y = HEIGHT - 1.0 - of(sample) / most * (HEIGHT - 4.0);
        // Writing to a string cannot fail.
        let _ = write!(line, "{}{x:.1} {y:.1}", if n == 0 { "M" } else { "L" });
    }
    let first = n_missing as f64 * step;
    let area = format!("{line}L{WIDTH:.1} {HEIGHT:.1}L{first:.1} {HEIGHT:.1}Z");
    html! { path.under d=(area) {} path.trace d=(line) {} }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_is_at_the_right_end_and_the_most_at_the_top() {
        let samples = [0, 5, 10].map(|n_held| Sample { n_held, ..Sample::default() });
        let n_held = |sample: &Sample| sample.n_held as f64;
        let drawn = spark(&samples, n_held).into_string();
        assert!(drawn.contains("d=\"M0.0 39.0L60.0 21.0L120.0 3.0\""), "{drawn}");
        let drawn = chart("Held", &samples, n_held).into_string();
        assert!(
            drawn.contains("L120.0 3.0\"") && drawn.contains("M118.0 39.0L119.0 21.0"),
            "{drawn}"
        );
        assert!(!spark(&[], |_| 0.0).into_string().contains("path"));
        let said = [0.0, 0.26, 10.0, 1600.6, 17_856.0].map(figure);
        assert_eq!(said, ["0", "0.3", "10", "1,600.6", "17,856"]);
    }
}
