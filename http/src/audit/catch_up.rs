//! Reads events from history that happened after the last audit line and are no longer in the journal.

use std::path::Path;

use leasehold_store::{Event, EventId};

use leasehold_store::history::{History, Query};

/// Maximum events to read. A killed server normally leaves only a handful.
const N_MAX: usize = 100_000;
const PAGE: usize = 1000;

/// Returns the events in history after `last` and before `before`, oldest first.
pub(super) fn read(data: &Path, last: EventId, before: Option<EventId>) -> Vec<Event> {
    let (history, asked) = (History::of(data), Query::default());
    let (mut found, mut before) = (Vec::new(), before);
    while found.len() < N_MAX {
        let page = match history.find(&asked, before, PAGE) {
            Ok(page) => page,
            Err(error) => {
                tracing::error!(%error, "cannot read history to complete the audit file");
                break;
            }
        };
        let is_over = page.before.is_none() || page.events.iter().any(|event| event.id <= last);
        before = page.before;
        found.extend(page.events.into_iter().filter(|event| event.id > last));
        if is_over || before.is_some_and(|before| before <= last) {
            break;
        }
    }
    found.reverse();
    found
}
