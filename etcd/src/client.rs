//! The client of an etcd cluster. It uses one member at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use prost::Message;

use crate::credentials::{Credentials, Tls};
use crate::error::{Error, Kind};
use crate::member::Member;
use crate::message::*;
use crate::watch::Watch;

/// The default time limit of one attempt.
pub const TRY_MAX: Duration = Duration::from_millis(700);

/// How to reach an etcd cluster.
#[derive(Clone, Debug)]
pub struct Options {
    /// The members, as `HOST:PORT`; at least one.
    pub members: Vec<String>,
    /// TLS settings; `None` for unencrypted connections.
    pub tls: Option<Tls>,
    /// The etcd user; `None` if the cluster does not require authentication.
    pub credentials: Option<Credentials>,
    /// The time limit of one attempt.
    pub try_max: Duration,
}

impl Options {
    /// Returns options for these members, without TLS and authentication.
    pub fn new(members: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let members = members.into_iter().map(Into::into).collect();
        Self { members, tls: None, credentials: None, try_max: TRY_MAX }
    }
}

/// A client of an etcd cluster. Cheap to clone. Every call is one attempt at one member; after an error, the next call
/// uses the next member.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    members: Vec<Member>,
    credentials: Option<Credentials>,
    try_max: Duration,
    /// Selects the member for the next call, modulo the number of members.
    at: Arc<AtomicUsize>,
}

impl Client {
    /// Creates a client. It connects at the first call. Must be called within a tokio runtime.
    pub fn new(options: Options) -> Result<Self, Error> {
        Self::beginning(options, Arc::default())
    }

    /// Creates a client with separate connections, for another tokio runtime. Both clients always use the same member.
    pub fn again(&self, options: Options) -> Result<Self, Error> {
        Self::beginning(options, self.0.at.clone())
    }

    fn beginning(options: Options, at: Arc<AtomicUsize>) -> Result<Self, Error> {
        let Options { members, tls, credentials, try_max } = options;
        if members.is_empty() {
            return Err(Error::new(Kind::Settings, "", "etcd: at least one HOST:PORT is required"));
        }
        let member = |name: &String| Member::new(name, tls.as_ref(), try_max);
        let members = members.iter().map(member).collect::<Result<_, _>>()?;
        Ok(Self(Arc::new(Inner { members, credentials, try_max, at })))
    }

    /// Returns the number of configured members.
    pub fn n_members(&self) -> usize {
        self.0.members.len()
    }

    /// Reads keys.
    pub async fn range(&self, request: RangeRequest) -> Result<RangeResponse, Error> {
        self.unary("/etcdserverpb.KV/Range", request).await
    }

    /// Writes a key, replacing any existing value.
    pub async fn put(&self, request: PutRequest) -> Result<PutResponse, Error> {
        self.unary("/etcdserverpb.KV/Put", request).await
    }

    /// Runs a transaction: one of two lists of operations, depending on conditions.
    pub async fn txn(&self, request: TxnRequest) -> Result<TxnResponse, Error> {
        self.unary("/etcdserverpb.KV/Txn", request).await
    }

    /// Compacts the store: discards the history of keys before this revision.
    pub async fn compact(&self, revision: i64) -> Result<CompactionResponse, Error> {
        self.unary("/etcdserverpb.KV/Compact", CompactionRequest { revision }).await
    }

    /// Requests a lease with a TTL of about this many seconds. The response contains the TTL that etcd chose.
    pub async fn lease_grant(&self, ttl: i64) -> Result<LeaseGrantResponse, Error> {
        self.unary("/etcdserverpb.Lease/LeaseGrant", LeaseGrantRequest { ttl }).await
    }

    /// Revokes a lease. etcd deletes the keys attached to it.
    pub async fn lease_revoke(&self, id: i64) -> Result<LeaseRevokeResponse, Error> {
        self.unary("/etcdserverpb.Lease/LeaseRevoke", LeaseRevokeRequest { id }).await
    }

    /// Renews a lease. Returns the seconds left from now.
    pub async fn lease_keep_alive(&self, id: i64) -> Result<i64, Error> {
        let (n, member) = self.member();
        let path = "/etcdserverpb.Lease/LeaseKeepAlive";
        let messages = tokio_stream::once(LeaseKeepAliveRequest { id });
        let Inner { credentials, try_max, .. } = &*self.0;
        let answer = async {
            let stream = member.streaming(path, messages, credentials.as_ref(), *try_max);
            let mut stream = stream.await?;
            let first: Option<LeaseKeepAliveResponse> =
                member.in_time(*try_max, stream.message()).await?;
            let over = || Error::new(Kind::LeaseGone, &member.name, "the lease has ended");
            first.map(|answer| answer.ttl).filter(|ttl| *ttl > 0).ok_or_else(over)
        };
        self.noted(n, answer.await)
    }

    /// Watches keys, from now on or from a given revision on.
    pub async fn watch(&self, create: WatchCreateRequest) -> Result<Watch, Error> {
        let (n, member) = self.member();
        let Inner { credentials, try_max, .. } = &*self.0;
        self.noted(n, Watch::begin(member, create, credentials.as_ref(), *try_max).await)
    }

    /// Returns the status of each member, in the order of the options. If one of them is the leader, the following
    /// calls use it: another member would have to forward writes to the leader.
    pub async fn status(&self) -> Vec<Result<StatusResponse, Error>> {
        let Inner { members, credentials, try_max, .. } = &*self.0;
        let mut all = Vec::with_capacity(members.len());
        for member in members {
            let path = "/etcdserverpb.Maintenance/Status";
            all.push(member.unary(path, StatusRequest {}, credentials.as_ref(), *try_max).await);
        }
        if let Some(leader) = all.iter().position(|answer| answer.as_ref().is_ok_and(leads)) {
            self.0.at.store(leader, Relaxed);
        }
        all
    }

    async fn unary<Q, A>(&self, path: &'static str, message: Q) -> Result<A, Error>
    where
        Q: Message + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        let (n, member) = self.member();
        let Inner { credentials, try_max, .. } = &*self.0;
        self.noted(n, member.unary(path, message, credentials.as_ref(), *try_max).await)
    }

    /// Returns the index of the member that the next call uses, in the order of the options.
    pub fn asks(&self) -> usize {
        self.0.at.load(Relaxed) % self.0.members.len()
    }

    fn member(&self) -> (usize, &Member) {
        let n = self.0.at.load(Relaxed);
        (n, &self.0.members[n % self.0.members.len()])
    }

    /// After an error at the `n`th choice, switches to the next member, unless a concurrent call has already switched.
    fn noted<T>(&self, n: usize, answer: Result<T, Error>) -> Result<T, Error> {
        if answer.is_err() {
            let _ = self.0.at.compare_exchange(n, n.wrapping_add(1), Relaxed, Relaxed);
        }
        answer
    }
}

/// Returns whether this member is the leader.
fn leads(status: &StatusResponse) -> bool {
    status.header.as_ref().is_some_and(|header| header.member_id == status.leader)
}
