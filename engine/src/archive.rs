//! Reads past events: the latest from memory, older ones from the history on disk.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use leasehold_auth::{Permitted, View};
use leasehold_store::history::{Bounds, History, Page, Query};
use leasehold_store::{Event, EventId};
use tokio::sync::Semaphore;

use super::EngineHandle;

/// Maximum history queries at the same time. Each opens the file separately; further queries wait.
pub const QUERIES_MAX: usize = 4;
/// Files that a query opens: the database, its write-ahead log and the index of that log.
pub const FILES_PER_QUERY: usize = 3;

/// A request for past events.
#[derive(Clone, Debug, Default)]
pub struct ReadHistory {
    /// The events to find.
    pub query: Query,
    /// The locks whose events the caller can see.
    pub view: View,
}

impl ReadHistory {
    /// Returns whether the event matches the query and is visible to the caller.
    pub fn wants(&self, event: &Event) -> bool {
        self.query.wants(event) && self.view.shows(&event.fact.lock)
    }
}

/// Past events, newest first.
#[derive(Default)]
pub struct PastEvents {
    /// The events.
    pub events: Vec<Arc<Event>>,
    /// Older events might exist before this one.
    pub before: Option<EventId>,
    /// Journal records, among those searched, whose events are not recorded: the first and the last of each gap.
    pub gaps: Vec<(u64, u64)>,
}

/// The readable past of a server. Clones share one limit of concurrent queries.
#[derive(Clone)]
pub struct Archive {
    /// The history on disk, if the server keeps one.
    history: Option<History>,
    /// Maximum age of events that are returned. Older ones are not returned, even if they are still on disk.
    age_max: Duration,
    queries: Arc<Semaphore>,
}

impl Default for Archive {
    /// An archive without a history on disk.
    fn default() -> Self {
        let queries = Arc::new(Semaphore::new(QUERIES_MAX));
        Self { history: None, age_max: Bounds::default().age_max, queries }
    }
}

impl Archive {
    /// Also returns events from the history in a data directory.
    #[must_use]
    pub fn with_history(self, data: &Path) -> Self {
        Self { history: Some(History::of(data)), ..self }
    }

    /// Returns only events that are not older than this.
    #[must_use]
    pub fn with_age_max(self, age_max: Duration) -> Self {
        Self { age_max, ..self }
    }

    /// Returns at most `n_max` matching events that are older than `before`, or why the history is unreadable.
    pub async fn find(
        &self,
        engine: &EngineHandle,
        asked: Permitted<ReadHistory>,
        before: Option<EventId>,
        n_max: usize,
    ) -> Result<PastEvents, String> {
        // Both sources can still contain events that are too old: the history file is deleted block by block, and
        // memory only when it is full.
        let mut asked = asked.into_inner();
        asked.query = asked.query.not_before(self.oldest_ms(engine));
        let (mut events, oldest) = engine.recent(&asked, before, n_max);
        if events.len() == n_max {
            let before = events.last().map(|event| event.id);
            return Ok(PastEvents { events, before, ..PastEvents::default() });
        }
        let before = before.map_or(oldest, |before| before.min(oldest));
        let n_left = n_max - events.len();
        let page = self.find_on_disk(asked, before, n_left).await;
        let page = page.map_err(|why| format!("cannot read history: {why}"))?;
        events.extend(page.events.into_iter().map(Into::into));
        Ok(PastEvents { events, before: page.before, gaps: page.gaps })
    }

    async fn find_on_disk(
        &self,
        asked: ReadHistory,
        before: EventId,
        n_max: usize,
    ) -> Result<Page, String> {
        let Some(history) = self.history.clone() else { return Ok(Page::default()) };
        let place =
            self.queries.clone().acquire_owned().await.map_err(|error| error.to_string())?;
        let find = move || {
            // The query continues even if the client disconnects, so it keeps its permit until it ends.
            let _place = place;
            let shows = |event: &Event| asked.view.shows(&event.fact.lock);
            history.find_visible(&asked.query, shows, Some(before), n_max)
        };
        tokio::task::spawn_blocking(find).await.map_err(|error| error.to_string())?
    }

    /// Returns the earliest time of events to return (history-age-max), in epoch milliseconds.
    fn oldest_ms(&self, engine: &EngineHandle) -> i64 {
        let age_ms = i64::try_from(self.age_max.as_millis()).unwrap_or(i64::MAX);
        engine.wall_ms().saturating_sub(age_ms)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_query_over_the_limit_waits_for_another_to_end() {
        let directory = tempfile::tempdir().expect("a directory");
        let archive = Archive::default().with_history(directory.path());
        let before = EventId { seq: 1, index: 0 };
        let find = || archive.find_on_disk(ReadHistory::default(), before, 1);
        let all = u32::try_from(QUERIES_MAX).expect("few");
        let others = archive.queries.clone().acquire_many_owned(all).await.expect("there are some");
        // The clock stands still while anything blocks.
        assert!(timeout(Duration::from_secs(60), find()).await.is_err(), "it did not wait");
        drop(others);
        assert!(find().await.is_ok_and(|page| page.events.is_empty()));
    }
}
