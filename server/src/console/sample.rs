//! Samples of a few counters, taken every few seconds and shown in charts.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_base::sync::lock;

use crate::metrics::{Load, Metrics};

/// Interval between two samples.
pub(crate) const EVERY: Duration = Duration::from_secs(5);
/// Maximum number of samples: ten minutes.
pub(super) const KEPT: usize = 120;

/// The counters at one time.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Sample {
    /// Active leases.
    pub(super) n_held: i64,
    /// Waiting leases.
    pub(super) n_waiting: i64,
    /// Leases granted per second since the previous sample.
    pub(super) granted_per_s: f64,
}

/// The latest samples. All threads share them.
#[derive(Default)]
pub(crate) struct Samples(Mutex<SampleBuffer>);

#[derive(Default)]
struct SampleBuffer {
    samples: VecDeque<Sample>,
    n_granted: Option<u64>,
}

impl Samples {
    /// Takes samples indefinitely.
    pub(crate) async fn keep_up(self: Arc<Self>, metrics: Arc<Metrics>) {
        let mut ticks = tokio::time::interval(EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.add(metrics.load());
        }
    }

    fn add(&self, load: Load) {
        let mut kept = lock(&self.0);
        let Load { n_held, n_waiting, n_granted } = load;
        let before = kept.n_granted.replace(n_granted).unwrap_or(n_granted);
        let granted_per_s = n_granted.saturating_sub(before) as f64 / EVERY.as_secs_f64();
        if kept.samples.len() == KEPT {
            kept.samples.pop_front();
        }
        kept.samples.push_back(Sample { n_held, n_waiting, granted_per_s });
    }

    /// Returns the samples, oldest first.
    pub(super) fn latest(&self) -> Vec<Sample> {
        lock(&self.0).samples.iter().copied().collect()
    }

    /// Returns the latest rate of grants as text.
    pub(super) fn rate(samples: &[Sample]) -> String {
        let rate = samples.last().map_or(0.0, |sample| sample.granted_per_s);
        if rate < 10.0 { format!("{rate:.1}") } else { crate::http::page::count(rate as usize) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_latest_are_kept_and_rates_are_of_the_time_between() {
        let samples = Samples::default();
        for n in 0..200 {
            samples.add(Load { n_held: n, n_waiting: 0, n_granted: 1000 + 10 * n as u64 });
        }
        let latest = samples.latest();
        assert_eq!((latest.len(), latest[0].n_held), (KEPT, 80));
        assert_eq!(Samples::rate(&latest), "2.0");
        assert_eq!(Samples::rate(&[]), "0.0");
    }
}
