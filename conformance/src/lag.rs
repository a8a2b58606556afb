//! Measures how late this process is scheduled. On an overloaded machine, the results prove nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

/// How often it measures.
const EVERY: Duration = Duration::from_millis(10);

/// The largest delay of this process since this value was created.
pub struct Lag {
    max_ms: Arc<AtomicU64>,
    looking: JoinHandle<()>,
}

impl Lag {
    /// Starts to measure.
    pub fn watch() -> Self {
        let max_ms = Arc::<AtomicU64>::default();
        let noted = max_ms.clone();
        let looking = tokio::spawn(async move {
            loop {
                let asleep_at = Instant::now();
                tokio::time::sleep(EVERY).await;
                let late = asleep_at.elapsed().saturating_sub(EVERY);
                noted.fetch_max(u64::try_from(late.as_millis()).unwrap_or(u64::MAX), Relaxed);
            }
        });
        Self { max_ms, looking }
    }

    /// Returns the largest delay so far.
    pub fn max(&self) -> Duration {
        Duration::from_millis(self.max_ms.load(Relaxed))
    }
}

impl Drop for Lag {
    fn drop(&mut self) {
        self.looking.abort();
    }
}
