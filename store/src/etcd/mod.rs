//! A shared store in etcd: one key per journal record, and keys for the leader, the servers and the snapshots.
//!
//! etcd provides all agreement. Every write, and every response that writes nothing, depends on one transaction that
//! compares the leader key and the end of the journal. So a node that lost leadership without noticing can neither
//! change the state nor send a response. This requires no clock. etcd's leases only determine how soon another node can
//! take over.

mod bug;
mod cluster;
mod compaction;
mod guard;
mod journal;
mod keys;
mod leadership;
mod lifecycle;
mod servers;
mod snapshots;
mod space;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_base::sync::lock;
use leasehold_etcd::{Client, KeyValue, Kind, Op, Options, Txn, TxnRequest, TxnResponse, When};

pub use cluster::{Cluster, Remote};

use crate::shared::value::HeadValue;
use crate::shared::{
    Backend, BackendFailure, Entry, FailureKind, FoundHead, HeadEntry, SpaceWatcher, Watching,
};
use crate::status::Member;
use crate::{Error, Health};
use compaction::Compaction;
use keys::Keys;

/// A store in etcd, under one prefix.
pub struct EtcdBackend {
    cluster: Arc<dyn Cluster>,
    keys: Keys,
    compaction: Mutex<Compaction>,
}

impl EtcdBackend {
    /// Returns the store under this prefix.
    pub fn new(cluster: Arc<dyn Cluster>, prefix: &str) -> Self {
        let keys = Keys::new(prefix);
        let compaction = Mutex::new(Compaction::new(keys.clone()));
        Self { cluster, keys, compaction }
    }

    /// Connects to etcd, for a store under this prefix.
    pub fn connect(options: Options, prefix: &str) -> Result<Self, Error> {
        Ok(Self::new(Arc::new(connect(options, prefix)?), prefix))
    }

    fn txn(&self, txn: Txn) -> Result<TxnResponse, BackendFailure> {
        self.send(txn.request())
    }

    fn send(&self, request: TxnRequest) -> Result<TxnResponse, BackendFailure> {
        Ok(self.cluster.txn(request)?)
    }

    /// See [`guard::put_once`].
    fn put_once(
        &self,
        txn: Txn,
        key: Vec<u8>,
        value: &[u8],
    ) -> Result<Option<i64>, BackendFailure> {
        Ok(guard::put_once(&*self.cluster, txn, (key, value))?)
    }
}

/// Connects to etcd, for a store under this prefix.
pub fn connect(options: Options, prefix: &str) -> Result<Remote, Error> {
    let keys = Keys::new(prefix);
    Remote::connect(options, vec![keys.head(), keys.leader()]).map_err(Error::Refused)
}

/// Counts the keys under this prefix.
pub async fn n_keys(client: &Client, prefix: &str) -> Result<i64, leasehold_etcd::Error> {
    let mut n_tries = client.n_members();
    loop {
        n_tries -= 1;
        match client.range(lifecycle::counting(Keys::new(prefix).all())).await {
            // After an error, the next attempt reaches the next member.
            Err(_) if n_tries > 0 => {}
            found => return found.map(|found| found.count),
        }
    }
}

impl From<leasehold_etcd::Error> for BackendFailure {
    fn from(error: leasehold_etcd::Error) -> Self {
        let kind = match error.kind {
            Kind::NoSpace => FailureKind::NoSpace,
            Kind::LeaseGone => FailureKind::LeaseGone,
            Kind::Unknown | Kind::Compacted | Kind::Denied | Kind::Settings => FailureKind::Unknown,
        };
        Self::new(kind, error.to_string())
    }
}

/// Decodes the head of the journal.
fn head(found: Option<&KeyValue>) -> FoundHead {
    let Some(KeyValue { value, mod_revision, .. }) = found else { return Ok(None) };
    let head: HeadValue = serde_json::from_slice(value).map_err(|error| error.to_string())?;
    let place = head.place().ok_or("it has no hash of a record")?;
    Ok(Some(HeadEntry { place, at: *mod_revision }))
}

/// Adds the conditions that these entries do not exist.
fn unless(txn: Txn, keys: &Keys, entries: &[Entry<'_>]) -> Txn {
    entries.iter().fold(txn, |txn, entry| txn.when(keys.of_entry(*entry), When::Absent))
}

/// Adds operations that read these keys, one after the other.
fn reading(keys: impl IntoIterator<Item = Vec<u8>>) -> Txn {
    keys.into_iter().fold(Txn::default(), |txn, key| txn.then(Op::Get(key)))
}

impl Backend for EtcdBackend {
    fn system(&self) -> &str {
        "etcd"
    }

    fn location(&self) -> &str {
        self.keys.prefix()
    }

    fn name_of(&self, entry: Entry<'_>) -> String {
        String::from_utf8_lossy(&self.keys.of_entry(entry)).into_owned()
    }

    fn deletion(&self, entry: Option<Entry<'_>>) -> String {
        match entry {
            Some(entry) => format!("etcdctl del {}", self.name_of(entry)),
            None => format!("etcdctl del --prefix {}", self.keys.prefix()),
        }
    }

    fn n_tries(&self) -> usize {
        self.cluster.n_members()
    }

    fn wait(&self, patience: Duration) {
        self.cluster.wait(patience);
    }

    fn members(&self) -> Vec<Member> {
        let answers = self.cluster.status();
        let alarms = space::alarms(&answers).into_iter();
        let endpoints = self.cluster.endpoints().into_iter();
        let all = answers
            .into_iter()
            .zip(alarms.zip(endpoints.chain(std::iter::repeat_with(String::new))));
        let member = |(answer, (alarms, endpoint)): (space::Answer, (_, _))| match answer {
            Err(error) => Member { endpoint, error: Some(error.to_string()), ..Member::default() },
            Ok(status) => Member {
                endpoint,
                version: status.version,
                bytes: u64::try_from(status.db_size).unwrap_or(0),
                bytes_in_use: u64::try_from(status.db_size_in_use).unwrap_or(0),
                alarms,
                error: None,
            },
        };
        all.map(member).collect()
    }

    fn describe_members(&self) -> Vec<String> {
        let answers = self.cluster.endpoints().into_iter().zip(self.cluster.status());
        let described = answers.map(|(endpoint, answer)| match answer {
            Ok(status) if status.leader == 0 => {
                format!("{endpoint} responds but has no leader: too few members are available")
            }
            Ok(_) => format!("{endpoint} answers"),
            Err(error) if error.kind == Kind::Denied => {
                format!("{endpoint} rejects the credentials")
            }
            Err(_) => format!("{endpoint} does not respond"),
        });
        described.collect()
    }

    fn tend(&self, every: Duration) -> Result<(), BackendFailure> {
        Ok(lock(&self.compaction).tend(&*self.cluster, every)?)
    }

    fn watch_space(
        &self,
        watching: Watching,
        health: Arc<Health>,
    ) -> Result<Option<SpaceWatcher>, Error> {
        let watch = space::SpaceWatch::start(self.cluster.clone(), watching, health)?;
        Ok(Some(Box::new(watch)))
    }
}
