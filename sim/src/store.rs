//! A simulated store on a simulated disk: real record bytes, a journal, tables, and faults.
//!
//! It follows the rules of the real store: a fold is durable before the journal is trimmed, and a gap prevents a start.
//! The disk loses data that was not synced. SQLite itself is not simulated: other tests cover the real store and disk
//! faults.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasehold_base::clock::Moment;
use leasehold_core::{LeaseNumber, Limits, Machine, Phase, Restore, Row, Token, mutant};
use leasehold_store::{
    Chain, Draft, Error, Hash, JournalSize, Kind, Loaded, Permit, Place, Record, Store,
};

use crate::chance::Chance;

/// Journal records deleted with each append.
const TRIMMED_PER_APPEND: usize = 8;
/// A small value, so that it often limits the size of a batch.
const RECORD_BYTES_MAX: usize = 2048;

/// The outcome of the next append.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// The record is durable, and the caller knows.
    Committed,
    /// The append fails, and nothing is written.
    FailedNotApplied,
    /// The append fails, but everything is written.
    FailedButApplied,
    /// The process ends before anything is written.
    CrashBefore,
    /// The process ends after everything is written, before any response.
    CrashAfter,
    /// The outcome is unknown for a while.
    Unsettled(Settling),
    /// Another server has taken over, and nothing is written.
    Fenced,
}

/// How the unknown outcome of an append is determined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settling {
    /// Whether everything was written immediately and only the response was lost. Otherwise the record is sent again.
    pub is_written: bool,
    /// How often the caller asks in vain.
    pub n_tries: u32,
    /// Whether another server takes over in the meantime.
    pub is_fenced: bool,
}

/// An append whose outcome is unknown.
struct UnsettledAppend {
    settling: Settling,
    epoch: u64,
    moment: Moment,
    bytes: Vec<u8>,
}

/// The disk: data that survives a crash, and data that does not.
pub struct Disk {
    journal: BTreeMap<u64, Vec<u8>>,
    /// The chain up to the last record.
    chain: Chain,
    /// The last record that might have been acknowledged.
    mark: Option<Place>,
    tables: Tables,
    /// Tables that are folded, but lost in a power failure.
    unsynced: Option<Tables>,
    is_backup: bool,
    epoch: u64,
    generation: u64,
    /// Whether another process has locked the database.
    pub is_busy: bool,
    /// The outcome of the next append.
    pub fate: Fate,
    /// Whether the process has ended during an append.
    pub has_crashed: bool,
    held: Option<UnsettledAppend>,
    /// The state found by the last start.
    pub recovery: Option<Recovery>,
}

/// The state of the journal up to some record.
#[derive(Clone, Default)]
struct Tables {
    through: Place,
    moment: Option<Moment>,
    rows: Vec<Row>,
}

/// A copy of the durable data.
#[derive(Clone)]
pub struct Backup {
    journal: BTreeMap<u64, Vec<u8>>,
    tables: Tables,
}

/// The state that a start found on disk, for the checker.
#[derive(Clone, Debug, Default)]
pub struct Recovery {
    /// The active leases: their tokens, locks and owners.
    pub active: BTreeMap<LeaseNumber, (Token, String, String)>,
    /// The active leases whose session has ended. They count as ended, although a later sweep records that.
    pub closed: BTreeSet<LeaseNumber>,
    /// By lock name, a token below those of all later grants of the lock.
    pub tokens: BTreeMap<String, Token>,
    /// Whether this is the first start from a backup.
    pub is_restored: bool,
}

/// The disk, shared by the world and the server's store.
#[derive(Clone)]
pub struct SharedDisk(Arc<Mutex<Disk>>);

impl SharedDisk {
    /// Creates an empty disk.
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(Disk {
            journal: BTreeMap::new(),
            chain: Chain::default(),
            mark: None,
            tables: Tables::default(),
            unsynced: None,
            is_backup: false,
            epoch: 0,
            generation: 1,
            is_busy: false,
            fate: Fate::Committed,
            has_crashed: false,
            held: None,
            recovery: None,
        })))
    }

    /// Locks the disk. No other code can access it while the guard lives.
    pub fn lock(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for SharedDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl Disk {
    /// Folds the whole journal into the tables, without a sync.
    pub fn fold(&mut self) -> Result<(), Error> {
        let from = self.unsynced.take().unwrap_or_else(|| self.tables.clone());
        let (machine, chain, moment) = self.replay(&self.journal, from, Limits::default())?;
        let through = chain.place();
        self.unsynced = Some(Tables { through, moment, rows: machine.export() });
        Ok(())
    }

    /// Makes the folded tables durable.
    pub fn sync(&mut self) {
        if let Some(tables) = self.unsynced.take() {
            self.tables = tables;
        }
    }

    /// Simulates a crash or power failure. Data that was not synced might have been written or not.
    pub fn crash(&mut self, keeps_unsynced: bool) {
        if keeps_unsynced {
            self.sync();
        }
        self.unsynced = None;
        self.is_busy = false;
        self.fate = Fate::Committed;
        self.has_crashed = false;
        self.held = None;
    }

    /// Returns whether there is an append whose outcome is unknown.
    pub fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// Ends all faults. An unknown outcome is reported on the next call.
    pub fn heal(&mut self) {
        self.is_busy = false;
        self.fate = Fate::Committed;
        if let Some(held) = &mut self.held {
            held.settling.n_tries = 0;
        }
    }

    /// Returns a copy of the durable data.
    pub fn backup(&self) -> Backup {
        Backup { journal: self.journal.clone(), tables: self.tables.clone() }
    }

    /// Replaces the durable data by a backup. The next start learns that it is one.
    pub fn restore(&mut self, backup: Backup) {
        self.journal = backup.journal;
        self.tables = backup.tables;
        self.unsynced = None;
        self.mark = None;
        self.is_backup = true;
    }

    fn replay(
        &self,
        journal: &BTreeMap<u64, Vec<u8>>,
        from: Tables,
        limits: Limits,
    ) -> Result<(Machine, Chain, Option<Moment>), Error> {
        let refused = |why: String| Error::Refused(why);
        let mut machine =
            Machine::import(limits, 7, from.rows).map_err(|error| refused(error.to_string()))?;
        let mut chain = Chain::after(from.through).with_acknowledged(self.mark);
        let mut moment = from.moment;
        for (seq, bytes) in journal.range(from.through.seq + 1..) {
            let record = chain.read(*seq, bytes).map_err(|broken| refused(broken.to_string()))?;
            machine
                .absorb(record.moment.lock_time, &record.changes)
                .map_err(|error| refused(format!("journal record {seq}: {error}")))?;
            moment = Some(record.moment);
        }
        chain.end().map_err(|broken| refused(broken.to_string()))?;
        machine.absorbed();
        Ok((machine, chain, moment))
    }

    /// Damages a copy of the journal where it was acknowledged. Returns the damage if a start would not notice it.
    pub fn unseen_damage(&self, chance: &mut Chance) -> Option<String> {
        let folded = self.tables.through.seq;
        let marked = self.mark.map(|mark| mark.seq).filter(|marked| *marked > folded)?;
        let seq = chance.within(folded + 1, marked);
        let mut journal = self.journal.clone();
        let what = if chance.permille(500) {
            journal.retain(|other, _| *other < seq);
            format!("records from {seq} on are lost")
        } else {
            let record = Record::decode(journal.get(&seq)?).ok()?;
            let moment = Moment { wall_ms: record.moment.wall_ms + 1, ..record.moment };
            journal.insert(seq, Record::encode(&record.head?, moment, &record.changes));
            format!("record {seq} is another")
        };
        let found = self.replay(&journal, self.tables.clone(), Limits::default());
        found.is_ok().then(|| format!("{what}, and {marked} is answered for"))
    }

    /// Performs an append with this outcome.
    fn append(
        &mut self,
        fate: Fate,
        epoch: u64,
        moment: Moment,
        bytes: Vec<u8>,
    ) -> Result<(), Error> {
        let fenced = || Error::Fenced("a simulated server".into());
        match fate {
            _ if epoch < self.epoch => return Err(fenced()),
            Fate::Fenced => {
                self.taken_over(moment);
                return Err(fenced());
            }
            Fate::Unsettled(settling) => {
                if settling.is_written {
                    self.write(epoch, bytes.clone());
                }
                self.held = Some(UnsettledAppend { settling, epoch, moment, bytes });
                return Err(Error::Unsettled(format!("{fate:?}")));
            }
            Fate::Committed | Fate::FailedButApplied | Fate::CrashAfter => self.write(epoch, bytes),
            Fate::FailedNotApplied | Fate::CrashBefore => {}
        }
        self.has_crashed = matches!(fate, Fate::CrashBefore | Fate::CrashAfter);
        if fate != Fate::Committed {
            return Err(Error::Unknown(format!("{fate:?}")));
        }
        self.mark = Some(self.chain.place());
        Ok(())
    }

    /// Determines the outcome of the pending append: sends it again, finds that it was written, or that another server
    /// has taken over.
    fn settle(&mut self) -> Result<(), Error> {
        let Some(mut held) = self.held.take() else { return Ok(()) };
        let Settling { is_written, is_fenced, .. } = held.settling;
        if let Some(n_tries) = held.settling.n_tries.checked_sub(1) {
            held.settling.n_tries = n_tries;
            self.held = Some(held);
            return Err(Error::Unsettled(format!("{n_tries} more tries")));
        }
        let UnsettledAppend { epoch, moment, bytes, .. } = held;
        if is_fenced {
            self.taken_over(moment);
            return Err(Error::Fenced("a simulated server, meanwhile".into()));
        }
        if !is_written {
            self.write(epoch, bytes);
        }
        self.mark = Some(self.chain.place());
        Ok(())
    }

    /// Simulates another server that starts a new epoch and then ends.
    fn taken_over(&mut self, moment: Moment) {
        self.epoch += 1;
        let draft = Draft { kind: Kind::Epoch, moment, changes: &[] };
        let bytes = self.chain.encode(self.epoch, "other", draft);
        self.write(self.epoch, bytes);
        self.mark = Some(self.chain.place());
    }

    fn write(&mut self, epoch: u64, bytes: Vec<u8>) {
        self.chain.wrote(epoch, &bytes);
        self.journal.insert(self.chain.place().seq, bytes);
        let mut folded = self.tables.through.seq;
        if mutant!(TrimBeforeFoldSynced) {
            folded = self.unsynced.as_ref().map_or(folded, |unsynced| unsynced.through.seq);
        }
        let gone: Vec<_> = self.journal.range(..=folded).map(|(seq, _)| *seq).collect();
        gone.iter().take(TRIMMED_PER_APPEND).for_each(|seq| drop(self.journal.remove(seq)));
    }
}

/// The store on a simulated disk, and the epoch in which it was opened.
pub struct SimStore(SharedDisk, u64);

impl SimStore {
    /// Creates a store that is not loaded yet.
    pub fn new(disk: SharedDisk) -> Self {
        Self(disk, 0)
    }
}

impl Store for SimStore {
    fn load(&mut self, limits: Limits, _: u128) -> Result<Loaded, Error> {
        let mut disk = self.0.lock();
        let (mut machine, chain, last) = disk.replay(&disk.journal, disk.tables.clone(), limits)?;
        let is_restored = std::mem::take(&mut disk.is_backup);
        if is_restored {
            machine.apply(machine.now(), Restore);
            disk.tables = Tables { through: chain.place(), moment: last, rows: machine.export() };
            disk.journal.clear();
            disk.mark = None;
            disk.generation += 1;
        }
        disk.epoch = disk.epoch.max(chain.epoch()) + 1;
        disk.chain = chain;
        disk.recovery = Some(recovery(&machine, is_restored));
        let (generation, epoch) = (disk.generation, disk.epoch);
        self.1 = epoch;
        let seq = disk.chain.place().seq;
        Ok(Loaded { machine, last, generation, epoch, is_restored, seq, told: Vec::new() })
    }

    fn reserve(&mut self) -> Result<Permit, Error> {
        let mut disk = self.0.lock();
        // A correct caller settles a pending append first. The pending append of any other caller is dropped, so that
        // it is not made twice.
        disk.held = None;
        if disk.is_busy { Err(Error::Busy) } else { Ok(Permit::granted(self.1)) }
    }

    fn append(&mut self, permit: Permit, draft: Draft<'_>) -> Result<(), Error> {
        let mut disk = self.0.lock();
        let fate = std::mem::replace(&mut disk.fate, Fate::Committed);
        let bytes = disk.chain.encode(permit.epoch(), "", draft);
        if mutant!(MarkBeforeCommit) {
            let place = Place { seq: disk.chain.place().seq + 1, hash: Hash::of(&bytes) };
            disk.mark = Some(place);
        }
        disk.append(fate, permit.epoch(), draft.moment, bytes)
    }

    fn confirm(&mut self, permit: Permit) -> Result<(), Error> {
        if permit.epoch() < self.0.lock().epoch {
            return Err(Error::Fenced("a simulated server".into()));
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<(), Error> {
        self.0.lock().settle()
    }

    fn record_bytes_max(&self) -> usize {
        RECORD_BYTES_MAX
    }

    fn is_near(&self) -> bool {
        true
    }

    fn finish(&mut self) -> Result<(), Error> {
        let mut disk = self.0.lock();
        disk.fold()?;
        disk.sync();
        Ok(())
    }

    fn journal(&self) -> JournalSize {
        let disk = self.0.lock();
        let (seq, n_records) = (disk.chain.place().seq, disk.journal.len() as u64);
        JournalSize { seq, folded_through: seq, n_records, n_bytes_written: 0 }
    }
}

pub(crate) fn recovery(machine: &Machine, is_restored: bool) -> Recovery {
    let mut recovery = Recovery { is_restored, ..Recovery::default() };
    let (mut floors, mut members, mut ended) = (BTreeMap::new(), Vec::new(), BTreeSet::new());
    for row in machine.export() {
        match row {
            Row::Lease(lease) if lease.phase == Phase::Active => {
                members.extend(lease.session.map(|session| (lease.number, session)));
                let (lock, owner) = (lease.lock.name.into(), lease.owner.instance.to_string());
                recovery.active.insert(lease.number, (lease.token, lock, owner));
            }
            Row::Session(session) if session.ended.is_some() => drop(ended.insert(session.number)),
            // The rows of namespaces precede those of their locks.
            Row::Namespace { name, floor } => drop(floors.insert(name, floor)),
            Row::Lock(lock) => {
                let floor = floors.get(&lock.lock.namespace).copied().unwrap_or(Token::ZERO);
                recovery.tokens.insert(lock.lock.name.into(), lock.last_token.max(floor));
            }
            _ => {}
        }
    }
    let closed = members.into_iter().filter(|(_, session)| ended.contains(session));
    recovery.closed = closed.map(|(lease, _)| lease).collect();
    recovery
}
