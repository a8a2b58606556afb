//! Checks a data directory.

use std::path::Path;

use leasehold_core::{Counts, Limits, Token, invariant};
use rusqlite::Connection;

use super::load::State;
use super::mark::Found;
use super::source::Source;
use super::{is_there, load, refused, schema, transfer, trouble_in};
use crate::{Error, folder};

/// The result of a check.
#[derive(Clone, Debug)]
pub struct Report {
    /// Journal records that are not in the tables yet.
    pub n_records: u64,
    /// The number of the last record.
    pub seq: u64,
    /// The size of the state.
    pub counts: Counts,
    /// Whether the first start from the directory treats it as a backup.
    pub is_backup: bool,
    /// Where the store has moved to, if it has. No server starts from this directory then.
    pub moved_to: Option<String>,
    /// Whether the store is a shared one and was rolled back to an earlier state. No server leads it then.
    pub is_rewound: bool,
}

/// Checks a directory that no server uses: both files, the checksum of every record, their order, the resulting state,
/// and its invariants. Changes and creates nothing there, so that the directory can be read-only.
pub fn verify(data: &Path) -> Result<Report, Error> {
    Ok(Source::at_rest(data)?.judge()?.0)
}

/// Checks a directory as a starting server does. No server may be using it. Returns `None` if a starting server would
/// create a store there. Changes nothing.
pub fn examine(data: &Path) -> Result<Option<Report>, Error> {
    folder::check_private(data)?;
    if folder::is_leftover(data)? {
        return Ok(None);
    }
    if !is_there(data)? {
        return folder::check_own(data).map(|()| None);
    }
    let mut source = Source::at_rest(data)?;
    transfer::check_open(data, &source.journal)?;
    Ok(Some(source.judge()?.0))
}

/// Checks open databases: everything that a start checks, and the invariants of the resulting state.
pub(super) fn judge(
    journal: &Connection,
    tables: &mut Connection,
    mark: Found,
) -> Result<(Report, State), Error> {
    let state = load::read(journal, tables, mark, Limits::default(), 0)?;
    let machine = &state.loaded.machine;
    invariant::check(machine)
        .map_err(|why| refused(format!("the state contradicts itself: {why}")))?;
    let n_beyond: i64 = tables
        .query_row(
            "SELECT count(*) FROM tokens WHERE last_token > ?1",
            [Token::MAX.get() as i64],
            |row| row.get(0),
        )
        .map_err(trouble_in(tables))?;
    if n_beyond > 0 {
        return Err(refused(format!("{n_beyond} tokens are too large")));
    }
    let report = Report {
        n_records: state.chain.place().seq - state.folded.seq,
        seq: state.chain.place().seq,
        counts: machine.counts(),
        is_backup: schema::get::<i64>(tables, "is_backup")?.is_some(),
        moved_to: schema::get::<String>(journal, transfer::CLOSED)?,
        is_rewound: false,
    };
    Ok((report, state))
}
