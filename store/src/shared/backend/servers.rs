//! The servers that are running, and what operators request of them.

use super::{BackendFailure, FoundHead, LeaderEntry, Lease};

/// The entries of servers and of operators.
pub trait Servers {
    /// Puts the entry of a server, if its value is `before`; with `None`, if there is no entry.
    fn put_node(
        &self,
        name: &str,
        value: &[u8],
        before: Option<&[u8]>,
        lease: Lease,
    ) -> Result<NodePut, BackendFailure>;

    /// Reads at one moment what operators request, and the servers that are running.
    fn requests(&self) -> Result<Requests, BackendFailure>;

    /// Makes a server not lead, as long as the lease lasts or until that is withdrawn. `replaces` says whether that
    /// replaces an earlier request.
    fn drain(
        &self,
        node: &str,
        word: &str,
        lease: Option<Lease>,
        replaces: bool,
    ) -> Result<(), BackendFailure>;

    /// Pauses leader changes.
    fn pause(&self) -> Result<(), BackendFailure>;

    /// Withdraws the request that concerns this server, or the pause. Returns whether there was one.
    fn withdraw(&self, node: Option<&str>) -> Result<bool, BackendFailure>;

    /// Deletes the entry of a server and the request that concerns it.
    fn forget(&self, node: &str) -> Result<(), BackendFailure>;

    /// Reads everything but records and chunks, at one moment.
    fn entries(&self) -> Result<Entries, BackendFailure>;
}

/// The entry of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeEntry {
    /// The name of the server.
    pub name: String,
    /// The description of the server.
    pub value: Vec<u8>,
}

/// The result of putting the entry of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NodePut {
    /// The entry was put.
    Done,
    /// The entry has another value.
    Differs {
        /// That value. Empty if there is no entry.
        value: Vec<u8>,
        /// Whether it has a lease.
        is_kept: bool,
    },
}

/// What operators request, and the servers that are running.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Requests {
    /// The servers that must not lead, and why.
    pub drained: Vec<(String, String)>,
    /// The servers that are running.
    pub nodes: Vec<NodeEntry>,
    /// Whether leader changes are paused.
    pub is_paused: bool,
}

/// Everything but records and chunks.
#[derive(Debug)]
pub struct Entries {
    /// The id of the store.
    pub id: Option<Vec<u8>>,
    /// The end of the journal.
    pub head: FoundHead,
    /// The leader.
    pub leader: Option<LeaderEntry>,
    /// The manifest of the current snapshot.
    pub manifest: Option<Vec<u8>>,
    /// What operators request, and the servers that are running.
    pub requests: Requests,
    /// The report that the store was rolled back.
    pub rewound: Option<Vec<u8>>,
    /// Where the store has moved to, if it has.
    pub closed: Option<Vec<u8>>,
}
