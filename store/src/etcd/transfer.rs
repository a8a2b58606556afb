//! Whole stores, into etcd and out of it: backups, restores and moves.

use std::sync::Arc;

use leasehold_base::clock::{Clock, LockClock};
use leasehold_core::{Limits, invariant};
use leasehold_etcd::{Op, RangeRequest, Txn, When};

use super::chair::Chair;
use super::cluster::Cluster;
use super::follower::Follower;
use super::guard::{Guard, Verdict};
use super::init;
use super::keys::Keys;
use super::reading::{Read, Reading, Unread};
use super::snapshot::Manifest;
use super::value::{self, ClosedValue, HeadValue, Id, RewoundValue, hex, unhex};
use crate::{Chain, Draft, Error, Hash, Kind, Place, Whole};

/// What whoever moves a store calls itself in its last record.
const NODE: &str = "leasehold-migrate";

/// A store that was read from its beginning to its end.
pub struct Checked {
    /// All of it.
    pub whole: Whole,
    /// Records that are not in its snapshot.
    pub n_records: u64,
    /// Somebody has found that it was put back to an earlier state.
    pub is_rewound: bool,
    /// Where it has moved to, if it has.
    pub moved_to: Option<String>,
}

/// Reads all of a store and checks it: the snapshot, every record's checksum, their chain up to the head, and every
/// invariant of the result. Servers may be using it.
pub fn check(cluster: &dyn Cluster, prefix: &str, clock: &dyn Clock) -> Result<Checked, Error> {
    let (keys, limits) = (Keys::new(prefix), Limits::default());
    let reading = Reading::of_nobody(cluster, &keys, clock, &limits);
    let (id, _) = reading.id()?;
    let read = reading.all(None).map_err(unread)?;
    let (n_records, is_rewound) = (read.n_records(), read.look.is_rewound());
    let moved_to = read.look.moved_to();
    let (whole, _) = whole(id, read.follower)?;
    let contradicts = |why| Error::Refused(format!("the state contradicts itself: {why}"));
    invariant::check(&whole.machine).map_err(contradicts)?;
    Ok(Checked { whole, n_records, is_rewound, moved_to })
}

/// Puts what a backup has in place of a store, or where none is. No server may lead it. It is of another generation
/// then: everything it held has ended, and what was handed out since the backup is not handed out again.
pub fn restore(cluster: &dyn Cluster, prefix: &str, mut whole: Whole) -> Result<(), Error> {
    let keys = Keys::new(prefix);
    let found = init::find(cluster, &keys).map_err(Error::Refused)?;
    let mut n_restores = 0;
    if let Some((id, _)) = &found {
        init::check_format(&keys, id)?;
        if id.store != hex(&whole.store_id) {
            return Err(Error::Refused(format!(
                "the store under {} is another one than the backup is of ({} and {}): restore it where nothing is",
                keys.prefix(),
                id.store,
                hex(&whole.store_id)
            )));
        }
        n_restores = id.n_restores.max(remembered_restores(cluster, &keys)?);
    } else {
        init::check_apart(cluster, &keys)?;
    }
    let chair = Chair::take(cluster, &keys, "restore", &[])?;
    whole.restore(n_restores);
    let manifest = chair.write(&whole)?;
    let as_found = match &found {
        Some((_, bytes)) => When::Is(bytes),
        None => When::Absent,
    };
    let txn = chair.txn().when(keys.id(), as_found);
    let id = Id::new(whole.store_id, whole.place.seq, whole.n_restores);
    let changed =
        || Error::Refused("somebody else has changed the store meanwhile: try again".into());
    chair.put(txn, &id, manifest, &whole)?.ok_or_else(changed)
}

/// How often the store was restored as far as a server remembers that has found it put back: etcd may have forgotten
/// the last time.
fn remembered_restores(cluster: &dyn Cluster, keys: &Keys) -> Result<u64, Error> {
    let request = RangeRequest { key: keys.rewound(), ..Default::default() };
    let found = cluster.range(request).map_err(|error| Error::Refused(error.to_string()))?;
    let rewound =
        found.kvs.first().map(|found| value::decode::<RewoundValue>(&found.key, &found.value));
    // One that cannot be read says nothing.
    Ok(rewound.and_then(Result::ok).map_or(0, |rewound| rewound.n_restores))
}

/// A place in etcd for a store that moves there: nothing is in it yet, and nobody else makes one.
pub struct Arrival<'a> {
    chair: Chair<'a>,
    manifest: Option<Manifest>,
}

/// Where a store may move to.
pub struct Site<'a> {
    cluster: &'a dyn Cluster,
    keys: Keys,
}

impl<'a> Site<'a> {
    /// Under this prefix.
    pub fn new(cluster: &'a dyn Cluster, prefix: &str) -> Self {
        Self { cluster, keys: Keys::new(prefix) }
    }

    /// Takes it, if nothing is there but what an attempt that was cut off left.
    pub fn arrive(&self) -> Result<Arrival<'_>, Error> {
        let Self { cluster, keys } = self;
        let unreachable = |error: leasehold_etcd::Error| Error::Refused(error.to_string());
        let count = |(key, range_end): super::keys::Range| {
            let request = RangeRequest { key, range_end, count_only: true, ..Default::default() };
            Ok::<_, Error>(cluster.range(request).map_err(unreachable)?.count)
        };
        let n_keys = count(keys.all())? - count(keys.snapshots())?;
        if n_keys > 0 {
            return Err(init::taken(keys, n_keys));
        }
        init::check_apart(*cluster, keys)?;
        let chair = Chair::take(*cluster, keys, "migrate", &[keys.id(), keys.head()])?;
        let (first, end) = keys.snapshots();
        let emptied = chair.txn().then(Op::DeleteRange(first, end)).request();
        cluster.txn(emptied).map_err(unreachable)?;
        Ok(Arrival { chair, manifest: None })
    }

    /// Takes the seat of a store that is to move elsewhere, and reads all of it. Servers of it may follow, and none may
    /// lead.
    pub fn depart(&self, clock: Arc<dyn Clock>) -> Result<(Departure<'_>, Whole), Error> {
        let Self { cluster, keys } = self;
        let limits = Limits::default();
        let reading = Reading::of_nobody(*cluster, keys, &*clock, &limits);
        let (id, _) = reading.id()?;
        let chair = Chair::take(*cluster, keys, "migrate", &[keys.rewound(), keys.closed()])?;
        let Read { follower, look, .. } = reading.all(None).map_err(unread)?;
        if !look.leader().is_some_and(|leader| chair.tenure.is(leader)) {
            return Err(Error::Refused("the seat was lost: try again".into()));
        }
        let head_at = look.head_at();
        let guard = Guard { keys: keys.clone(), tenure: chair.tenure.clone(), head_at };
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

    /// Undoes a move from here.
    pub fn reopen(&self) -> Result<(), Error> {
        let Self { cluster, keys } = self;
        let txn = Txn::default().when(keys.leader(), When::Absent);
        let txn = txn.then(Op::Get(keys.closed())).then(Op::Delete(keys.closed())).request();
        let answer = cluster.txn(txn).map_err(|error| Error::Refused(error.to_string()))?;
        let prefix = keys.prefix();
        if !answer.succeeded {
            return Err(Error::Refused(format!(
                "somebody leads the store under {prefix}: it is open"
            )));
        }
        let open = || Error::Refused(format!("the store under {prefix} is not closed"));
        answer.found(0).map(drop).ok_or_else(open)
    }
}

impl Arrival<'_> {
    /// Writes what is in a store. Nobody sees it yet.
    pub fn write(&mut self, whole: &Whole) -> Result<(), Error> {
        self.manifest = Some(self.chair.write(whole)?);
        Ok(())
    }

    /// Makes it the store that is here, as of its last record, which changed nothing in it.
    pub fn commit(self, whole: &Whole) -> Result<(), Error> {
        let Self { chair, manifest } = self;
        let keys = chair.keys;
        let missing = || Error::Refused("nothing was written".into());
        let txn = chair.txn().when(keys.id(), When::Absent).when(keys.head(), When::Absent);
        let id = Id::new(whole.store_id, whole.place.seq, whole.n_restores);
        let put = chair.put(txn, &id, manifest.ok_or_else(missing)?, whole)?;
        put.ok_or_else(|| init::taken(keys, 1))
    }
}

/// A store in etcd that is about to move elsewhere.
pub struct Departure<'a> {
    chair: Chair<'a>,
    guard: Guard,
    /// The last it will have.
    record: Vec<u8>,
    place: Place,
}

impl Departure<'_> {
    /// Closes it. From here on nobody leads it.
    pub fn close(self, moved_to: &str) -> Result<(), Error> {
        let Self { chair, guard, record, place } = self;
        let keys = chair.keys;
        let closed = value::encode(&ClosedValue { moved_to: moved_to.into() });
        let txn = guard
            .txn()
            .then(Op::Put(keys.slot(place.seq), record, 0))
            .then(Op::Put(keys.head(), value::encode(&HeadValue::of(place)), 0))
            .then(Op::Put(keys.closed(), closed, 0))
            .request();
        let mut tried = 0;
        let answer = loop {
            match chair.cluster.txn(txn.clone()) {
                Ok(answer) => break answer,
                Err(error) if tried == chair.cluster.n_members() => {
                    return Err(Error::Unknown(format!(
                        "{error}. It is not known whether the store under {} was closed",
                        keys.prefix()
                    )));
                }
                Err(_) => tried += 1,
            }
        };
        match guard.judge(&answer, Some(place)) {
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

/// What a follower has read, and the chain to go on with.
fn whole(id: Id, follower: Follower) -> Result<(Whole, Chain), Error> {
    let last = follower.origin().map(|origin| origin.moment);
    let Follower { mut machine, chain, .. } = follower;
    machine.absorbed();
    let damaged = || Error::Refused(format!("{:?} is no id of a store", id.store));
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
