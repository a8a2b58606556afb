//! A simulated disk with a store on it: real record bytes, a journal, tables, and all that can go wrong.
//!
//! It keeps the rules of the real store (a fold is durable before the journal is trimmed, a gap refuses the
//! start) over a disk that loses what was not synced. SQLite itself is not simulated: the tests of the real
//! store and of disk faults are for that.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasehold_core::{Change, LeaseNumber, Limits, Machine, Phase, Restore, Row, Token, mutant};
use leasehold_server::clock::Moment;
use leasehold_server::store::{
    Chain, Error, Hash, JournalSize, Kind, Loaded, Permit, Place, Record, Store,
};

use crate::chance::Chance;

/// Journal records deleted with each append.
const TRIMMED_PER_APPEND: usize = 8;
/// So little that batches are often cut short by it.
const RECORD_BYTES_MAX: usize = 2048;

/// What the next append comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// Durable, and the caller knows.
    Committed,
    /// An error, and nothing was written.
    FailedNotApplied,
    /// An error, but all of it was written.
    FailedButApplied,
    /// The process ends before anything is written.
    CrashBefore,
    /// The process ends after all of it is written, before anybody knows.
    CrashAfter,
}

/// What survives a crash, and what does not.
pub struct Disk {
    journal: BTreeMap<u64, Vec<u8>>,
    /// Up to the last record.
    chain: Chain,
    /// The last record that may have been answered for.
    mark: Option<Place>,
    tables: Tables,
    /// Folded, but lost if the power goes now.
    unsynced: Option<Tables>,
    is_backup: bool,
    epoch: u64,
    generation: u64,
    /// Another process holds the database.
    pub is_busy: bool,
    /// What the next append comes to.
    pub fate: Fate,
    /// The process has ended in the middle of an append.
    pub has_crashed: bool,
    /// What the last start found.
    pub recovery: Option<Recovery>,
}

/// What the journal added up to, up to some record.
#[derive(Clone, Default)]
struct Tables {
    through: Place,
    moment: Option<Moment>,
    rows: Vec<Row>,
}

/// A copy of the durable part.
#[derive(Clone)]
pub struct Backup {
    journal: BTreeMap<u64, Vec<u8>>,
    tables: Tables,
}

/// What a start found on disk, for the checker.
#[derive(Clone, Debug, Default)]
pub struct Recovery {
    /// Active leases: their tokens, locks and owners.
    pub active: BTreeMap<LeaseNumber, (Token, String, String)>,
    /// The last token of each lock that is remembered, by name.
    pub tokens: BTreeMap<String, Token>,
    /// It is the first start from a backup.
    pub is_restored: bool,
}

/// The disk as the world and the server's store share it.
#[derive(Clone)]
pub struct SharedDisk(Arc<Mutex<Disk>>);

impl SharedDisk {
    /// An empty one.
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
            recovery: None,
        })))
    }

    /// Nobody else has it as long as this lives.
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

    /// What was folded is durable.
    pub fn sync(&mut self) {
        if let Some(tables) = self.unsynced.take() {
            self.tables = tables;
        }
    }

    /// The power goes, or the process does. What was not synced may have been written, or not.
    pub fn crash(&mut self, keeps_unsynced: bool) {
        if keeps_unsynced {
            self.sync();
        }
        self.unsynced = None;
        self.is_busy = false;
        self.fate = Fate::Committed;
        self.has_crashed = false;
    }

    /// A copy of what is durable.
    pub fn backup(&self) -> Backup {
        Backup { journal: self.journal.clone(), tables: self.tables.clone() }
    }

    /// What is durable is what the backup says, and whoever starts next is told.
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
            let record = chain.read(*seq, bytes).map_err(refused)?;
            machine
                .absorb(record.moment.lock_time, &record.changes)
                .map_err(|error| refused(format!("journal record {seq}: {error}")))?;
            moment = Some(record.moment);
        }
        chain.end().map_err(refused)?;
        machine.absorbed();
        Ok((machine, chain, moment))
    }

    /// Something happens to the journal that concerns what was answered for. `Some`: a start would not notice.
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

    fn append(&mut self, epoch: u64, kind: Kind, moment: Moment, changes: &[Change]) {
        let bytes = self.chain.encode(epoch, kind, "", moment, changes);
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

/// The store on a simulated disk.
pub struct SimStore(pub SharedDisk);

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
        let seq = disk.chain.place().seq;
        Ok(Loaded { machine, last, generation, epoch, is_restored, seq, told: Vec::new() })
    }

    fn reserve(&mut self) -> Result<Permit, Error> {
        let disk = self.0.lock();
        if disk.is_busy { Err(Error::Busy) } else { Ok(Permit::granted(disk.epoch)) }
    }

    fn append(
        &mut self,
        permit: Permit,
        kind: Kind,
        moment: Moment,
        changes: &[Change],
    ) -> Result<(), Error> {
        let mut disk = self.0.lock();
        let fate = std::mem::replace(&mut disk.fate, Fate::Committed);
        if mutant!(MarkBeforeCommit) {
            let bytes = disk.chain.encode(permit.epoch(), kind, "", moment, changes);
            let place = Place { seq: disk.chain.place().seq + 1, hash: Hash::of(&bytes) };
            disk.mark = Some(place);
        }
        if matches!(fate, Fate::Committed | Fate::FailedButApplied | Fate::CrashAfter) {
            disk.append(permit.epoch(), kind, moment, changes);
        }
        if fate == Fate::Committed {
            disk.mark = Some(disk.chain.place());
        }
        disk.has_crashed = matches!(fate, Fate::CrashBefore | Fate::CrashAfter);
        if fate == Fate::Committed { Ok(()) } else { Err(Error::Unknown(format!("{fate:?}"))) }
    }

    fn confirm(&mut self, _: Permit) -> Result<(), Error> {
        Ok(())
    }

    fn settle(&mut self) -> Result<(), Error> {
        Ok(())
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

fn recovery(machine: &Machine, is_restored: bool) -> Recovery {
    let mut recovery = Recovery { is_restored, ..Recovery::default() };
    for row in machine.export() {
        match row {
            Row::Lease(lease) if lease.phase == Phase::Active => {
                let (lock, owner) = (lease.lock.name.into(), lease.owner.instance.to_string());
                recovery.active.insert(lease.number, (lease.token, lock, owner));
            }
            Row::Lock(lock) => {
                recovery.tokens.insert(lock.lock.name.into(), lock.last_token);
            }
            _ => {}
        }
    }
    recovery
}
