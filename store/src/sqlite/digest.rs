//! What the rows of the tables add up to, so that none can be changed, lost or added unseen.
//!
//! The sum of the hashes of all rows does not depend on their order, and a fold keeps it up to date by what it changes.
//! So it does with how many locks and leases there are, which a start wants to know before it reads them.

use leasehold_core::Row;
use rusqlite::Connection;

use super::{refused, schema, trouble_in};
use crate::change::write_row;
use crate::codec::Writer;
use crate::{Error, Hash};

const KEY: &str = "digest";
const N_LOCKS: &str = "n_locks";
const N_LEASES: &str = "n_leases";

/// A sum of hashes.
#[derive(Default)]
pub(super) struct Digest {
    sum: u128,
    n_locks: i64,
    n_leases: i64,
    /// The row at hand.
    bytes: Writer,
}

impl Digest {
    pub(super) fn add(&mut self, row: &Row) {
        self.sum = self.sum.wrapping_add(self.hash(row));
        self.count(row, 1);
    }

    pub(super) fn remove(&mut self, row: &Row) {
        self.sum = self.sum.wrapping_sub(self.hash(row));
        self.count(row, -1);
    }

    fn count(&mut self, row: &Row, n: i64) {
        match row {
            Row::Lock(_) => self.n_locks += n,
            Row::Lease(_) => self.n_leases += n,
            Row::Meta { .. } | Row::Namespace { .. } | Row::Session(_) => {}
        }
    }

    fn hash(&mut self, row: &Row) -> u128 {
        // It is sealed instead, together with what the core does not know of.
        if matches!(row, Row::Meta { .. }) {
            return 0;
        }
        self.bytes.0.clear();
        write_row(&mut self.bytes, row);
        u128::from_le_bytes(Hash::of(&self.bytes.0).0)
    }

    /// As the tables have it.
    pub(super) fn get(tables: &Connection) -> Result<Self, Error> {
        let sum: Option<[u8; Hash::BYTES]> = schema::get(tables, KEY)?;
        let sum = sum.ok_or_else(|| refused("tables.db: its digest is missing"))?;
        let counted = |key, table| {
            // Tables that were written before rows were counted do not say.
            schema::get(tables, key)?.map_or_else(|| count(tables, table), Ok)
        };
        let (n_locks, n_leases) = (counted(N_LOCKS, "tokens")?, counted(N_LEASES, "leases")?);
        Ok(Self { sum: u128::from_le_bytes(sum), n_locks, n_leases, bytes: Writer::default() })
    }

    /// How many locks and leases there are: nothing is judged by it.
    pub(super) fn counts(&self) -> (usize, usize) {
        let [n_locks, n_leases] =
            [self.n_locks, self.n_leases].map(|n| usize::try_from(n).unwrap_or(0));
        (n_locks, n_leases)
    }

    /// To be sealed by the caller.
    pub(super) fn put(&self, tables: &Connection) -> rusqlite::Result<()> {
        schema::put(tables, N_LOCKS, self.n_locks)?;
        schema::put(tables, N_LEASES, self.n_leases)?;
        schema::put(tables, KEY, self.sum.to_le_bytes())
    }

    /// Of all rows that were read.
    pub(super) fn check(&self, tables: &Connection) -> Result<(), Error> {
        if Self::get(tables)?.sum == self.sum {
            return Ok(());
        }
        Err(refused(
            "tables.db: a row was changed, lost or added: they do not add up to its digest",
        ))
    }
}

fn count(tables: &Connection, table: &str) -> Result<i64, Error> {
    let sql = format!("SELECT count(*) FROM {table}");
    tables.query_row(&sql, [], |row| row.get(0)).map_err(trouble_in(tables))
}
