//! The only reader of the journal. It returns the records in order, each checked against the previous one.

use std::ops::ControlFlow;

use rusqlite::Connection;

use super::refused;
use crate::{Chain, Error, Place, Record};

/// Calls `each` with every record after those in the chain, until `each` stops. A gap, or a damaged or misplaced
/// record, is an error, so no acknowledged record is skipped. Returns the chain up to the last record read.
pub(super) fn read(
    journal: &Connection,
    start: Chain,
    mut each: impl FnMut(Place, Record) -> Result<ControlFlow<()>, Error>,
) -> Result<Chain, Error> {
    let mut chain = start;
    let sql = "SELECT seq, record FROM journal WHERE seq > ?1 ORDER BY seq";
    let mut statement = journal.prepare_cached(sql).map_err(damaged)?;
    let mut found = statement.query([chain.place().seq as i64]).map_err(damaged)?;
    while let Some(row) = found.next().map_err(damaged)? {
        let seq = row.get::<_, i64>(0).map_err(damaged)? as u64;
        let bytes = row.get_ref(1).and_then(|bytes| Ok(bytes.as_blob()?)).map_err(damaged)?;
        let record = chain.read(seq, bytes).map_err(damaged)?;
        if each(chain.place(), record)?.is_break() {
            return Ok(chain);
        }
    }
    chain.end().map_err(damaged)?;
    Ok(chain)
}

/// Returns the size of the records after `after` and up to `through`, in bytes.
pub(super) fn n_bytes(journal: &Connection, after: u64, through: u64) -> Result<u64, Error> {
    let sql = "SELECT coalesce(sum(length(record)), 0) FROM journal WHERE seq > ?1 AND seq <= ?2";
    let mut statement = journal.prepare_cached(sql).map_err(damaged)?;
    let n = statement.query_row([after as i64, through as i64], |row| row.get::<_, i64>(0));
    Ok(n.map_err(damaged)? as u64)
}

/// Returns the number of the first record that still exists.
pub(super) fn first_seq(journal: &Connection) -> Result<Option<u64>, Error> {
    let sql = "SELECT min(seq) FROM journal";
    let first = journal.query_row(sql, [], |row| row.get::<_, Option<i64>>(0)).map_err(damaged)?;
    Ok(first.map(|seq| seq as u64))
}

fn damaged(why: impl std::fmt::Display) -> Error {
    refused(format!("journal.db: {why}"))
}
