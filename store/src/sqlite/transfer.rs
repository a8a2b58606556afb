//! Transfers whole stores to and from data directories: backups, restores and migrations.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use leasehold_base::clock::{Clock, LockClock, Moment};
use leasehold_core::Limits;
use rusqlite::Connection;

use super::backup::{self, Copied};
use super::source::Source;
use super::{
    JOURNAL, Options, SqliteStore, TABLES, load, refused, schema, tables_path, trouble, trouble_in,
};
use crate::folder::{Making, Unfinished, make_parent};
use crate::{Draft, Error, Kind, Store, Whole};

/// The key in the journal's `meta` that contains where the store has moved to.
pub(super) const CLOSED: &str = "closed";
/// The key in the tables' `meta` that contains how often the store was restored from a backup.
pub(super) const N_RESTORES: &str = "n_restores";

/// Checks a backup and returns its contents.
pub fn read_backup(backup: &Path) -> Result<Whole, Error> {
    let mut source = Source::at_rest(backup)?;
    let state = backup::judged(&mut source)?;
    let n_starts = schema::get::<i64>(&source.tables, "n_starts")?.unwrap_or(0) as u64;
    let load::State { loaded, chain, .. } = state;
    Ok(Whole {
        store_id: load::store_id(&source.journal)?,
        generation: loaded.generation,
        n_restores: n_restores(&source.tables)?,
        place: chain.place(),
        epoch: n_starts.max(chain.epoch()),
        last: loaded.last,
        machine: loaded.machine,
    })
}

/// Returns how often a store was restored from a backup.
pub(super) fn n_restores(tables: &Connection) -> Result<u64, Error> {
    Ok(schema::get::<i64>(tables, N_RESTORES)?.unwrap_or(0) as u64)
}

/// A data directory that receives a store from elsewhere. Until it is complete, no command uses it as a store.
pub struct Arrival {
    unfinished: Unfinished,
    journal: Connection,
    tables: Connection,
    target: PathBuf,
}

impl Arrival {
    /// Writes a backup of a shared store to a new or empty directory.
    pub fn backup(target: &Path, whole: &Whole) -> Result<Self, Error> {
        make_parent(target)?;
        Self::write(target, whole, Making::Backup)
    }

    /// Writes a store that moves here to a new or empty directory. It has a new generation: event cursors of clients
    /// are not valid in it.
    pub fn moved(target: &Path, whole: &Whole) -> Result<Self, Error> {
        Self::write(target, whole, Making::Migration)
    }

    fn write(target: &Path, whole: &Whole, making: Making) -> Result<Self, Error> {
        let unfinished = Unfinished::begin(target, making)?;
        let (journal, tables) = (unfinished.part(JOURNAL)?, unfinished.part(TABLES)?);
        schema::create(whole.store_id, &journal, &tables)?;
        let (journal, mut tables) = (schema::unsynced(&journal)?, schema::unsynced(&tables)?);
        load::rewrite(&mut tables, &whole.machine, whole.place, whole.last, |tx| {
            if making == Making::Backup {
                schema::put(tx, "generation", whole.generation as i64)?;
                schema::put(tx, "is_backup", 1)?;
            }
            schema::put(tx, "n_starts", whole.epoch as i64)?;
            schema::put(tx, N_RESTORES, whole.n_restores as i64)?;
            schema::seal(tx)
        })
        .map_err(|error| trouble(&tables_path(target), error))?;
        Ok(Self { unfinished, journal, tables, target: target.into() })
    }

    /// Completes the directory.
    pub fn complete(self) -> Result<Copied, Error> {
        backup::complete(self.unfinished, self.journal, self.tables, &self.target)
    }
}

/// A store in a data directory that is about to move elsewhere. No server uses it.
pub struct Departure {
    store: SqliteStore,
    clock: LockClock,
}

impl Departure {
    /// Locks the data directory and reads the store.
    pub fn open(options: Options, clock: Arc<dyn Clock>) -> Result<(Self, Whole), Error> {
        if !super::is_complete(&options.data) {
            return Err(refused(format!("{} is not a store", options.data.display())));
        }
        check_no_backup(&options.data)?;
        let mut store = SqliteStore::open(options)?;
        let loaded = store.load(Limits::default(), 0)?;
        let tables = schema::open_tables(&store.options.data, &store.journal)?;
        let whole = Whole {
            store_id: load::store_id(&store.journal)?,
            generation: loaded.generation,
            n_restores: n_restores(&tables)?,
            place: store.chain.place(),
            epoch: loaded.epoch,
            last: loaded.last,
            machine: loaded.machine,
        };
        let clock = LockClock::resume(clock, whole.last);
        Ok((Self { store, clock }, whole))
    }

    /// Closes the store, so that no server starts from it any more. The target continues after this last record, which
    /// changes nothing in the state.
    pub fn close(mut self, moved_to: &str, whole: &mut Whole) -> Result<(), Error> {
        let moment: Moment = self.clock.moment();
        let permit = self.store.reserve()?;
        // This is part of the same transaction as the record.
        schema::set(&self.store.journal, CLOSED, moved_to)
            .map_err(trouble_in(&self.store.journal))?;
        self.store.append(permit, Draft { kind: Kind::Closed, moment, changes: &[] })?;
        (whole.place, whole.last) = (self.store.chain.place(), Some(moment));
        self.store.finish()
    }
}

/// Fails if the directory is a backup: a migration would start from it, which ends all leases in it.
fn check_no_backup(data: &Path) -> Result<(), Error> {
    if !load::is_backup(&Source::at_rest(data)?.tables)? {
        return Ok(());
    }
    Err(refused(format!(
        "{0} is a backup, or was restored or recovered and not started since; it cannot be migrated, because its \
         leases end at the first start. Use leasehold restore {0} --store TO instead",
        data.display()
    )))
}

/// Undoes a migration from this directory.
pub fn reopen(options: Options) -> Result<(), Error> {
    let data = options.data.clone();
    if !super::is_complete(&data) {
        return Err(refused(format!("{} is not a store", data.display())));
    }
    let store = SqliteStore::open_even_closed(options)?;
    if schema::get::<String>(&store.journal, CLOSED)?.is_none() {
        return Err(refused(format!("{} is not closed", data.display())));
    }
    schema::unset(&store.journal, CLOSED).map_err(trouble_in(&store.journal))
}

/// Fails if the store in this directory has moved elsewhere.
pub(super) fn check_open(data: &Path, journal: &Connection) -> Result<(), Error> {
    let Some(moved_to) = schema::get::<String>(journal, CLOSED)? else { return Ok(()) };
    Err(refused(format!(
        "{} is closed: its store has moved to {moved_to}. If no server has used it there, `leasehold reopen` undoes \
         the migration",
        data.display()
    )))
}
