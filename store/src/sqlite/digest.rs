//! A digest of the table rows, which reveals any changed, lost or added row.
//!
//! The digest is the sum of the hashes of all rows, so it does not depend on their order, and a fold updates it by the
//! rows it changes. The digest also counts locks and leases, because a start needs these numbers before it reads the
//! rows.

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
    /// The encoding of the current row.
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
        // The meta row is protected by the seal instead, together with data that the core does not know.
        if matches!(row, Row::Meta { .. }) {
            return 0;
        }
        self.bytes.0.clear();
        write_row(&mut self.bytes, row);
        u128::from_le_bytes(Hash::of(&self.bytes.0).0)
    }

    /// Reads the stored digest.
    pub(super) fn get(tables: &Connection) -> Result<Self, Error> {
        let sum: Option<[u8; Hash::BYTES]> = schema::get(tables, KEY)?;
        let sum = sum.ok_or_else(|| refused("tables.db: its digest is missing"))?;
        let counted = |key, table| {
            // Tables from before rows were counted do not contain the numbers.
            schema::get(tables, key)?.map_or_else(|| count(tables, table), Ok)
        };
        let (n_locks, n_leases) = (counted(N_LOCKS, "tokens")?, counted(N_LEASES, "leases")?);
        Ok(Self { sum: u128::from_le_bytes(sum), n_locks, n_leases, bytes: Writer::default() })
    }

    /// Returns the numbers of locks and leases. They are only a hint, and are not checked.
    pub(super) fn counts(&self) -> (usize, usize) {
        let [n_locks, n_leases] =
            [self.n_locks, self.n_leases].map(|n| usize::try_from(n).unwrap_or(0));
        (n_locks, n_leases)
    }

    /// Stores the digest. The caller has to seal the table `meta` afterwards.
    pub(super) fn put(&self, tables: &Connection) -> rusqlite::Result<()> {
        schema::put(tables, N_LOCKS, self.n_locks)?;
        schema::put(tables, N_LEASES, self.n_leases)?;
        schema::put(tables, KEY, self.sum.to_le_bytes())
    }

    /// Compares the digest of all rows read with the stored one.
    pub(super) fn check(&self, tables: &Connection) -> Result<(), Error> {
        if Self::get(tables)?.sum == self.sum {
            return Ok(());
        }
        Err(refused(
            "tables.db: a row was changed, lost or added: the rows do not match the digest",
        ))
    }
}

fn count(tables: &Connection, table: &str) -> Result<i64, Error> {
    let sql = format!("SELECT count(*) FROM {table}");
    tables.query_row(&sql, [], |row| row.get(0)).map_err(trouble_in(tables))
}
