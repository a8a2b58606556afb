//! All members, one at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use prost::Message;

use crate::credentials::{Credentials, Tls};
use crate::error::{Error, Kind};
use crate::member::Member;
use crate::message::*;
use crate::watch::Watch;

/// How long one try may take, if nothing else is said.
pub const TRY_MAX: Duration = Duration::from_millis(700);

/// How to reach a cluster.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its members: hosts and ports, at least one.
    pub members: Vec<String>,
    /// How connections are encrypted; `None`: not at all.
    pub tls: Option<Tls>,
    /// Who we are; `None`: etcd does not ask.
    pub credentials: Option<Credentials>,
    /// How long one try may take.
    pub try_max: Duration,
}

impl Options {
    /// These members, without encryption and passwords.
    pub fn new(members: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let members = members.into_iter().map(Into::into).collect();
        Self { members, tls: None, credentials: None, try_max: TRY_MAX }
    }
}

/// Cheap to clone. Every call is one try at one member; after any error the next call goes to the next member.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    members: Vec<Member>,
    credentials: Option<Credentials>,
    try_max: Duration,
    /// The member that is asked, modulo their number.
    at: Arc<AtomicUsize>,
}

impl Client {
    /// Connects to nobody yet. Must be called where tokio runs.
    pub fn new(options: Options) -> Result<Self, Error> {
        Self::beginning(options, Arc::default())
    }

    /// With connections of its own, to be called where they are to be served: as [`Self::new`], but both always ask
    /// the same member.
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

    /// How many members are known.
    pub fn n_members(&self) -> usize {
        self.0.members.len()
    }

    /// Reads keys.
    pub async fn range(&self, request: RangeRequest) -> Result<RangeResponse, Error> {
        self.unary("/etcdserverpb.KV/Range", request).await
    }

    /// Puts a key, whatever is there.
    pub async fn put(&self, request: PutRequest) -> Result<PutResponse, Error> {
        self.unary("/etcdserverpb.KV/Put", request).await
    }

    /// Does one of two lists of operations, depending on conditions.
    pub async fn txn(&self, request: TxnRequest) -> Result<TxnResponse, Error> {
        self.unary("/etcdserverpb.KV/Txn", request).await
    }

    /// Forgets what keys were before a revision.
    pub async fn compact(&self, revision: i64) -> Result<CompactionResponse, Error> {
        self.unary("/etcdserverpb.KV/Compact", CompactionRequest { revision }).await
    }

    /// A lease for about so many seconds: the answer says for how many.
    pub async fn lease_grant(&self, ttl: i64) -> Result<LeaseGrantResponse, Error> {
        self.unary("/etcdserverpb.Lease/LeaseGrant", LeaseGrantRequest { ttl }).await
    }

    /// Ends a lease, and with it its keys.
    pub async fn lease_revoke(&self, id: i64) -> Result<LeaseRevokeResponse, Error> {
        self.unary("/etcdserverpb.Lease/LeaseRevoke", LeaseRevokeRequest { id }).await
    }

    /// Makes a lease last; for how many seconds from now.
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
            let over = || Error::new(Kind::LeaseGone, &member.name, "the lease is over");
            first.map(|answer| answer.ttl).filter(|ttl| *ttl > 0).ok_or_else(over)
        };
        self.noted(n, answer.await)
    }

    /// What happens to keys from now on, or from a revision on.
    pub async fn watch(&self, create: WatchCreateRequest) -> Result<Watch, Error> {
        let (n, member) = self.member();
        let Inner { credentials, try_max, .. } = &*self.0;
        self.noted(n, Watch::begin(member, create, credentials.as_ref(), *try_max).await)
    }

    /// How each member is, in the order of the options. From then on the one that leads is asked, if that is among
    /// them: what another is asked to write it has to pass on.
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

    /// The member that is asked, in the order of the options.
    pub fn asks(&self) -> usize {
        self.0.at.load(Relaxed) % self.0.members.len()
    }

    fn member(&self) -> (usize, &Member) {
        let n = self.0.at.load(Relaxed);
        (n, &self.0.members[n % self.0.members.len()])
    }

    /// After an error of the `n`th choice the next one is another member, unless somebody else has seen to that.
    fn noted<T>(&self, n: usize, answer: Result<T, Error>) -> Result<T, Error> {
        if answer.is_err() {
            let _ = self.0.at.compare_exchange(n, n.wrapping_add(1), Relaxed, Relaxed);
        }
        answer
    }
}

/// Does this member lead?
fn leads(status: &StatusResponse) -> bool {
    status.header.as_ref().is_some_and(|header| header.member_id == status.leader)
}
