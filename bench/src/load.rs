//! The load, which is the same for every peer: keep-alive connections, with one request at a time on each, on one
//! thread.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::machine;
use crate::peer::{Client, Peer};

/// The longest latency that is recorded, in microseconds; longer ones count as this long.
const MICROS_MAX: u64 = 60_000_000;
/// Number of locks that each connection uses in turn.
const KEYS_EACH: usize = 64;

/// The work that every connection repeats.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// Acquires and releases a lock that no other connection uses: two requests.
    Cycle,
    /// The same, started at this interval by each connection, so that a slower server gets as many requests.
    Paced { every: Duration },
    /// Acquires and releases the one lock that all connections want: one grant.
    Hot,
}

/// The result of a measurement.
pub(crate) struct Sample {
    /// Number of requests, or of grants.
    pub(crate) n_done: u64,
    pub(crate) seconds: f64,
    /// Processor time of the server, if it was measured.
    pub(crate) processor_seconds: f64,
    /// Latency of one cycle, in microseconds.
    pub(crate) latency: Histogram<u64>,
}

impl Sample {
    pub(crate) fn new() -> Self {
        let latency = Histogram::new_with_bounds(1, MICROS_MAX, 3).expect("bounds that make sense");
        Self { n_done: 0, seconds: 0.0, processor_seconds: 0.0, latency }
    }

    /// Returns the requests or grants per second.
    pub(crate) fn rate(&self) -> f64 {
        self.n_done as f64 / self.seconds
    }

    /// Returns the processor time of the server per request or grant, in microseconds.
    pub(crate) fn processor_us(&self) -> f64 {
        self.processor_seconds * 1e6 / self.n_done.max(1) as f64
    }

    /// Returns the time in milliseconds within which this share of the cycles was finished.
    pub(crate) fn ms(&self, share: f64) -> f64 {
        self.latency.value_at_quantile(share) as f64 / 1000.0
    }

    pub(crate) fn count(&mut self, began: Instant, n: u64) {
        self.n_done += n;
        self.latency.saturating_record(began.elapsed().as_micros() as u64);
    }

    pub(crate) fn add(&mut self, other: &Sample) {
        self.n_done += other.n_done;
        self.processor_seconds += other.processor_seconds;
        self.latency.add(&other.latency).expect("the same bounds");
    }
}

/// Runs a future that can spawn others on this thread.
pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, work)
}

/// Opens `n_connections` connections, and then runs the work for `seconds`.
pub(crate) fn run<P: Peer>(peer: &P, n_connections: usize, seconds: f64, work: Work) -> Sample
where
    P::Client: 'static,
{
    block_on(async {
        let mut clients = Vec::new();
        for n in 0..n_connections {
            clients.push(peer.connect(n).await);
        }
        let processor_before = machine::processor_seconds(&peer.pids());
        let began = Instant::now();
        let until = began + Duration::from_secs_f64(seconds);
        let clients = clients.into_iter().enumerate();
        let tasks: Vec<_> = clients
            .map(|(n, client)| tokio::task::spawn_local(keep_at(client, n, until, work)))
            .collect();
        let mut all = Sample::new();
        for task in tasks {
            all.add(&task.await.expect("no panic"));
        }
        all.seconds = began.elapsed().as_secs_f64();
        all.processor_seconds = machine::processor_seconds(&peer.pids()) - processor_before;
        all
    })
}

/// Runs the work of one connection.
pub(crate) async fn keep_at(
    mut client: impl Client,
    n: usize,
    until: Instant,
    work: Work,
) -> Sample {
    let mut sample = Sample::new();
    let mut round = 0;
    // The connections do not all start at the same moment.
    let mut next = Instant::now() + phase(work, n);
    while Instant::now() < until {
        if let Work::Paced { every } = work {
            tokio::time::sleep_until(next.into()).await;
            next += every;
        }
        let began = Instant::now();
        match work {
            Work::Cycle | Work::Paced { .. } => {
                let key = format!("bench-{n}-{}", round % KEYS_EACH);
                client.acquire(&key).await;
                client.release(&key).await;
                sample.count(began, 2);
            }
            Work::Hot => {
                client.wait_for("hot").await;
                client.release("hot").await;
                sample.count(began, 1);
            }
        }
        round += 1;
    }
    sample
}

/// Returns how much later than the first connection this one starts.
fn phase(work: Work, n: usize) -> Duration {
    match work {
        Work::Paced { every } => every * (n % KEYS_EACH) as u32 / KEYS_EACH as u32,
        Work::Cycle | Work::Hot => Duration::ZERO,
    }
}
