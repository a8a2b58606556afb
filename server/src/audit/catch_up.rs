//! What happened after the last line and is in the journal no more: history has it.

use std::path::Path;

use crate::engine::{Event, EventId};
use crate::store::history::{Asked, History};

/// Most events that are read; a server that is killed leaves a handful.
const N_MAX: usize = 100_000;
const PAGE: usize = 1000;

/// The events after `last` and before `before` that history has, oldest first.
pub(super) fn read(data: &Path, last: EventId, before: Option<EventId>) -> Vec<Event> {
    let (history, asked) = (History::of(data), Asked::default());
    let (mut found, mut before) = (Vec::new(), before);
    while found.len() < N_MAX {
        let page = match history.find(&asked, before, PAGE) {
            Ok(page) => page,
            Err(error) => {
                tracing::error!(%error, "history cannot be read to complete the audit file");
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
