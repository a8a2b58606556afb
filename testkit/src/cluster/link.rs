//! The link between a server and a shared store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use leasehold_store::shared::{
    Backend, BackendFailure, Census, Contents, Entries, Entry, FailureKind, Guard, Journal,
    LeaderEntry, Leadership, Lease, Lifecycle, Look, NodePut, Records, Reopened, Requests, Servers,
    SnapshotChunks, SpaceWatcher, Tenure, Verdict, Versioned, Watching, Write,
};
use leasehold_store::status::Member;
use leasehold_store::{Error, Health};

/// About as long as a short request takes, so that a server that is cut off does not spin.
const PAUSE: Duration = Duration::from_millis(20);

/// A link that tests can break.
pub struct Link {
    store: Arc<dyn Backend>,
    /// No call reaches the store.
    pub is_cut: AtomicBool,
    /// Number of further records that reach the store, but whose responses are lost.
    pub n_unanswered: AtomicUsize,
    /// Number of further records that do not reach the store.
    pub n_lost: AtomicUsize,
    /// Only calls that concern leases reach the store.
    pub is_mute: AtomicBool,
}

impl Link {
    pub(super) fn new(store: Arc<dyn Backend>) -> Self {
        let (n_unanswered, n_lost) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let [is_cut, is_mute] = [false, false].map(AtomicBool::new);
        Self { store, is_cut, n_unanswered, n_lost, is_mute }
    }

    /// Makes a call that concerns a lease.
    fn pass<T>(
        &self,
        call: impl FnOnce(&dyn Backend) -> Result<T, BackendFailure>,
    ) -> Result<T, BackendFailure> {
        if self.is_cut.load(SeqCst) {
            std::thread::sleep(PAUSE);
            return Err(lost());
        }
        call(&*self.store)
    }

    /// Makes any other call.
    fn speak<T>(
        &self,
        call: impl FnOnce(&dyn Backend) -> Result<T, BackendFailure>,
    ) -> Result<T, BackendFailure> {
        if self.is_mute.load(SeqCst) {
            std::thread::sleep(PAUSE);
            return Err(lost());
        }
        self.pass(call)
    }
}

fn lost() -> BackendFailure {
    BackendFailure::new(FailureKind::Unknown, "the link is cut")
}

fn takes_one(count: &AtomicUsize) -> bool {
    count.fetch_update(SeqCst, SeqCst, |n| n.checked_sub(1)).is_ok()
}

impl Leadership for Link {
    fn grant(&self, ttl: i64) -> Result<Lease, BackendFailure> {
        self.pass(|store| store.grant(ttl))
    }

    fn keep(&self, lease: Lease) -> Result<(), BackendFailure> {
        self.pass(|store| store.keep(lease))
    }

    fn revoke(&self, lease: Lease) -> Result<(), BackendFailure> {
        self.pass(|store| store.revoke(lease))
    }

    fn claim(
        &self,
        value: &[u8],
        lease: Lease,
        unless: &[Entry<'_>],
    ) -> Result<Option<Tenure>, BackendFailure> {
        self.speak(|store| store.claim(value, lease, unless))
    }

    fn leader(&self) -> Result<Option<LeaderEntry>, BackendFailure> {
        self.speak(|store| store.leader())
    }

    fn clear_leader(&self, found: &LeaderEntry) -> Result<bool, BackendFailure> {
        self.speak(|store| store.clear_leader(found))
    }
}

impl Journal for Link {
    fn look(&self, from: u64) -> Result<Look, BackendFailure> {
        self.speak(|store| store.look(from))
    }

    fn records(&self, from: u64) -> Result<Records, BackendFailure> {
        self.pass(|store| store.records(from))
    }

    fn first_record(&self) -> Result<Option<u64>, BackendFailure> {
        self.pass(|store| store.first_record())
    }

    fn id(&self) -> Result<Option<Vec<u8>>, BackendFailure> {
        self.speak(|store| store.id())
    }

    fn write(&self, guard: &Guard, what: &Write<'_>) -> Result<Verdict, BackendFailure> {
        // Only records count. Confirmations are sent all the time.
        let is_record = what.place().is_some();
        self.speak(|store| {
            if is_record && takes_one(&self.n_lost) {
                return Err(lost());
            }
            let verdict = store.write(guard, what);
            if is_record && takes_one(&self.n_unanswered) { Err(lost()) } else { verdict }
        })
    }

    fn note_rewound(&self, value: &[u8], id: Option<&[u8]>) -> Result<(), BackendFailure> {
        self.speak(|store| store.note_rewound(value, id))
    }
}

impl SnapshotChunks for Link {
    fn manifest(&self) -> Result<Option<Versioned>, BackendFailure> {
        self.speak(|store| store.manifest())
    }

    fn put_manifest(
        &self,
        tenure: &Tenure,
        value: &[u8],
        before_at: i64,
    ) -> Result<Option<i64>, BackendFailure> {
        self.speak(|store| store.put_manifest(tenure, value, before_at))
    }

    fn put_chunk(
        &self,
        tenure: &Tenure,
        snapshot: &str,
        chunk: (u64, &[u8]),
    ) -> Result<bool, BackendFailure> {
        self.speak(|store| store.put_chunk(tenure, snapshot, chunk))
    }

    fn chunks(
        &self,
        snapshot: &str,
        from: u64,
        is_settled: bool,
    ) -> Result<Vec<Vec<u8>>, BackendFailure> {
        self.pass(|store| store.chunks(snapshot, from, is_settled))
    }

    fn snapshots(&self) -> Result<Vec<String>, BackendFailure> {
        self.pass(|store| store.snapshots())
    }

    fn drop_snapshot(
        &self,
        tenure: &Tenure,
        snapshot: &str,
        manifest_at: i64,
    ) -> Result<(), BackendFailure> {
        self.speak(|store| store.drop_snapshot(tenure, snapshot, manifest_at))
    }

    fn census(&self, snapshot: &str) -> Result<Census, BackendFailure> {
        self.speak(|store| store.census(snapshot))
    }
}

impl Servers for Link {
    fn put_node(
        &self,
        name: &str,
        value: &[u8],
        before: Option<&[u8]>,
        lease: Lease,
    ) -> Result<NodePut, BackendFailure> {
        self.speak(|store| store.put_node(name, value, before, lease))
    }

    fn requests(&self) -> Result<Requests, BackendFailure> {
        self.speak(|store| store.requests())
    }

    fn drain(
        &self,
        node: &str,
        word: &str,
        lease: Option<Lease>,
        replaces: bool,
    ) -> Result<(), BackendFailure> {
        self.speak(|store| store.drain(node, word, lease, replaces))
    }

    fn pause(&self) -> Result<(), BackendFailure> {
        self.speak(|store| store.pause())
    }

    fn withdraw(&self, node: Option<&str>) -> Result<bool, BackendFailure> {
        self.speak(|store| store.withdraw(node))
    }

    fn forget(&self, node: &str) -> Result<(), BackendFailure> {
        self.speak(|store| store.forget(node))
    }

    fn entries(&self) -> Result<Entries, BackendFailure> {
        self.speak(|store| store.entries())
    }
}

impl Lifecycle for Link {
    fn n_entries(&self, with_chunks: bool) -> Result<u64, BackendFailure> {
        self.pass(|store| store.n_entries(with_chunks))
    }

    fn enclosing(&self) -> Result<Option<(String, String)>, BackendFailure> {
        self.speak(|store| store.enclosing())
    }

    fn create(&self, id: &[u8]) -> Result<bool, BackendFailure> {
        self.speak(|store| store.create(id))
    }

    fn drop_chunks(&self, tenure: &Tenure) -> Result<(), BackendFailure> {
        self.speak(|store| store.drop_chunks(tenure))
    }

    fn replace(
        &self,
        tenure: &Tenure,
        contents: &Contents<'_>,
    ) -> Result<Option<i64>, BackendFailure> {
        self.speak(|store| store.replace(tenure, contents))
    }

    fn put_id(
        &self,
        id: &[u8],
        before: &[u8],
        leader: &LeaderEntry,
    ) -> Result<bool, BackendFailure> {
        self.speak(|store| store.put_id(id, before, leader))
    }

    fn reopen(&self) -> Result<Reopened, BackendFailure> {
        self.speak(|store| store.reopen())
    }
}

impl Backend for Link {
    fn system(&self) -> &str {
        self.store.system()
    }

    fn location(&self) -> &str {
        self.store.location()
    }

    fn name_of(&self, entry: Entry<'_>) -> String {
        self.store.name_of(entry)
    }

    fn deletion(&self, entry: Option<Entry<'_>>) -> String {
        self.store.deletion(entry)
    }

    fn n_tries(&self) -> usize {
        self.store.n_tries()
    }

    fn wait(&self, patience: Duration) {
        self.store.wait(patience);
    }

    fn members(&self) -> Vec<Member> {
        self.store.members()
    }

    fn describe_members(&self) -> Vec<String> {
        self.store.describe_members()
    }

    fn tend(&self, every: Duration) -> Result<(), BackendFailure> {
        self.pass(|store| store.tend(every))
    }

    fn watch_space(
        &self,
        watching: Watching,
        health: Arc<Health>,
    ) -> Result<Option<SpaceWatcher>, Error> {
        self.store.watch_space(watching, health)
    }
}
