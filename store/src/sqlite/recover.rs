//! Recovers the intact part of a store that cannot be started, and discards the rest.
//!
//! The result is like a backup made at the last intact record: the first start from it ends all leases, and issues no
//! token or number that might have been issued since. The damaged files are kept in a subdirectory.

use std::fs::{self, File};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use leasehold_base::clock::Moment;
use leasehold_core::{
    Change, Counts, LeaseNumber, Limits, Machine, Row, SessionNumber, Timestamp, Token,
};
use rusqlite::{Connection, OpenFlags};

use super::mark::{self, Found, MARK, Marked, Unused};
use super::{
    TABLES, beside, is_there, journal, journal_path, load, refused, rows, schema, tables_path,
};
use crate::folder::{LockFile, sync, trouble};
use crate::{Chain, Error, Place, Record};

/// The subdirectory of the data directory in which the new store is created.
const PART: &str = "recovered.part";

/// The result of a recovery.
#[derive(Clone, Debug)]
pub struct Recovered {
    /// The damage, in words.
    pub why: String,
    /// The last record that was kept.
    pub kept_through: u64,
    /// The last record known to have been acknowledged.
    pub acknowledged_through: u64,
    /// Whether the tables were intact. If not, only tokens and numbers could be recovered.
    pub are_tables_sound: bool,
    /// The size of the state at the last intact record, which the first start ends.
    pub ended: Counts,
    /// The path of the damaged files.
    pub damaged: PathBuf,
}

/// Creates a store from the intact part of a damaged one. Fails and changes nothing if the store is intact.
pub fn recover(data: &Path) -> Result<Recovered, Error> {
    let journal = journal_path(data);
    if ![&journal, &tables_path(data), &data.join(MARK)].iter().any(|file| file.exists()) {
        let why = format!("{}: this directory contains no store", data.display());
        return Err(Error::Refused(why));
    }
    let lock_file = LockFile::take(data)?;
    // Without a journal, no process can be using the store.
    let _dir_lock = if journal.is_file() { Some(lock_file.lock(&journal)?) } else { None };
    let part = data.join(PART);
    // The remains of an interrupted attempt are worthless.
    let _ = fs::remove_dir_all(&part);
    let recovered = rebuild(data, &part);
    let _ = fs::remove_dir_all(&part);
    recovered
}

/// Creates the new store in `part`, and replaces the old one by it once it is complete.
fn rebuild(data: &Path, part: &Path) -> Result<Recovered, Error> {
    let [kept, source, target] = ["kept", "source", "target"].map(|name| part.join(name));
    copy_all(data, &kept)?;
    copy_all(data, &source)?;
    fs::create_dir_all(&target).map_err(|error| trouble(&target, &error))?;
    let salvage = Salvage::of(&source, data)?;
    let place = salvage.write(&target)?;
    // Nothing in the data directory has changed so far, and from here on the copies of the damaged files remain
    // whatever happens.
    let damaged = keep(&kept, data)?;
    replace(&target, data)?;
    Ok(Recovered {
        why: salvage.why,
        kept_through: place.seq,
        acknowledged_through: salvage.acknowledged_through,
        are_tables_sound: salvage.are_tables_sound,
        ended: salvage.machine.counts(),
        damaged,
    })
}

/// The intact part of a store.
struct Salvage {
    why: String,
    machine: Machine,
    place: Place,
    last: Option<Moment>,
    store_id: Option<[u8; 16]>,
    are_tables_sound: bool,
    acknowledged_through: u64,
}

impl Salvage {
    /// Reads copies of the files in `data`. Error messages contain the original paths.
    fn of(source: &Path, data: &Path) -> Result<Self, Error> {
        let named =
            |why: &str| why.replace(&*source.display().to_string(), &data.display().to_string());
        let why = match judge(source) {
            Err(Error::Refused(why)) => named(&why),
            Err(error) => return Err(error),
            Ok(()) => return Err(refused("nothing to recover: the store is intact")),
        };
        if why.contains("newer version") || why.contains("it is too old") {
            return Err(refused(why));
        }
        let marked = match mark::find(source)? {
            Found::Sound(marked) => Some(marked),
            Found::Missing | Found::Damaged => None,
        };
        let journal = open(&journal_path(source));
        let sound = open(&tables_path(source))
            .and_then(|mut tables| sound_part(journal.as_ref(), &mut tables, marked.as_ref()));
        let are_tables_sound = sound.is_ok();
        let seen = HighestNumbers::in_all(source, journal.as_ref().ok(), marked.as_ref());
        let (machine, place, last) = match sound {
            Ok(sound) => sound,
            Err(_) if seen.is_nothing() => {
                return Err(refused(format!(
                    "nothing is readable, so nothing can be recovered: {why}"
                )));
            }
            Err(_) => (seen.machine()?, Place { seq: seen.seq, ..Place::default() }, None),
        };
        let store_id = journal.as_ref().ok().and_then(|journal| load::store_id(journal).ok());
        let store_id = store_id.or(marked.map(|marked| marked.store_id));
        let acknowledged_through = marked.map_or(0, |marked| marked.place.seq).max(seen.seq);
        Ok(Self { why, machine, place, last, store_id, are_tables_sound, acknowledged_through })
    }

    /// Writes a new store, as a backup. It does not reuse the numbers of discarded records.
    fn write(&self, target: &Path) -> Result<Place, Error> {
        let id = self.store_id.unwrap_or_else(leasehold_base::random::bytes);
        let path = tables_path(target);
        schema::create(id, &journal_path(target), &path)?;
        let mut tables = schema::unsynced(&path)?;
        let seq = self.place.seq.max(self.acknowledged_through);
        let start = Place { seq, ..Place::default() };
        load::rewrite(&mut tables, &self.machine, start, self.last, |tx| {
            schema::set(tx, "is_backup", 1)
        })
        .map_err(refused)?;
        Ok(self.place)
    }
}

/// Checks a store in the same way as `serve`.
fn judge(source: &Path) -> Result<(), Error> {
    if !is_there(source)? {
        return Err(refused(format!("{} has no store", source.display())));
    }
    let journal = schema::open_journal(source)?;
    let mut tables = schema::open_tables(source, &journal)?;
    load::read(&journal, &mut tables, mark::find(source)?, Limits::default(), 0).map(drop)
}

/// Returns the state of the tables, and of the journal after them up to the first invalid record.
fn sound_part(
    journal: Result<&Connection, &Error>,
    tables: &mut Connection,
    marked: Option<&Marked>,
) -> Result<(Machine, Place, Option<Moment>), Error> {
    schema::check_seal(TABLES, tables)?;
    let (folded, moment) = (load::place(tables)?, load::moment(tables)?);
    let mut machine = load::import(tables, Limits::default(), 0)?;
    if marked.is_some_and(|marked| marked.unused.floor > Unused::of(&machine).floor) {
        return Err(refused("tables.db is older than the last restore"));
    }
    let Ok(journal) = journal else { return Ok((machine, folded, moment)) };
    let mut records = Vec::new();
    // The error is known already.
    let _ = journal::read(journal, Chain::after(folded), |place, record| {
        records.push((place, record));
        Ok(ControlFlow::Continue(()))
    });
    if let Err(n_sound) = absorb(&mut machine, &records) {
        // The failed change might have damaged the machine, so the state is built again without it.
        records.truncate(n_sound);
        machine = load::import(tables, Limits::default(), 0)?;
        absorb(&mut machine, &records)
            .map_err(|n| refused(format!("record {n} fits only once")))?;
    }
    let last = records.pop().map(|(place, record)| (place, Some(record.moment)));
    let (place, last) = last.unwrap_or((folded, moment));
    Ok((machine, place, last))
}

/// Applies the records. The error is the number of records that could be applied.
fn absorb(machine: &mut Machine, records: &[(Place, Record)]) -> Result<(), usize> {
    let unfit = records
        .iter()
        .position(|(_, record)| machine.absorb(record.moment.lock_time, &record.changes).is_err());
    unfit.map_or(Ok(()), Err)
}

/// The highest number of each kind that occurs anywhere, even in damaged data.
#[derive(Default)]
struct HighestNumbers {
    seq: u64,
    token: u64,
    lease: u64,
    session: u64,
    now: Timestamp,
}

impl HighestNumbers {
    /// Higher tokens are ignored as damage, because no server issues that many.
    const TOKEN_MAX: u64 = Token::MAX.get() - (1 << 42);

    fn in_all(source: &Path, journal: Option<&Connection>, marked: Option<&Marked>) -> Self {
        let mut seen = Self::default();
        if let Some(Marked { place, unused: Unused { floor, lease, session }, .. }) = marked {
            seen.seq = place.seq;
            seen.token(*floor);
            seen.lease = *lease;
            seen.session = *session;
        }
        if let Some(journal) = journal {
            let _ = seen.in_journal(journal);
        }
        if let Ok(tables) = open(&tables_path(source)) {
            let _ = rows::for_each(&tables, |row| {
                seen.row(&row);
                Ok::<_, rusqlite::Error>(())
            });
            if let Ok(meta) = load::meta(&tables) {
                seen.row(&meta);
            }
            seen.seq = seen.seq.max(load::place(&tables).map_or(0, |place| place.seq));
        }
        seen
    }

    fn in_journal(&mut self, journal: &Connection) -> rusqlite::Result<()> {
        let mut statement = journal.prepare("SELECT record FROM journal")?;
        let mut found = statement.query([])?;
        while let Some(row) = found.next()? {
            let Ok(record) = Record::decode(row.get_ref(0)?.as_blob()?) else { continue };
            self.seq = self.seq.max(record.head.map_or(0, |head| head.seq));
            self.now = self.now.max(record.moment.lock_time);
            for change in &record.changes {
                match change {
                    Change::LeaseAdded(lease) => self.row(&Row::Lease((**lease).clone())),
                    Change::Granted { token, .. } => self.token(token.get()),
                    Change::SessionOpened(session) => {
                        self.session = self.session.max(session.number.0 + 1)
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn row(&mut self, row: &Row) {
        match row {
            Row::Meta { next_lease, next_session, now, floor, .. } => {
                self.lease = self.lease.max(next_lease.0);
                self.session = self.session.max(next_session.0);
                self.now = self.now.max(*now);
                self.token(floor.get());
            }
            Row::Namespace { floor, .. } => self.token(floor.get()),
            Row::Lock(lock) => self.token(lock.last_token.get()),
            Row::Session(session) => self.session = self.session.max(session.number.0 + 1),
            Row::Lease(lease) => {
                self.lease = self.lease.max(lease.number.0 + 1);
                self.token(lease.token.get());
            }
        }
    }

    fn token(&mut self, token: u64) {
        if token <= Self::TOKEN_MAX {
            self.token = self.token.max(token);
        }
    }

    fn is_nothing(&self) -> bool {
        self.token == 0 && self.lease <= 1
    }

    /// Returns a state that knows no locks, and whose next token and numbers are above all that were found.
    fn machine(&self) -> Result<Machine, Error> {
        let meta = Row::Meta {
            next_lease: LeaseNumber(self.lease.max(1)),
            next_session: SessionNumber(self.session.max(1)),
            now: self.now,
            floor: Token::ZERO.raised(self.token),
            maintenance: false,
        };
        Machine::import(Limits::default(), 0, [meta]).map_err(refused)
    }
}

fn open(path: &Path) -> Result<Connection, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(path, flags).map_err(refused)
}

/// Moves the copies of the damaged files to a new subdirectory of the data directory.
fn keep(kept: &Path, data: &Path) -> Result<PathBuf, Error> {
    let mut names = (1..).map(|n| data.join(format!("damaged-{n}")));
    let target = names.find(|path| !path.exists()).unwrap_or_else(|| data.join("damaged"));
    fs::rename(kept, &target).map_err(|error| trouble(&target, &error))?;
    sync(data)?;
    Ok(target)
}

fn store_files(data: &Path) -> impl Iterator<Item = PathBuf> {
    let databases = [journal_path(data), tables_path(data)];
    let logs = databases.clone().map(|path| beside(&path, "-wal"));
    databases.into_iter().chain(logs).chain([data.join(MARK)])
}

fn copy_all(from: &Path, to: &Path) -> Result<(), Error> {
    fs::create_dir_all(to).map_err(|error| trouble(to, &error))?;
    for path in store_files(from).filter(|path| path.is_file()) {
        let copy = to.join(path.file_name().unwrap_or_default());
        fs::copy(&path, &copy)
            .and_then(|_| File::open(&copy)?.sync_all())
            .map_err(|error| trouble(&copy, &error))?;
    }
    sync(to)
}

/// Replaces the damaged files by the new ones. If this is interrupted, the directory is not empty, so no start creates
/// a new store there. A start checks the files against the mark, which is removed last and is not required in a backup.
fn replace(target: &Path, data: &Path) -> Result<(), Error> {
    let rename =
        |path: PathBuf, to: PathBuf| fs::rename(&path, &to).map_err(|error| trouble(&to, &error));
    for (new, old) in
        [(tables_path(target), tables_path(data)), (journal_path(target), journal_path(data))]
    {
        File::open(&new).and_then(|file| file.sync_all()).map_err(|error| trouble(&new, &error))?;
        remove(&beside(&old, "-wal"))?;
        remove(&beside(&old, "-shm"))?;
        sync(data)?;
        rename(new, old)?;
        sync(data)?;
    }
    remove(&data.join(MARK))?;
    sync(data)
}

fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(trouble(path, &error)),
        _ => Ok(()),
    }
}
