//! From the files to a machine: the tables, then the journal after them.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::mpsc::sync_channel;

use leasehold_core::{
    Fact, Incoherent, LeaseNumber, Limits, Machine, Restore, Row, SessionNumber, Timestamp, Token,
};
use rusqlite::Connection;

use super::{journal, refused, rows, schema};
use crate::clock::Moment;
use crate::engine::{Event, EventId};
use crate::store::{Chain, Error, Hash, Head, Loaded, Place, Record};

/// No more events than these are made known by a start: more than readers are told of.
pub(super) const TOLD_MAX: usize = 20_000;

/// What was found.
pub(super) struct State {
    pub(super) loaded: Loaded,
    pub(super) chain: Chain,
    /// What is in the tables.
    pub(super) folded: Place,
    pub(super) trimmed_through: u64,
}

/// Reads both files. Everything an earlier process may have left half written to disk is completed first,
/// so that nothing can be answered from what only the page cache has.
pub(super) fn load(
    journal: &Connection,
    tables: &mut Connection,
    limits: Limits,
    hash_seed: u128,
) -> Result<State, Error> {
    for db in [journal, &*tables] {
        db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).map_err(refused)?;
    }
    let mut state = read(journal, tables, limits, hash_seed)?;
    if schema::get::<i64>(tables, "is_backup")?.is_some() {
        restore(journal, tables, &mut state)?;
    }
    let n_starts = schema::get::<i64>(tables, "n_starts")?.unwrap_or(0) as u64;
    let epoch = n_starts.max(state.chain.epoch()) + 1;
    schema::set(tables, "n_starts", epoch as i64).map_err(refused)?;
    state.loaded.epoch = epoch;
    Ok(state)
}

/// Reads both files and changes nothing.
pub(super) fn read(
    journal: &Connection,
    tables: &mut Connection,
    limits: Limits,
    hash_seed: u128,
) -> Result<State, Error> {
    let folded = place(tables)?;
    let mut last = moment(tables)?;
    let mut machine = import(tables, limits, hash_seed)?;
    let (mut told, mut facts) = (VecDeque::new(), Vec::new());
    let chain = journal::read(journal, folded, |place, record| {
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

/// What happened in a record.
pub(super) fn events(
    seq: u64,
    record: &Record,
    facts: impl Iterator<Item = Fact>,
) -> impl Iterator<Item = Event> {
    let at_ms = record.moment.wall_ms;
    let event = move |(index, fact)| Event::new(EventId { seq, index: index as u32 }, fact, at_ms);
    facts.enumerate().map(event)
}

/// The machine that is in the tables. Reading rows and putting them together take about as long, so each
/// gets a thread.
fn import(tables: &mut Connection, limits: Limits, hash_seed: u128) -> Result<Machine, Error> {
    /// Rows handed over at once, and how many such lots may be under way.
    const LOT: usize = 1024;
    const LOTS: usize = 8;
    let mut importer = Machine::importer(limits, hash_seed);
    importer.add(meta(tables)?).map_err(incoherent)?;
    importer.expect(count(tables, "tokens")?, count(tables, "leases")?);
    let (sender, receiver) = sync_channel::<Vec<Row>>(LOTS);
    std::thread::scope(|scope| {
        let reading = scope.spawn(move || {
            let mut lot = Vec::with_capacity(LOT);
            rows::for_each(tables, |row| {
                lot.push(row);
                if lot.len() < LOT {
                    return Ok(());
                }
                // Nobody takes it: the import has failed, and says why itself.
                let full = std::mem::replace(&mut lot, Vec::with_capacity(LOT));
                sender.send(full).map_err(|_| rusqlite::Error::QueryReturnedNoRows)
            })?;
            let _ = sender.send(lot);
            Ok(())
        });
        for row in receiver.into_iter().flatten() {
            importer.add(row).map_err(incoherent)?;
        }
        let read = reading.join().unwrap_or(Err(rusqlite::Error::InvalidQuery));
        read.map_err(|error: rusqlite::Error| refused(format!("tables.db: {error}")))
    })?;
    Ok(importer.finish())
}

fn count(tables: &Connection, table: &str) -> Result<usize, Error> {
    let sql = format!("SELECT count(*) FROM {table}");
    let n: i64 = tables.query_row(&sql, [], |row| row.get(0)).map_err(refused)?;
    Ok(n as usize)
}

/// The state comes from a backup: whatever was handed out since must not be handed out again.
fn restore(journal: &Connection, tables: &mut Connection, state: &mut State) -> Result<(), Error> {
    let machine = &mut state.loaded.machine;
    machine.apply(machine.now(), Restore);
    let generation = u64::from_le_bytes(crate::random::bytes()) >> 11;
    rewrite(tables, machine, state.chain.place(), state.loaded.last, |tx| {
        schema::set(tx, "generation", generation as i64)?;
        tx.execute("DELETE FROM meta WHERE key = 'is_backup'", []).map(drop)
    })
    .map_err(refused)?;
    journal.execute("DELETE FROM journal", []).map_err(refused)?;
    state.folded = state.chain.place();
    state.trimmed_through = state.folded.seq;
    state.loaded.generation = generation;
    state.loaded.is_restored = true;
    Ok(())
}

/// Writes all of `machine` into the tables in one transaction.
pub(super) fn rewrite(
    tables: &mut Connection,
    machine: &Machine,
    folded: Place,
    last: Option<Moment>,
    also: impl FnOnce(&Connection) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    let tx = tables.transaction()?;
    rows::delete_all(&tx)?;
    let all = machine.export();
    all.iter().try_for_each(|row| rows::put(&tx, row))?;
    put_meta(&tx, &all[0], folded, last)?;
    also(&tx)?;
    tx.commit()
}

/// What the tables say of themselves.
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

/// The last record that is in the tables.
pub(super) fn place(tables: &Connection) -> Result<Place, Error> {
    let seq = schema::get::<i64>(tables, "folded_through")?.unwrap_or(0) as u64;
    let hash = schema::get::<[u8; Hash::BYTES]>(tables, "folded_hash")?.unwrap_or_default();
    Ok(Place { seq, hash: Hash(hash) })
}

/// When the last record that is in the tables was written.
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
    schema::set(tables, "next_lease", next_lease.0 as i64)?;
    schema::set(tables, "next_session", next_session.0 as i64)?;
    schema::set(tables, "lock_time", now.as_nanos() as i64)?;
    schema::set(tables, "floor", floor.get() as i64)?;
    schema::set(tables, "maintenance", maintenance)?;
    schema::set(tables, "folded_through", folded.seq as i64)?;
    schema::set(tables, "folded_hash", folded.hash.0)?;
    let moment = |last| Record::encode(&Head::default(), last, &[]);
    last.map_or(Ok(()), |last| schema::set(tables, "moment", moment(last)))
}

fn incoherent(error: Incoherent) -> Error {
    refused(format!("tables.db contradicts itself: {error}"))
}
