//! What happened, also long ago: the latest events are in memory; whatever is older than all of those is on disk.

use std::path::Path;
use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::app::App;
use crate::auth::Permitted;
use crate::engine::{Event, EventId};
use crate::store::history::{Asked, History, Page};

/// Most queries of history at a time. Each opens the file for itself; more of them wait.
pub(crate) const QUERIES_MAX: usize = 4;
/// Open files of a query: the database, its log and its index.
pub(crate) const FILES_PER_QUERY: usize = 3;

/// The history on disk, and how many may read it.
#[derive(Clone)]
pub(crate) struct Archive {
    history: History,
    places: Arc<Semaphore>,
}

impl Archive {
    /// The archive in a data folder. Its clones share their places.
    pub(crate) fn of(data: &Path) -> Self {
        Self { history: History::of(data), places: Arc::new(Semaphore::new(QUERIES_MAX)) }
    }

    async fn find(
        &self,
        asked: Permitted<Asked>,
        before: EventId,
        n_max: usize,
    ) -> Result<Page, String> {
        let place = self.places.clone().acquire_owned().await.map_err(|error| error.to_string())?;
        let history = self.history.clone();
        let find = move || {
            // A client that goes away does not end the query.
            let _place = place;
            history.find(&asked, Some(before), n_max)
        };
        tokio::task::spawn_blocking(find).await.map_err(|error| error.to_string())?
    }
}

/// Some events, newest first, and where to go on: before this one.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) events: Vec<Arc<Event>>,
    /// There may be more before this one.
    pub(crate) before: Option<EventId>,
    /// Records of which nothing is known, among those that were looked at.
    pub(crate) gaps: Vec<(u64, u64)>,
}

/// At most `n_max` of what is asked for, or why history cannot be read.
pub(crate) async fn find(
    app: &App,
    asked: Permitted<Asked>,
    before: Option<EventId>,
    n_max: usize,
) -> Result<Found, String> {
    // Files are deleted block by block, and memory only when it is full, so both might still have events that are too
    // old.
    let asked = asked.not_before(oldest_ms(app));
    let (mut events, oldest) = app.engine.recent(&asked, before, n_max);
    if events.len() == n_max {
        let before = events.last().map(|event| event.id);
        return Ok(Found { events, before, ..Found::default() });
    }
    let Some(history) = app.history.clone() else {
        return Ok(Found { events, ..Found::default() });
    };
    let before = before.map_or(oldest, |before| before.min(oldest));
    let n_left = n_max - events.len();
    let page = history.find(asked, before, n_left).await;
    let page = page.map_err(|why| format!("history cannot be read: {why}"))?;
    events.extend(page.events.into_iter().map(Into::into));
    Ok(Found { events, before: page.before, gaps: page.gaps })
}

/// The earliest time of events that are returned (history-age-max), in epoch milliseconds.
fn oldest_ms(app: &App) -> i64 {
    let age_ms = i64::try_from(app.history_age_max.as_millis()).unwrap_or(i64::MAX);
    app.engine.wall_ms().saturating_sub(age_ms)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;
    use crate::auth::Caller;

    #[tokio::test(start_paused = true)]
    async fn a_query_beyond_those_at_a_time_waits_for_its_place() {
        let folder = tempfile::tempdir().expect("a folder");
        let archive = Archive::of(folder.path());
        let before = EventId { seq: 1, index: 0 };
        let find = || {
            let asked = Caller::unasked().permit(Asked::default()).expect("nobody is asked");
            archive.find(asked, before, 1)
        };
        let all = u32::try_from(QUERIES_MAX).expect("few");
        let others = archive.places.clone().acquire_many_owned(all).await.expect("there are some");
        // The clock stands still while anything blocks.
        assert!(timeout(Duration::from_secs(60), find()).await.is_err(), "it did not wait");
        drop(others);
        assert!(find().await.is_ok_and(|page| page.events.is_empty()));
    }
}
