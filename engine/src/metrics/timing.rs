//! Timings: histograms whose bounds grow by powers of two.
//!
//! An observation takes a division and two additions, without a lock. A timing can be shown in several units, because
//! the documents prescribe milliseconds for one metric and Prometheus recommends seconds.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// The bounds of a histogram: `n` bounds starting at `first`. Each is `n_doublings` doublings above the previous one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    pub first: Duration,
    pub(crate) n_doublings: u32,
    pub n: usize,
}

impl Scale {
    /// Requests and writes: 50 microseconds to 26 seconds.
    pub(crate) const WORK: Self = Self { first: Duration::from_micros(50), n_doublings: 1, n: 20 };
    /// Leases and waits: a millisecond to 4.6 hours.
    pub(crate) const LEASE: Self = Self { first: Duration::from_millis(1), n_doublings: 2, n: 13 };

    /// Returns the index of the first bound that is not below `time`, or `n` if all are.
    fn place(self, time: Duration) -> usize {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let beyond = nanos.saturating_sub(1) / self.first.as_nanos() as u64;
        let n_doublings = u64::BITS - beyond.leading_zeros();
        (n_doublings.div_ceil(self.n_doublings) as usize).min(self.n)
    }

    fn bounds(self) -> impl Iterator<Item = Duration> {
        (0..self.n as u32).map(move |place| self.first * (1 << (place * self.n_doublings)))
    }
}

/// A histogram. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Timing(Arc<Buckets>);

#[derive(Debug)]
struct Buckets {
    scale: Scale,
    /// The last counter is for times beyond all bounds.
    counts: Box<[AtomicU64]>,
    /// The sum in seconds, as the bits of a float. In nanoseconds, the total hold time of all leases would soon
    /// overflow.
    sum: AtomicU64,
}

impl Timing {
    pub(crate) fn new(scale: Scale) -> Self {
        let counts = (0..=scale.n).map(|_| AtomicU64::new(0)).collect();
        Self(Arc::new(Buckets { scale, counts, sum: AtomicU64::new(0) }))
    }

    /// Adds a time.
    pub fn observe(&self, time: Duration) {
        let Buckets { scale, counts, sum } = &*self.0;
        counts[scale.place(time)].fetch_add(1, Relaxed);
        let add = |bits| Some((f64::from_bits(bits) + time.as_secs_f64()).to_bits());
        // The update function never returns `None`, so this cannot fail.
        let _ = sum.fetch_update(Relaxed, Relaxed, add);
    }

    fn encode(&self, mut encoder: MetricEncoder<'_>, unit: Unit) -> fmt::Result {
        let Buckets { scale, counts, sum } = &*self.0;
        let bounds = scale.bounds().map(|bound| unit.of(bound)).chain([f64::INFINITY]);
        let buckets: Vec<_> = bounds.zip(counts.iter().map(|count| count.load(Relaxed))).collect();
        let n = buckets.iter().map(|(_, n)| n).sum();
        let sum = f64::from_bits(sum.load(Relaxed)) * unit.per_second();
        encoder.encode_histogram::<NoLabelSet>(sum, n, &buckets, None)
    }
}

/// The unit in which times are shown.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unit {
    Seconds,
    Milliseconds,
}

impl Unit {
    fn per_second(self) -> f64 {
        match self {
            Unit::Seconds => 1.0,
            Unit::Milliseconds => 1000.0,
        }
    }

    /// Divides, because multiplying would show 50 microseconds as 0.000049999.
    fn of(self, time: Duration) -> f64 {
        time.as_nanos() as f64 / (1e9 / self.per_second())
    }
}

/// One metric made of several timings with different labels, or of one without labels.
#[derive(Debug)]
pub struct Shown {
    pub(crate) unit: Unit,
    pub(crate) series: Vec<(Vec<(&'static str, &'static str)>, Timing)>,
}

impl Shown {
    /// Shows one timing, in seconds.
    pub fn one(timing: &Timing) -> Self {
        Self { unit: Unit::Seconds, series: vec![(Vec::new(), timing.clone())] }
    }
}

impl EncodeMetric for Shown {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        // A metric without labels would otherwise be written with empty braces.
        if let [(labels, timing)] = &self.series[..]
            && labels.is_empty()
        {
            return timing.encode(encoder, self.unit);
        }
        self.series.iter().try_for_each(|(labels, timing)| {
            timing.encode(encoder.encode_family(labels)?, self.unit)
        })
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_counted_with_the_first_bound_that_is_not_below_it() {
        for scale in [Scale::WORK, Scale::LEASE] {
            let bounds: Vec<_> = scale.bounds().collect();
            assert_eq!(bounds.len(), scale.n);
            for (place, bound) in bounds.iter().enumerate() {
                let nano = Duration::from_nanos(1);
                assert_eq!(scale.place(*bound), place, "{bound:?}");
                assert_eq!(scale.place(*bound + nano), place + 1, "{bound:?}");
                assert_eq!(scale.place(*bound - nano), place, "{bound:?}");
            }
            assert_eq!(scale.place(Duration::ZERO), 0);
            assert_eq!(scale.place(Duration::MAX), scale.n);
        }
    }

    #[test]
    fn the_same_times_are_shown_in_either_unit() {
        let timing = Timing::new(Scale::WORK);
        timing.observe(Duration::from_micros(50));
        timing.observe(Duration::from_millis(3));
        let mut registry = prometheus_client::registry::Registry::default();
        for (name, unit) in [("a_seconds", Unit::Seconds), ("b_ms", Unit::Milliseconds)] {
            let series = vec![(vec![("op", "renew")], timing.clone())];
            registry.register(name, "About", Shown { unit, series });
        }
        registry.register("c_seconds", "About", Shown::one(&timing));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("a string");
        for line in [
            "a_seconds_sum{op=\"renew\"} 0.00305",
            "a_seconds_bucket{le=\"0.00005\",op=\"renew\"} 1",
            "a_seconds_bucket{le=\"0.0032\",op=\"renew\"} 2",
            "b_ms_sum{op=\"renew\"} 3.05",
            "b_ms_count{op=\"renew\"} 2",
            "b_ms_bucket{le=\"0.05\",op=\"renew\"} 1",
            "b_ms_bucket{le=\"+Inf\",op=\"renew\"} 2",
            "c_seconds_count 2",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }
}
