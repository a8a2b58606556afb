//! Computes when a rejected client should retry.

use crate::time::Span;

/// The bounds for the retry delay of rejected clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RetryHint {
    /// The minimum delay.
    pub min: Span,
    /// The maximum delay.
    pub max: Span,
}

impl Default for RetryHint {
    fn default() -> Self {
        Self { min: Span::from_millis(25), max: Span::from_millis(1000) }
    }
}

impl RetryHint {
    /// Returns a quarter of the time the holder has left, within the bounds. With several rejections in a row,
    /// `nth_refused` spreads the delays, so that the clients do not all retry at the same time.
    pub fn after(&self, remaining: Option<Span>, nth_refused: usize) -> Span {
        let quarter = remaining.map_or(self.max.as_nanos(), |span| span.as_nanos() / 4);
        let base = quarter.clamp(self.min.as_nanos(), self.max.as_nanos());
        // The spread is between half of the delay and all of it. Successive clients get values that are far apart.
        let place = (nth_refused as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48;
        let spread = base / 2 * place / (1 << 16);
        let spread_base = if nth_refused == 0 { base } else { base / 2 + spread };
        Span::from_nanos(spread_base.clamp(self.min.as_nanos(), self.max.as_nanos()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_a_quarter_of_what_is_left_within_bounds() {
        let hint = RetryHint::default();
        let after = |ms| hint.after(Some(Span::from_millis(ms)), 0).as_millis();
        assert_eq!(
            [after(0), after(100), after(400), after(4000), after(60_000)],
            [25, 25, 100, 1000, 1000]
        );
        assert_eq!(hint.after(None, 0).as_millis(), 1000);
    }

    #[test]
    fn spreads_those_who_are_refused_together() {
        let hint = RetryHint::default();
        let mut times: Vec<_> =
            (1..=100).map(|n| hint.after(Some(Span::from_secs(4)), n).as_millis()).collect();
        times.sort_unstable();
        assert!(times.iter().all(|ms| (500..=1000).contains(ms)));
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] < 30), "{times:?}");
    }
}
