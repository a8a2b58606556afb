//! Queries of the history.

use rusqlite::Connection;

use super::block;
use super::filter::{self, Trait};
use crate::event::{Event, EventId};

/// Maximum blocks that one query unpacks. The next query continues where it stopped.
const BLOCKS_MAX: usize = 200;

/// Which events to find. A field that is `None` matches every event.
#[derive(Clone, Default, Debug)]
pub struct Query {
    /// Only events of this namespace.
    pub namespace: Option<String>,
    /// Only events of the lock with this name in that namespace.
    pub lock: Option<String>,
    /// Only events of this owner.
    pub owner: Option<String>,
    /// Only events from this time on, in epoch milliseconds.
    pub since_ms: Option<i64>,
}

/// The result of a query.
#[derive(Default, Debug)]
pub struct Page {
    /// The matching events, newest first.
    pub events: Vec<Event>,
    /// The event to continue at, if more events might exist before it.
    pub before: Option<EventId>,
    /// The gaps among the searched records, whose events are not recorded: the first and the last record of each.
    pub gaps: Vec<(u64, u64)>,
}

impl Query {
    /// Restricts the query to events from this time on, in epoch milliseconds.
    pub fn not_before(self, oldest_ms: i64) -> Self {
        let since_ms = Some(self.since_ms.map_or(oldest_ms, |since| since.max(oldest_ms)));
        Self { since_ms, ..self }
    }

    /// Returns whether the query matches an event.
    pub fn wants(&self, event: &Event) -> bool {
        let fact = &event.fact;
        self.namespace.as_deref().is_none_or(|namespace| namespace == &*fact.lock.namespace)
            && self.lock.as_deref().is_none_or(|lock| lock == &*fact.lock.name)
            && self.owner.as_deref().is_none_or(|owner| owner == &*fact.owner.instance)
            && self.since_ms.is_none_or(|since| event.at_ms >= since)
    }

    fn may_be_in(&self, filter: &[u8]) -> bool {
        let lock = self.namespace.as_deref().zip(self.lock.as_deref());
        lock.is_none_or(|(namespace, name)| filter::may_have(filter, Trait::lock(namespace, name)))
            && self
                .owner
                .as_deref()
                .is_none_or(|owner| filter::may_have(filter, Trait::owner(owner)))
    }
}

pub(super) fn find(
    db: &Connection,
    query: &Query,
    wants: impl Fn(&Event) -> bool,
    before: Option<EventId>,
    n_max: usize,
) -> Result<Page, String> {
    let mut page = find_events(db, query, wants, before, n_max)?;
    let from = page.before.map_or(0, |id| id.seq);
    let through = before.map_or(u64::MAX, |id| id.seq);
    page.gaps = gaps(db, from, through).map_err(|error| error.to_string())?;
    Ok(page)
}

/// Returns the gaps between these records. Files from before gaps were introduced have no table for them.
fn gaps(db: &Connection, from: u64, through: u64) -> rusqlite::Result<Vec<(u64, u64)>> {
    if !db.table_exists(None, "gaps")? {
        return Ok(Vec::new());
    }
    let bound = |seq: u64| i64::try_from(seq).unwrap_or(i64::MAX);
    let sql = "SELECT first_seq, last_seq FROM gaps WHERE last_seq >= ?1 AND first_seq <= ?2
               ORDER BY first_seq DESC LIMIT 100";
    let mut statement = db.prepare(sql)?;
    let gap =
        |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)? as u64, row.get::<_, i64>(1)? as u64));
    statement.query_map([bound(from), bound(through)], gap)?.collect()
}

fn find_events(
    db: &Connection,
    query: &Query,
    wants: impl Fn(&Event) -> bool,
    before: Option<EventId>,
    n_max: usize,
) -> Result<Page, String> {
    let why = |error: rusqlite::Error| error.to_string();
    // A block can contain events both before and after that event.
    let sql = "SELECT last_seq, first_seq, last_ms, filter, events FROM blocks
               WHERE first_seq <= ?1 ORDER BY last_seq DESC";
    let from = before.map_or(i64::MAX, |id| i64::try_from(id.seq).unwrap_or(i64::MAX));
    let mut statement = db.prepare(sql).map_err(why)?;
    let mut rows = statement.query([from]).map_err(why)?;
    // Events are large, and a growing list would copy them repeatedly.
    let events = Vec::with_capacity(n_max);
    let (mut page, mut n_opened) = (Page { events, ..Page::default() }, 0);
    while let Some(row) = rows.next().map_err(why)? {
        let (seq, first_seq): (i64, i64) = (row.get(0).map_err(why)?, row.get(1).map_err(why)?);
        let last_ms: i64 = row.get(2).map_err(why)?;
        if query.since_ms.is_some_and(|since| last_ms < since) {
            break;
        }
        let filter = row.get_ref(3).and_then(|blob| Ok(blob.as_blob()?)).map_err(why)?;
        if !query.may_be_in(filter) {
            continue;
        }
        n_opened += 1;
        let bytes = row.get_ref(4).and_then(|blob| Ok(blob.as_blob()?)).map_err(why)?;
        let events = block::unpack(bytes)
            .map_err(|damaged| format!("the block of record {seq} is damaged: {}", damaged.0))?;
        for event in events.into_iter().rev() {
            if before.is_some_and(|before| event.id >= before)
                || !query.wants(&event)
                || !wants(&event)
            {
                continue;
            }
            if page.events.len() == n_max {
                page.before = page.events.last().map(|event| event.id);
                return Ok(page);
            }
            page.events.push(event);
        }
        if n_opened == BLOCKS_MAX {
            page.before = Some(EventId { seq: first_seq as u64, index: 0 });
            return Ok(page);
        }
    }
    Ok(page)
}
