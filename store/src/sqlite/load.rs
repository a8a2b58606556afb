//! Loads a machine from the files: first the tables, then the later journal records.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use leasehold_base::clock::Moment;
use leasehold_core::{
    Fact, Incoherent, LeaseNumber, Limits, Machine, Restore, Row, SessionNumber, Timestamp, Token,
};
use rusqlite::Connection;
use rusqlite::config::DbConfig;

use super::digest::Digest;
use super::disk::Disk;
use super::mark::{self, Found, Mark, Marked, Unused};
use super::{JOURNAL, TABLES, journal, pages, refused, rows, schema, transfer, trouble_in};
use crate::event::{Event, EventId};
use crate::{Chain, Error, Hash, Head, Loaded, Place, Record};

/// Maximum events that a start loads. Readers are never sent more than these.
pub(super) const TOLD_MAX: usize = 20_000;
/// The key in the journal's `meta` that is set once there is a mark, which the journal must reach.
const HAS_MARK: &str = "has_mark";

/// The result of a load.
pub(super) struct State {
    pub(super) loaded: Loaded,
    pub(super) chain: Chain,
    /// The last record in the tables.
    pub(super) folded: Place,
    pub(super) trimmed_through: u64,
}

/// Reads the files and starts to use them. Data that an earlier process left in the page cache is synced once it is
/// known to be sound, so that no response depends on data that a power failure could destroy.
pub(super) fn load(
    journal: &Connection,
    tables: &mut Connection,
    (data, disk): (&Path, &Disk),
    limits: Limits,
    hash_seed: u128,
) -> Result<(State, Mark), Error> {
    let mut state = read(journal, tables, mark::find(data)?, limits, hash_seed)?;
    for db in [journal, &*tables] {
        disk.checkpoint(db).map_err(trouble_in(db))?;
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)
            .map_err(trouble_in(db))?;
    }
    if is_backup(tables)? {
        state.loaded.generation = u64::from_le_bytes(leasehold_base::random::bytes()) >> 11;
        state.loaded.machine.apply(state.loaded.machine.now(), Restore);
    }
    // The mark is created while the tables still belong to a backup, because afterwards it must exist.
    let mark = Mark::start(data, marked(journal, &state)?)?;
    if schema::get::<i64>(journal, HAS_MARK)?.is_none() {
        let why = trouble_in(journal);
        schema::set(journal, HAS_MARK, 1).map_err(&why)?;
        disk.checkpoint(journal).map_err(&why)?;
    }
    if is_backup(tables)? {
        restored(journal, tables, &mut state)?;
    }
    let n_starts = schema::get::<i64>(tables, "n_starts")?.unwrap_or(0) as u64;
    let epoch = n_starts.max(state.chain.epoch()) + 1;
    schema::set(tables, "n_starts", epoch as i64).map_err(trouble_in(tables))?;
    state.loaded.epoch = epoch;
    Ok((state, mark))
}

/// Reads and checks everything, without changing it. Both `serve` and `verify` use this.
pub(super) fn read(
    journal: &Connection,
    tables: &mut Connection,
    mark: Found,
    limits: Limits,
    hash_seed: u128,
) -> Result<State, Error> {
    pages::check(JOURNAL, journal)?;
    schema::check_seal(JOURNAL, journal)?;
    schema::check_seal(TABLES, tables)?;
    let acknowledged = acknowledged(journal, tables, mark)?;
    let named = |error| in_file(TABLES, error);
    let (folded, mut last) = (place(tables).map_err(named)?, moment(tables).map_err(named)?);
    let mut machine = import_checked(tables, limits, hash_seed)?;
    let start = Chain::after(folded).with_acknowledged(acknowledged);
    check_adjoin(folded, journal::first_seq(journal)?)?;
    let (mut told, mut facts) = (VecDeque::new(), Vec::new());
    let chain = journal::read(journal, start, |place, record| {
        let absorbed =
            machine.absorb_and_tell(record.moment.lock_time, &record.changes, &mut facts);
        absorbed.map_err(|error| {
            refused(format!("journal.db: journal record {} does not fit: {error}", place.seq))
        })?;
        last = Some(record.moment);
        told.extend(events(place.seq, &record, facts.drain(..)));
        while told.len() > TOLD_MAX {
            told.pop_front();
        }
        Ok(ControlFlow::Continue(()))
    })?;
    machine.absorbed();
    let first = journal::first_seq(journal)?;
    let generation = schema::get::<i64>(tables, "generation")?.unwrap_or(0) as u64;
    let (seq, told) = (chain.place().seq, told.into());
    let loaded = Loaded { machine, last, generation, epoch: 0, is_restored: false, seq, told };
    let trimmed_through = first.map_or(chain.place().seq, |first| first - 1);
    Ok(State { loaded, chain, folded, trimmed_through })
}

/// Checks that the journal starts at the end of the tables, or before. If not, one of the files has lost data, more
/// likely the tables: only records that are in the tables are ever deleted from the journal.
fn check_adjoin(folded: Place, first: Option<u64>) -> Result<(), Error> {
    let (expected, Some(first)) = (folded.seq + 1, first) else { return Ok(()) };
    if first <= expected {
        return Ok(());
    }
    Err(refused(format!(
        "journal.db: journal record {expected} is missing (the first is {first}), and tables.db has only those up to \
         {}. Either tables.db, or tables.db-wal next to it, lost folded records, or journal.db lost its first records",
        folded.seq
    )))
}

/// Returns the events of a record.
pub(super) fn events(
    seq: u64,
    record: &Record,
    facts: impl Iterator<Item = Fact>,
) -> impl Iterator<Item = Event> {
    let at_ms = record.moment.wall_ms;
    let event = move |(index, fact)| Event::new(EventId { seq, index: index as u32 }, fact, at_ms);
    facts.enumerate().map(event)
}

/// Returns the record that the journal must reach. Returns `None` for backups and for stores that never had a mark.
fn acknowledged(
    journal: &Connection,
    tables: &Connection,
    mark: Found,
) -> Result<Option<Place>, Error> {
    if is_backup(tables)? {
        return Ok(None);
    }
    // The note that there is a mark might have been in a log that was lost since, so an existing mark always counts.
    let must_be_there = schema::get::<i64>(journal, HAS_MARK)?.is_some();
    let marked = match mark {
        Found::Sound(marked) => marked,
        Found::Missing if must_be_there => {
            return Err(refused("mark is missing; journal.db is present"));
        }
        Found::Damaged if must_be_there => {
            return Err(refused("mark is damaged, both slots of it"));
        }
        Found::Missing | Found::Damaged => return Ok(None),
    };
    let generation = schema::get::<i64>(tables, "generation")?.unwrap_or(0) as u64;
    if marked.store_id != store_id(journal)? || marked.generation != generation {
        return Err(refused(
            "mark belongs to another store, or to this one before it was restored",
        ));
    }
    Ok(Some(marked.place))
}

fn marked(journal: &Connection, state: &State) -> Result<Marked, Error> {
    let unused = Unused::of(&state.loaded.machine);
    Ok(Marked {
        store_id: store_id(journal)?,
        generation: state.loaded.generation,
        place: state.chain.place(),
        unused,
    })
}

pub(super) fn store_id(journal: &Connection) -> Result<[u8; 16], Error> {
    let id: Option<String> = schema::get(journal, "store_id")?;
    let id = id.and_then(|id| u128::from_str_radix(&id, 16).ok());
    Ok(id.ok_or_else(|| refused("journal.db: its store id is malformed"))?.to_be_bytes())
}

/// Adds the file name to an error, unless the error contains it already.
fn in_file(file: &str, error: Error) -> Error {
    match error {
        Error::Refused(why) if !why.contains(file) => refused(format!("{file}: {why}")),
        error => error,
    }
}

/// Returns whether this is a backup, or was created from one and not started since.
pub(super) fn is_backup(tables: &Connection) -> Result<bool, Error> {
    Ok(schema::get::<i64>(tables, "is_backup")?.is_some())
}

/// Imports the machine from the tables, and checks the pages of the tables. A separate thread checks the pages in the
/// meantime.
fn import_checked(
    tables: &mut Connection,
    limits: Limits,
    hash_seed: u128,
) -> Result<Machine, Error> {
    let Some(same) = pages::again(TABLES, tables)? else {
        pages::check(TABLES, tables)?;
        return import(tables, limits, hash_seed).map_err(|error| in_file(TABLES, error));
    };
    std::thread::scope(|scope| {
        let checking = scope.spawn(move || pages::check_trees(TABLES, same));
        let imported = import(tables, limits, hash_seed).map_err(|error| in_file(TABLES, error));
        let checked = checking.join();
        checked.unwrap_or_else(|_| Err(refused("a thread that checks pages panicked")))?;
        imported
    })
}

/// Imports the machine from the tables. Reading rows, computing the digest and importing run in separate threads.
/// Sequentially they would take twice as long as the slowest of them.
pub(super) fn import(
    tables: &mut Connection,
    limits: Limits,
    hash_seed: u128,
) -> Result<Machine, Error> {
    let mut importer = Machine::importer(limits, hash_seed);
    importer.add(meta(tables)?).map_err(incoherent)?;
    let (n_locks, n_leases) = Digest::get(tables)?.counts();
    importer.expect(n_locks, n_leases);
    let (to_adder, read) = sync_channel(LOTS);
    let (to_importer, added) = sync_channel(LOTS);
    let rows = &mut *tables;
    let digest = std::thread::scope(|scope| {
        let reading = scope.spawn(move || read_rows(rows, &to_adder));
        let adding = scope.spawn(move || add_up(read, &to_importer));
        for row in added.into_iter().flatten() {
            importer.add(row).map_err(incoherent)?;
        }
        let panicked = |_| refused("a thread that reads rows panicked");
        reading.join().map_err(panicked)??;
        adding.join().map_err(panicked)
    })?;
    digest.check(tables)?;
    Ok(importer.finish())
}

/// Rows that are passed on together.
type Lot = Vec<Row>;
const LOT: usize = 1024;
/// How many lots can be queued for each thread.
const LOTS: usize = 8;

fn read_rows(tables: &Connection, to: &SyncSender<Lot>) -> Result<(), Error> {
    let mut lot = Vec::with_capacity(LOT);
    rows::for_each(tables, |row| {
        lot.push(row);
        if lot.len() < LOT {
            return Ok(());
        }
        // The receiver is gone because the import failed, and the import reports why.
        let full = std::mem::replace(&mut lot, Vec::with_capacity(LOT));
        to.send(full).map_err(|_| rusqlite::Error::QueryReturnedNoRows)
    })
    .map_err(|error| refused(format!("tables.db: {error}")))?;
    let _ = to.send(lot);
    Ok(())
}

fn add_up(from: Receiver<Lot>, to: &SyncSender<Lot>) -> Digest {
    let mut digest = Digest::default();
    for lot in from {
        lot.iter().for_each(|row| digest.add(row));
        if to.send(lot).is_err() {
            break;
        }
    }
    digest
}

/// Completes a restore from a backup, so that no token or number issued since the backup is issued again.
fn restored(journal: &Connection, tables: &mut Connection, state: &mut State) -> Result<(), Error> {
    let Loaded { machine, last, generation, is_restored, .. } = &mut state.loaded;
    let n_restores = transfer::n_restores(tables)? + 1;
    rewrite(tables, machine, state.chain.place(), *last, |tx| {
        schema::put(tx, "generation", *generation as i64)?;
        schema::put(tx, transfer::N_RESTORES, n_restores as i64)?;
        tx.execute("DELETE FROM meta WHERE key = 'is_backup'", [])?;
        schema::seal(tx)
    })
    .map_err(|error| trouble_in(tables)(error))?;
    journal.execute("DELETE FROM journal", []).map_err(trouble_in(journal))?;
    *is_restored = true;
    state.folded = state.chain.place();
    state.trimmed_through = state.folded.seq;
    Ok(())
}

/// Writes the whole state of `machine` to the tables in one transaction.
pub(super) fn rewrite(
    tables: &mut Connection,
    machine: &Machine,
    folded: Place,
    last: Option<Moment>,
    also: impl FnOnce(&Connection) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    let tx = tables.transaction()?;
    rows::delete_all(&tx)?;
    let (all, mut digest) = (machine.export(), Digest::default());
    for row in &all {
        rows::put(&tx, row)?;
        digest.add(row);
    }
    digest.put(&tx)?;
    put_meta(&tx, &all[0], folded, last)?;
    also(&tx)?;
    tx.commit()
}

/// Reads the meta row from the tables.
pub(super) fn meta(tables: &Connection) -> Result<Row, Error> {
    let number = |key, default: i64| {
        Ok::<_, Error>(schema::get::<i64>(tables, key)?.unwrap_or(default) as u64)
    };
    Ok(Row::Meta {
        next_lease: LeaseNumber(number("next_lease", 1)?),
        next_session: SessionNumber(number("next_session", 1)?),
        now: Timestamp::from_nanos(number("lock_time", 0)?),
        floor: Token::ZERO.raised(number("floor", 0)?),
        maintenance: number("maintenance", 0)? != 0,
    })
}

/// Returns the last record in the tables.
pub(super) fn place(tables: &Connection) -> Result<Place, Error> {
    let seq = schema::get::<i64>(tables, "folded_through")?.unwrap_or(0) as u64;
    let hash = schema::get::<[u8; Hash::BYTES]>(tables, "folded_hash")?.unwrap_or_default();
    Ok(Place { seq, hash: Hash(hash) })
}

/// Returns when the last record in the tables was written.
pub(super) fn moment(tables: &Connection) -> Result<Option<Moment>, Error> {
    let Some(bytes) = schema::get::<Vec<u8>>(tables, "moment")? else { return Ok(None) };
    let record =
        Record::decode(&bytes).map_err(|why| refused(format!("meta is damaged: {why}")))?;
    Ok(Some(record.moment))
}

pub(super) fn put_meta(
    tables: &Connection,
    row: &Row,
    folded: Place,
    last: Option<Moment>,
) -> rusqlite::Result<()> {
    let Row::Meta { next_lease, next_session, now, floor, maintenance } = row else {
        return Ok(());
    };
    schema::put(tables, "next_lease", next_lease.0 as i64)?;
    schema::put(tables, "next_session", next_session.0 as i64)?;
    schema::put(tables, "lock_time", now.as_nanos() as i64)?;
    schema::put(tables, "floor", floor.get() as i64)?;
    schema::put(tables, "maintenance", maintenance)?;
    schema::put(tables, "folded_through", folded.seq as i64)?;
    schema::put(tables, "folded_hash", folded.hash.0)?;
    let moment = |last| Record::encode(&Head::default(), last, &[]);
    last.map_or(Ok(()), |last| schema::put(tables, "moment", moment(last)))?;
    schema::seal(tables)
}

fn incoherent(error: Incoherent) -> Error {
    refused(format!("tables.db contradicts itself: {error}"))
}
