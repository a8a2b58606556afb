//! Transfers whole stores into and out of etcd: backups, restores and migrations.

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

/// The node name in the last record of a store that is migrated.
const NODE: &str = "leasehold-migrate";

/// The result of reading a store completely.
pub struct Checked {
    /// The state and its position in the journal.
    pub whole: Whole,
    /// The number of records that are not in the snapshot.
    pub n_records: u64,
    /// Whether a server has noticed that etcd was rolled back to an earlier state.
    pub is_rewound: bool,
    /// Where the store has moved to, if it has.
    pub moved_to: Option<String>,
}

/// Reads a store completely and checks it: the snapshot, the checksum of every record, their chain up to the head, and
/// every invariant of the resulting state. Servers can use the store at the same time.
pub fn check(cluster: &dyn Cluster, prefix: &str, clock: &dyn Clock) -> Result<Checked, Error> {
    let (keys, limits) = (Keys::new(prefix), Limits::default());
    let reading = Reading::without_server(cluster, &keys, clock, &limits);
    let (id, _) = reading.id()?;
    let read = reading.all(None).map_err(unread)?;
    let (n_records, is_rewound) = (read.n_records(), read.look.is_rewound());
    let moved_to = read.look.moved_to();
    let (whole, _) = whole(id, read.follower)?;
    let contradicts = |why| Error::Refused(format!("the state contradicts itself: {why}"));
    invariant::check(&whole.machine).map_err(contradicts)?;
    Ok(Checked { whole, n_records, is_rewound, moved_to })
}

/// Replaces a store by a backup, or creates it if there is no store. No server may lead the store. The restored store
/// has a new generation: all its leases have ended, and no token or number issued since the backup is issued again.
pub fn restore(cluster: &dyn Cluster, prefix: &str, mut whole: Whole) -> Result<(), Error> {
    let keys = Keys::new(prefix);
    let found = init::find(cluster, &keys).map_err(Error::Refused)?;
    let mut n_restores = 0;
    if let Some((id, _)) = &found {
        init::check_format(&keys, id)?;
        if id.store != hex(&whole.store_id) {
            return Err(Error::Refused(format!(
                "the store under {} is not the one that the backup was taken from ({} and {}); restore it to an empty \
                 prefix",
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
    let changed = || Error::Refused("the store changed during the operation; try again".into());
    chair.put(txn, &id, manifest, &whole)?.ok_or_else(changed)
}

/// Returns how often the store was restored, according to the server that noticed a rollback of etcd. After a rollback,
/// etcd might not contain the last restore.
fn remembered_restores(cluster: &dyn Cluster, keys: &Keys) -> Result<u64, Error> {
    let request = RangeRequest { key: keys.rewound(), ..Default::default() };
    let found = cluster.range(request).map_err(|error| Error::Refused(error.to_string()))?;
    let rewound =
        found.kvs.first().map(|found| value::decode::<RewoundValue>(&found.key, &found.value));
    // An unreadable value gives no information.
    Ok(rewound.and_then(Result::ok).map_or(0, |rewound| rewound.n_restores))
}

/// The target of a migration into etcd: an empty prefix, reserved by holding its leader key.
pub struct Arrival<'a> {
    chair: Chair<'a>,
    manifest: Option<Manifest>,
}

/// A prefix in etcd as the source or target of a migration.
pub struct Site<'a> {
    cluster: &'a dyn Cluster,
    keys: Keys,
}

impl<'a> Site<'a> {
    /// Returns the site under this prefix.
    pub fn new(cluster: &'a dyn Cluster, prefix: &str) -> Self {
        Self { cluster, keys: Keys::new(prefix) }
    }

    /// Reserves the prefix as a target, if it is empty except for remains of an interrupted attempt.
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

    /// Takes the leader key of a store that is to move elsewhere, and reads the store. Its servers may follow, but none
    /// may lead.
    pub fn depart(&self, clock: Arc<dyn Clock>) -> Result<(Departure<'_>, Whole), Error> {
        let Self { cluster, keys } = self;
        let limits = Limits::default();
        let reading = Reading::without_server(*cluster, keys, &*clock, &limits);
        let (id, _) = reading.id()?;
        let chair = Chair::take(*cluster, keys, "migrate", &[keys.rewound(), keys.closed()])?;
        let Read { follower, look, .. } = reading.all(None).map_err(unread)?;
        if !look.leader().is_some_and(|leader| chair.tenure.is(leader)) {
            return Err(Error::Refused("leadership was lost; try again".into()));
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

    /// Undoes a migration from here.
    pub fn reopen(&self) -> Result<(), Error> {
        let Self { cluster, keys } = self;
        let txn = Txn::default().when(keys.leader(), When::Absent);
        let txn = txn.then(Op::Get(keys.closed())).then(Op::Delete(keys.closed())).request();
        let answer = cluster.txn(txn).map_err(|error| Error::Refused(error.to_string()))?;
        let prefix = keys.prefix();
        if !answer.succeeded {
            return Err(Error::Refused(format!(
                "the store under {prefix} is open: it has a leader"
            )));
        }
        let open = || Error::Refused(format!("the store under {prefix} is not closed"));
        answer.found(0).map(drop).ok_or_else(open)
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
    /// The last record of the store.
    record: Vec<u8>,
    place: Place,
}

impl Departure<'_> {
    /// Closes the store. From then on no server leads it.
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
                        "{error}; the store under {} might be closed",
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
