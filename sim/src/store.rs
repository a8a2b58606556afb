//! A simulated disk with a store on it: real record bytes, a journal, tables, and all that can go wrong.
//!
//! It keeps the rules of the real store (a fold is durable before the journal is trimmed, a gap refuses the
//! start) over a disk that loses what was not synced. SQLite itself is not simulated: the tests of the real
//! store and of disk faults are for that.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasehold_base::clock::Moment;
use leasehold_core::{LeaseNumber, Limits, Machine, Phase, Restore, Row, Token, mutant};
use leasehold_store::{
    Chain, Draft, Error, Hash, JournalSize, Kind, Loaded, Permit, Place, Record, Store,
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
    /// Nobody knows for a while.
    Unsettled(Settling),
    /// Another server has taken over, and nothing of ours is written any more.
    Fenced,
}

/// How it becomes known what became of an append.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settling {
    /// All of it was written at once, only nobody was told; otherwise it is sent again.
    pub is_written: bool,
    /// How often it is asked for in vain.
    pub n_tries: u32,
    /// Another server takes over meanwhile.
    pub is_fenced: bool,
}

/// An append nobody knows the outcome of.
struct Held {
    settling: Settling,
    epoch: u64,
    moment: Moment,
    bytes: Vec<u8>,
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
    held: Option<Held>,
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
    /// No later grant of a remembered lock has this token or an earlier one, by name.
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
            held: None,
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
        self.held = None;
    }

    /// Is there an append nobody knows the outcome of?
    pub fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// Nothing goes wrong from here on, and what is not known is told when it is asked for next.
    pub fn heal(&mut self) {
        self.is_busy = false;
        self.fate = Fate::Committed;
        if let Some(held) = &mut self.held {
            held.settling.n_tries = 0;
        }
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

    /// What became of an append that is to come to this.
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
                self.held = Some(Held { settling, epoch, moment, bytes });
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

    /// Sends what is held again, or finds that it was made, or that another server made something else of it.
    fn settle(&mut self) -> Result<(), Error> {
        let Some(mut held) = self.held.take() else { return Ok(()) };
        let Settling { is_written, is_fenced, .. } = held.settling;
        if let Some(n_tries) = held.settling.n_tries.checked_sub(1) {
            held.settling.n_tries = n_tries;
            self.held = Some(held);
            return Err(Error::Unsettled(format!("{n_tries} more tries")));
        }
        let Held { epoch, moment, bytes, .. } = held;
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

    /// Another server begins an epoch of its own, and is gone again.
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

/// The store on a simulated disk, and the epoch it was opened in.
pub struct SimStore(SharedDisk, u64);

impl SimStore {
    /// A store that nobody has opened yet.
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
        // Nobody who keeps the rules asks for more before this is settled; and then it is not made twice.
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
    let mut floors = BTreeMap::new();
    for row in machine.export() {
        match row {
            Row::Lease(lease) if lease.phase == Phase::Active => {
                let (lock, owner) = (lease.lock.name.into(), lease.owner.instance.to_string());
                recovery.active.insert(lease.number, (lease.token, lock, owner));
            }
            // Namespaces come before their locks.
            Row::Namespace { name, floor } => drop(floors.insert(name, floor)),
            Row::Lock(lock) => {
                let floor = floors.get(&lock.lock.namespace).copied().unwrap_or(Token::ZERO);
                recovery.tokens.insert(lock.lock.name.into(), lock.last_token.max(floor));
            }
            _ => {}
        }
    }
    recovery
}
