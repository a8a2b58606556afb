//! What the rows of the tables add up to, so that none can be changed, lost or added unseen.
//!
//! The sum of the hashes of all rows does not depend on their order, and a fold keeps it up to date by what it changes.

use leasehold_core::Row;
use rusqlite::Connection;

use super::{refused, schema};
use crate::store::change::write_row;
use crate::store::codec::Writer;
use crate::store::{Error, Hash};

const KEY: &str = "digest";

/// A sum of hashes.
#[derive(Default)]
pub(super) struct Digest {
    sum: u128,
    /// The row at hand.
    bytes: Writer,
}

impl Digest {
    pub(super) fn add(&mut self, row: &Row) {
        self.sum = self.sum.wrapping_add(self.hash(row));
    }

    pub(super) fn remove(&mut self, row: &Row) {
        self.sum = self.sum.wrapping_sub(self.hash(row));
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
        Ok(Self { sum: u128::from_le_bytes(sum), ..Self::default() })
    }

    /// To be sealed by the caller.
    pub(super) fn put(&self, tables: &Connection) -> rusqlite::Result<()> {
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
