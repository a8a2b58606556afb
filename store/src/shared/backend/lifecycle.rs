//! Creating, replacing and closing whole stores.

use super::{BackendFailure, LeaderEntry};
use crate::Place;
use crate::shared::guard::Tenure;

/// Whole stores.
pub trait Lifecycle {
    /// Counts the entries at the location of the store, with or without chunks of snapshots.
    fn n_entries(&self, with_chunks: bool) -> Result<u64, BackendFailure>;

    /// Returns the location of a store that contains this location, which must not be, and a similar location outside
    /// of it. Returns `None` if there is no such store.
    fn enclosing(&self) -> Result<Option<(String, String)>, BackendFailure>;

    /// Puts the id of a new store and the start of its journal, if there is neither. Tries each member. Returns whether
    /// this or an earlier attempt did.
    fn create(&self, id: &[u8]) -> Result<bool, BackendFailure>;

    /// Deletes the chunks of all snapshots, if this leadership lasts.
    fn drop_chunks(&self, tenure: &Tenure) -> Result<(), BackendFailure>;

    /// Replaces the store in one step, if this leadership lasts and the store is as expected: puts its id, its snapshot
    /// and its head, and deletes all records and the notes that it was rolled back or moved. Tries each member. Returns
    /// the version, or `None` if a condition does not hold.
    fn replace(
        &self,
        tenure: &Tenure,
        contents: &Contents<'_>,
    ) -> Result<Option<i64>, BackendFailure>;

    /// Replaces the id of the store, if it is `before` and this leader still leads. Tries each member. Returns whether
    /// this or an earlier attempt did.
    fn put_id(
        &self,
        id: &[u8],
        before: &[u8],
        leader: &LeaderEntry,
    ) -> Result<bool, BackendFailure>;

    /// Deletes the note that the store has moved, if no server leads.
    fn reopen(&self) -> Result<Reopened, BackendFailure>;
}

/// What a store is replaced by.
#[derive(Clone, Debug)]
pub struct Contents<'a> {
    /// The id of the store. It contains the generation, so it differs from every earlier id.
    pub id: &'a [u8],
    /// The manifest of its snapshot.
    pub manifest: &'a [u8],
    /// The end of its journal.
    pub head: Place,
    /// What is replaced.
    pub replaces: Replaced<'a>,
}

/// What is replaced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Replaced<'a> {
    /// The store with this id.
    Store(&'a [u8]),
    /// A store without an id, or nothing.
    WithoutId,
    /// Nothing: there is neither an id nor a journal.
    Nothing,
}

/// The result of reopening a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reopened {
    /// The store is open again.
    Done,
    /// A server leads, so the store is open.
    Led,
    /// The store was not closed.
    NotClosed,
}
