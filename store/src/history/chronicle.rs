//! The history of a server in a cluster. Each server writes the events it sees as leader or follower. Records it did
//! not see are a gap, which the history reports.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, params};

use super::{Bounds, Writer};
use crate::Error;
use crate::event::Event;

/// The key in `meta` of the last record whose events are in the file.
const THROUGH: &str = "through";

/// A history that events are added to.
pub struct Chronicle {
    writer: Writer,
    through: u64,
}

impl Chronicle {
    /// Opens or creates the history of this generation of a store. The history of another generation is moved aside.
    pub fn open(data: &Path, generation: u64, bounds: Bounds) -> Result<Self, Error> {
        let mut writer = Writer::open(data, &format!("shared-{generation:x}"), bounds)?;
        let through = through(&writer.db)
            .map_err(|error| Error::Refused(format!("{}: {error}", super::path(data).display())))?;
        let through = through.max(writer.last_seq);
        writer.last_seq = through;
        Ok(Self { writer, through })
    }

    /// Returns the last record whose events are in the history. Earlier events are in it too, except in gaps.
    pub fn through(&self) -> u64 {
        self.through
    }

    /// Adds the events after the record `after` and up to the record `through`.
    pub fn add<'e>(
        &mut self,
        events: impl Iterator<Item = &'e Event>,
        after: u64,
        through: u64,
    ) -> rusqlite::Result<()> {
        if through <= self.through {
            return Ok(());
        }
        // A new history has no gap before its first event.
        if after > self.through && self.through > 0 {
            let sql = "INSERT OR REPLACE INTO gaps (first_seq, last_seq) VALUES (?1, ?2)";
            self.writer.db.execute(sql, params![self.through as i64 + 1, after as i64])?;
        }
        let mut block = self.writer.begin();
        events.filter(|event| event.id.seq > after).for_each(|event| block.add(event));
        self.writer.add(block, through)?;
        let sql = "INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)";
        self.writer.db.execute(sql, params![THROUGH, through as i64])?;
        self.through = through;
        Ok(())
    }

    /// Deletes events that are too old at this wall-clock time.
    pub fn forget(&mut self, now_ms: i64) -> rusqlite::Result<()> {
        self.writer.forget(now_ms)
    }
}

fn through(db: &Connection) -> rusqlite::Result<u64> {
    let sql = "SELECT value FROM meta WHERE key = ?1";
    let found = db.query_row(sql, [THROUGH], |row| row.get::<_, i64>(0)).optional()?;
    Ok(found.unwrap_or(0) as u64)
}

/// Returns an event in this record.
#[cfg(test)]
pub(super) fn event(seq: u64) -> Event {
    use leasehold_core::{
        Dialect, Fact, LeaseNumber, LockKey, Owner, Span, Timestamp, Token, What,
    };

    use crate::event::EventId;

    let fact = Fact {
        what: What::Granted,
        lock: LockKey::new("default", "db"),
        owner: Owner::new("p", "a"),
        dialect: Dialect(0),
        lease: LeaseNumber(seq),
        token: Token::ZERO.raised(seq),
        at: Timestamp::ZERO,
        waited: Span::ZERO,
        held: Span::ZERO,
        reason: None,
        asker: None,
    };
    Event::new(EventId { seq, index: 0 }, fact, 5)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{History, Query};

    #[test]
    fn what_was_not_seen_is_a_gap() {
        let folder = tempfile::tempdir().expect("a folder");
        let open = |generation| {
            Chronicle::open(folder.path(), generation, Bounds::default()).expect("a history")
        };
        let seqs = || {
            let page = History::of(folder.path()).find(&Query::default(), None, 100);
            let page = page.expect("a page");
            let seqs: Vec<_> = page.events.iter().map(|event| event.id.seq).collect();
            (seqs, page.gaps)
        };
        let mut chronicle = open(1);
        let first = [event(11), event(12)];
        chronicle.add(first.iter(), 10, 20).expect("added");
        assert_eq!(seqs(), (vec![12, 11], vec![]), "it begins where it begins");
        // The same event again, and a new one.
        let again = [event(12), event(21)];
        chronicle.add(again.iter(), 10, 21).expect("added");
        assert_eq!(seqs().0, [21, 12, 11]);
        drop(chronicle);
        let mut chronicle = open(1);
        assert_eq!(chronicle.through(), 21);
        chronicle.add([].into_iter(), 21, 30).expect("added");
        drop(chronicle);
        let mut chronicle = open(1);
        chronicle.add([event(41)].iter(), 40, 41).expect("added");
        assert_eq!(seqs(), (vec![41, 21, 12, 11], vec![(31, 40)]));
        drop(chronicle);
        assert_eq!(open(2).through(), 0, "another generation is another history");
    }
}
