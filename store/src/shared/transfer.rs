//! Transfers whole stores into and out of a shared store: backups, restores and migrations.

use std::sync::Arc;

use leasehold_base::clock::{Clock, LockClock};
use leasehold_core::{Limits, invariant};

use super::backend::{Backend, BackendFailure, Entry, Reopened, Replaced, Write};
use super::chair::Chair;
use super::follower::Follower;
use super::guard::{Guard, Verdict};
use super::init;
use super::reading::{Read, Reading, Unread};
use super::snapshot::Manifest;
use super::value::{self, ClosedValue, Id, RewoundValue, hex, unhex};
use crate::{Chain, Draft, Error, Hash, Kind, Place, Whole};

/// The node name in the last record of a store that is migrated.
const NODE: &str = "leasehold-migrate";

/// The result of reading a store completely.
pub struct Checked {
    /// The state and its position in the journal.
    pub whole: Whole,
    /// The number of records that are not in the snapshot.
    pub n_records: u64,
    /// Whether a server has noticed that the store was rolled back to an earlier state.
    pub is_rewound: bool,
    /// Where the store has moved to, if it has.
    pub moved_to: Option<String>,
}

/// Reads a store completely and checks it: the snapshot, the checksum of every record, their chain up to the head, and
/// every invariant of the resulting state. Servers can use the store at the same time.
pub fn check(backend: &dyn Backend, clock: &dyn Clock) -> Result<Checked, Error> {
    let limits = Limits::default();
    let reading = Reading::without_server(backend, clock, &limits);
    let (id, _) = reading.id()?;
    let read = reading.all(None).map_err(unread)?;
    let (n_records, is_rewound) = (read.n_records(), read.look.is_rewound);
    let moved_to = read.look.moved_to();
    let (whole, _) = whole(id, read.follower)?;
    let contradicts = |why| Error::Refused(format!("the state contradicts itself: {why}"));
    invariant::check(&whole.machine).map_err(contradicts)?;
    Ok(Checked { whole, n_records, is_rewound, moved_to })
}

/// Replaces a store by a backup, or creates it if there is no store. No server may lead the store. The restored store
/// has a new generation: all its leases have ended, and no token or number issued since the backup is issued again.
pub fn restore(backend: &dyn Backend, mut whole: Whole) -> Result<(), Error> {
    let found = init::find(backend).map_err(Error::Refused)?;
    let mut n_restores = 0;
    if let Some((id, _)) = &found {
        init::check_format(backend, id)?;
        if id.store != hex(&whole.store_id) {
            return Err(Error::Refused(format!(
                "the store under {} is not the one that the backup was taken from ({} and {}); restore it to an empty \
                 prefix",
                backend.location(),
                id.store,
                hex(&whole.store_id)
            )));
        }
        n_restores = id.n_restores.max(remembered_restores(backend)?);
    } else {
        init::check_apart(backend)?;
    }
    let chair = Chair::take(backend, "restore", &[])?;
    whole.restore(n_restores);
    let manifest = chair.write(&whole)?;
    let replaces = found.as_ref().map_or(Replaced::WithoutId, |(_, bytes)| Replaced::Store(bytes));
    let id = Id::new(whole.store_id, whole.place.seq, whole.n_restores);
    let changed = || Error::Refused("the store changed during the operation; try again".into());
    chair.put(replaces, &id, manifest, &whole)?.ok_or_else(changed)
}

/// Returns how often the store was restored, according to the server that noticed that it was rolled back. After that,
/// the store might not contain the last restore.
fn remembered_restores(backend: &dyn Backend) -> Result<u64, Error> {
    let rewound = backend.entries().map_err(BackendFailure::refused)?.rewound;
    let rewound = rewound.map(|found| serde_json::from_slice::<RewoundValue>(&found));
    // An unreadable value gives no information.
    Ok(rewound.and_then(Result::ok).map_or(0, |rewound| rewound.n_restores))
}

/// The target of a migration into a shared store: an empty location, reserved by holding its leadership.
pub struct Arrival<'a> {
    chair: Chair<'a>,
    manifest: Option<Manifest>,
}

/// A shared store as the source or target of a migration.
pub struct Site<'a> {
    backend: &'a dyn Backend,
}

impl<'a> Site<'a> {
    /// Returns the site of this store.
    pub fn new(backend: &'a dyn Backend) -> Self {
        Self { backend }
    }

    /// Reserves the location as a target, if it is empty except for remains of an interrupted attempt.
    pub fn arrive(&self) -> Result<Arrival<'a>, Error> {
        let backend = self.backend;
        let n_entries = backend.n_entries(false).map_err(BackendFailure::refused)?;
        if n_entries > 0 {
            return Err(init::taken(backend, n_entries));
        }
        init::check_apart(backend)?;
        let chair = Chair::take(backend, "migrate", &[Entry::Id, Entry::Head])?;
        backend.drop_chunks(&chair.tenure).map_err(BackendFailure::refused)?;
        Ok(Arrival { chair, manifest: None })
    }

    /// Takes the leadership of a store that is to move elsewhere, and reads the store. Its servers may follow, but none
    /// may lead.
    pub fn depart(&self, clock: Arc<dyn Clock>) -> Result<(Departure<'a>, Whole), Error> {
        let backend = self.backend;
        let limits = Limits::default();
        let reading = Reading::without_server(backend, &*clock, &limits);
        let (id, _) = reading.id()?;
        let chair = Chair::take(backend, "migrate", &[Entry::Rewound, Entry::Closed])?;
        let Read { follower, look, .. } = reading.all(None).map_err(unread)?;
        if !look.leader.as_ref().is_some_and(|leader| chair.tenure.is(leader)) {
            return Err(Error::Refused("leadership was lost; try again".into()));
        }
        let guard = Guard { tenure: chair.tenure.clone(), head_at: look.head_at() };
        let last = follower.moment(NODE, clock.boottime());
        let clock = LockClock::resume(clock.clone(), Some(last));
        let (mut whole, chain) = whole(id, follower)?;
        let draft = Draft { kind: Kind::Closed, moment: clock.moment(), changes: &[] };
        whole.epoch += 1;
        let record = chain.encode(whole.epoch, NODE, draft);
        let place = Place { seq: chain.place().seq + 1, hash: Hash::of(&record) };
        (whole.place, whole.last) = (place, Some(draft.moment));
        Ok((Departure { chair, guard, record, place }, whole))
    }

    /// Undoes a migration from here.
    pub fn reopen(&self) -> Result<(), Error> {
        let location = self.backend.location();
        match self.backend.reopen().map_err(BackendFailure::refused)? {
            Reopened::Done => Ok(()),
            Reopened::Led => {
                Err(Error::Refused(format!("the store under {location} is open: it has a leader")))
            }
            Reopened::NotClosed => {
                Err(Error::Refused(format!("the store under {location} is not closed")))
            }
        }
    }
}

impl Arrival<'_> {
    /// Writes the state of a store. No manifest refers to it yet.
    pub fn write(&mut self, whole: &Whole) -> Result<(), Error> {
        self.manifest = Some(self.chair.write(whole)?);
        Ok(())
    }

    /// Completes the store, as of its last record, which changed nothing in the state.
    pub fn commit(self, whole: &Whole) -> Result<(), Error> {
        let Self { chair, manifest } = self;
        let missing = || Error::Refused("nothing was written".into());
        let id = Id::new(whole.store_id, whole.place.seq, whole.n_restores);
        let put = chair.put(Replaced::Nothing, &id, manifest.ok_or_else(missing)?, whole)?;
        put.ok_or_else(|| init::taken(chair.backend, 1))
    }
}

/// A shared store that is about to move elsewhere.
pub struct Departure<'a> {
    chair: Chair<'a>,
    guard: Guard,
    /// The last record of the store.
    record: Vec<u8>,
    place: Place,
}

impl Departure<'_> {
    /// Closes the store. From then on no server leads it.
    pub fn close(self, moved_to: &str) -> Result<(), Error> {
        let Self { chair, guard, record, place } = self;
        let backend = chair.backend;
        let closed = value::encode(&ClosedValue { moved_to: moved_to.into() });
        let closing = Write::Closing { place, bytes: &record, closed: &closed };
        let mut tried = 0;
        let verdict = loop {
            match backend.write(&guard, &closing) {
                Ok(verdict) => break verdict,
                Err(error) if tried == backend.n_tries() => {
                    return Err(Error::Unknown(format!(
                        "{error}; the store under {} might be closed",
                        backend.location()
                    )));
                }
                Err(_) => tried += 1,
            }
        };
        match verdict {
            Verdict::Held(_) | Verdict::DoneBefore(_) => Ok(()),
            Verdict::Lost(why) | Verdict::Astray(why) => Err(Error::Refused(why)),
        }
    }
}

impl Read {
    fn n_records(&self) -> u64 {
        self.follower.place().seq - self.told_after
    }
}

/// Returns the state that a follower has read, and the chain for the next record.
fn whole(id: Id, follower: Follower) -> Result<(Whole, Chain), Error> {
    let last = follower.origin().map(|origin| origin.moment);
    let Follower { mut machine, chain, .. } = follower;
    machine.absorbed();
    let damaged = || Error::Refused(format!("{:?} is not a store id", id.store));
    let whole = Whole {
        store_id: unhex(&id.store).ok_or_else(damaged)?,
        generation: id.generation,
        n_restores: id.n_restores,
        place: chain.place(),
        epoch: chain.epoch(),
        last,
        machine,
    };
    Ok((whole, chain))
}

fn unread(why: Unread) -> Error {
    match why {
        Unread::Failed(error) => error,
        Unread::Broken(broken) => Error::Refused(broken.to_string()),
    }
}
