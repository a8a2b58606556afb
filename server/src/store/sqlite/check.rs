//! Is everything in a data folder as it should be?

use std::path::Path;

use leasehold_core::{Counts, Limits, Token, invariant};
use rusqlite::Connection;

use super::source::Source;
use super::{JOURNAL, TABLES, load, refused, schema};
use crate::store::Error;

/// What was found.
#[derive(Clone, Debug)]
pub struct Report {
    /// Journal records that are not in the tables yet.
    pub n_records: u64,
    /// The last record.
    pub seq: u64,
    /// What the state comes to.
    pub counts: Counts,
    /// The first start from here will treat it as a backup.
    pub is_backup: bool,
}

/// Reads all of a folder no server uses: both files, every record's checksum, the sequence, what it adds up
/// to, and every invariant of the result. Changes nothing and makes nothing there, so that it can be read-only.
pub fn verify(data: &Path) -> Result<Report, Error> {
    let mut source = Source::at_rest(data)?;
    judge(&source.journal, &mut source.tables)
}

/// The same, of databases that are open.
pub(super) fn judge(journal: &Connection, tables: &mut Connection) -> Result<Report, Error> {
    check_pages(JOURNAL, journal)?;
    check_pages(TABLES, tables)?;
    let state = load::read(journal, tables, Limits::default(), 0)?;
    let machine = &state.loaded.machine;
    invariant::check(machine)
        .map_err(|why| refused(format!("the state contradicts itself: {why}")))?;
    let n_beyond: i64 = tables
        .query_row(
            "SELECT count(*) FROM tokens WHERE last_token > ?1",
            [Token::MAX.get() as i64],
            |row| row.get(0),
        )
        .map_err(refused)?;
    if n_beyond > 0 {
        return Err(refused(format!("{n_beyond} tokens are too large")));
    }
    Ok(Report {
        n_records: state.chain.place().seq - state.folded.seq,
        seq: state.chain.place().seq,
        counts: machine.counts(),
        is_backup: schema::get::<i64>(tables, "is_backup")?.is_some(),
    })
}

fn check_pages(name: &str, db: &Connection) -> Result<(), Error> {
    let verdict: String = db
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .map_err(|error| refused(format!("{name}: {error}")))?;
    if verdict == "ok" { Ok(()) } else { Err(refused(format!("{name}: {verdict}"))) }
}
