//! What happened, also long ago: the latest events are in memory; whatever is older than all of those is on disk.

use std::sync::Arc;

use crate::app::App;
use crate::auth::Permitted;
use crate::engine::{Event, EventId};
use crate::store::history::Asked;

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
    let find = move || history.find(&asked, Some(before), n_left);
    let page = tokio::task::spawn_blocking(find).await;
    let page = page.map_err(|error| error.to_string()).and_then(|page| page);
    let page = page.map_err(|why| format!("history cannot be read: {why}"))?;
    events.extend(page.events.into_iter().map(Into::into));
    Ok(Found { events, before: page.before, gaps: page.gaps })
}

/// The earliest time of events that are returned (history-age-max), in epoch milliseconds.
fn oldest_ms(app: &App) -> i64 {
    let age_ms = i64::try_from(app.history_age_max.as_millis()).unwrap_or(i64::MAX);
    app.engine.wall_ms().saturating_sub(age_ms)
}
