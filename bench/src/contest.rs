//! Measures several peers in turns: in another order in every round, and compared within each round.

use indicatif::ProgressBar;

use crate::load::{self, Sample, Work};
use crate::peer::Peer;

/// A peer with any protocol.
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    run: Box<dyn Fn(usize, f64, Work) -> Sample>,
}

impl Contender {
    pub(crate) fn new<P: Peer + 'static>(peer: P) -> Self {
        let name = peer.name();
        Self { name, run: Box::new(move |n, seconds, work| load::run(&peer, n, seconds, work)) }
    }

    pub(crate) fn called(self, name: &'static str) -> Self {
        Self { name, ..self }
    }
}

/// The results of one peer in all rounds.
pub(crate) struct Series {
    pub(crate) name: &'static str,
    pub(crate) rates: Vec<f64>,
    /// Processor time of the server per request, in microseconds, for each round.
    pub(crate) processor_us: Vec<f64>,
    pub(crate) total: Sample,
}

impl Series {
    /// Returns the median rate, with the lowest and the highest.
    pub(crate) fn spread(&self) -> Spread {
        Spread::of(self.rates.clone())
    }

    /// Returns the processor time of a request as a multiple of that of the other peer, compared within each round.
    pub(crate) fn processor_ratio(&self, other: &Series) -> Spread {
        let pairs = self.processor_us.iter().zip(&other.processor_us);
        Spread::of(pairs.map(|(ours, theirs)| ours / theirs).collect())
    }

    /// Returns the rate of this peer as a multiple of that of the other peer, compared within each round.
    pub(crate) fn ratio(&self, other: &Series) -> Spread {
        Spread::of(
            self.rates.iter().zip(&other.rates).map(|(ours, theirs)| ours / theirs).collect(),
        )
    }
}

/// A median with its extremes.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    pub(crate) fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let last = values.len() - 1;
        Self { median: values[values.len() / 2], min: values[0], max: values[last] }
    }
}

/// Number and length of the rounds.
#[derive(Clone, Copy)]
pub(crate) struct Pace {
    pub(crate) rounds: usize,
    pub(crate) seconds: f64,
}

/// Measures all contenders with this number of connections, `rounds` times, in another order each time.
pub(crate) fn compare(
    contenders: &[Contender],
    n_connections: usize,
    pace: Pace,
    work: Work,
    progress: &ProgressBar,
) -> Vec<Series> {
    let empty = |contender: &Contender| Series {
        name: contender.name,
        rates: Vec::new(),
        processor_us: Vec::new(),
        total: Sample::new(),
    };
    let mut series: Vec<_> = contenders.iter().map(empty).collect();
    let mut order: Vec<_> = (0..contenders.len()).collect();
    for _ in 0..pace.rounds {
        fastrand::shuffle(&mut order);
        for &n in &order {
            progress.set_message(format!("{}, {n_connections} connections", contenders[n].name));
            let sample = (contenders[n].run)(n_connections, pace.seconds, work);
            series[n].rates.push(sample.rate());
            series[n].processor_us.push(sample.processor_us());
            series[n].total.add(&sample);
            progress.inc(1);
        }
    }
    series
}

/// Returns the series with this name.
pub(crate) fn named<'a>(series: &'a [Series], name: &str) -> &'a Series {
    series.iter().find(|series| series.name == name).expect("a peer of that name")
}
