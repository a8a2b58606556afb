//! Every call of the native dialect, as it is on the wire: one request, one answer, nothing in the background.
//!
//! Deadlines are the caller's business here: note the time *before* the call and add `expires_after_send_ms` to that.
//! [`Client::lock`] does so.

use std::time::Duration;

use hyper::{Method, StatusCode};
use leasehold_api::{
    AcquireAllRequest, AcquireRequest, Acquired, AcquiredAll, AuthState, BackupTaken,
    CancelRequest, Cancelled, Code, Failure, FenceCheck, FenceVerdict, History, KeptAlive,
    LockList, LockState, NotRenewedAll, OpenSessionRequest, ReleaseAllRequest, ReleaseRequest,
    Released, ReleasedAll, RenewAllRequest, RenewRequest, Renewed, RevokeAllRequest, RevokeRequest,
    Revoked, RevokedAll, SessionOpened, StateVersions, StateWritten, TerraformStates,
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::transport::{failure, read, read_or};
use crate::{Client, Error};

/// Everything but what RFC 3986 calls unreserved.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A backup takes as long as the server's disk does.
const BACKUP_MAX: Duration = Duration::from_secs(600);

/// A state may be large.
const STATE_MAX: Duration = Duration::from_secs(120);

/// Which locks to list.
#[derive(Clone, Debug, Default)]
pub struct ListQuery {
    /// Only names that begin with this.
    pub prefix: String,
    /// Only those it has or waits for.
    pub owner: Option<String>,
    /// Only those in this state.
    pub standing: Option<Standing>,
    /// At most this many on a page.
    pub limit: Option<usize>,
    /// `next_cursor` of the page before.
    pub cursor: Option<String>,
}

/// Which part of history to tell.
#[derive(Clone, Debug, Default)]
pub struct HistoryQuery {
    /// Only what happened to this lock.
    pub lock: Option<String>,
    /// Only what happened to leases of this owner.
    pub owner: Option<String>,
    /// Only what happened at or after this time, in epoch milliseconds.
    pub since_ms: Option<i64>,
    /// At most this many on a page.
    pub limit: Option<usize>,
    /// `next_cursor` of the page before.
    pub cursor: Option<String>,
}

/// What a listed lock is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "named as on the wire")]
pub enum Standing {
    Held,
    Waiting,
    Free,
}

impl Client {
    /// Asks for a lock once. With `wait_ms` it is answered when it is granted or the time is over.
    pub async fn acquire(&self, lock: &str, request: &AcquireRequest) -> Result<Acquired, Error> {
        let path = self.lock_path(lock, "/acquire")?;
        let wait = Duration::from_millis(request.wait_ms.unwrap_or(0));
        let answer = self.inner.transport.call(Method::POST, &path, Some(request), wait).await?;
        read_or(answer, |no| Error::NotAcquired(Box::new(no)))
    }

    /// Makes a lease last longer.
    pub async fn renew(&self, lock: &str, request: &RenewRequest) -> Result<Renewed, Error> {
        let path = self.lock_path(lock, "/renew")?;
        read_or(self.post(&path, request).await?, Error::NotRenewed)
    }

    /// Gives a lease back.
    pub async fn release(&self, lock: &str, request: &ReleaseRequest) -> Result<Released, Error> {
        let path = self.lock_path(lock, "/release")?;
        read_or(self.post(&path, request).await?, Error::NotReleased)
    }

    /// Asks for several locks or none, once.
    pub async fn acquire_all(&self, request: &AcquireAllRequest) -> Result<AcquiredAll, Error> {
        let path = format!("{}/acquire", self.namespace_path());
        let wait = Duration::from_millis(request.wait_ms.unwrap_or(0));
        let answer = self.inner.transport.call(Method::POST, &path, Some(request), wait).await?;
        read_or(answer, |no| Error::NotAcquired(Box::new(no)))
    }

    /// Makes several leases last longer, or none.
    pub async fn renew_all(&self, request: &RenewAllRequest) -> Result<Renewed, Error> {
        let path = format!("{}/renew", self.namespace_path());
        read_or(self.post(&path, request).await?, |no: NotRenewedAll| {
            Error::NotRenewedAll(Box::new(no))
        })
    }

    /// Gives several leases back, those that are still active. What became of each is in the answer.
    pub async fn release_all(&self, request: &ReleaseAllRequest) -> Result<ReleasedAll, Error> {
        let path = format!("{}/release", self.namespace_path());
        let (status, body) = self.post(&path, request).await?;
        // That none was active is an answer like any other.
        let status = if status == StatusCode::CONFLICT { StatusCode::OK } else { status };
        read((status, body))
    }

    /// Ends a wait at once. `false`: there was none, or its lease was granted.
    pub async fn cancel(&self, request: &CancelRequest) -> Result<bool, Error> {
        let path = format!("{}/cancel", self.namespace_path());
        let cancelled: Cancelled = read(self.post(&path, request).await?)?;
        Ok(cancelled.cancelled)
    }

    /// Revokes everything an owner, a session or a principal has, in all namespaces.
    pub async fn revoke_all(&self, request: &RevokeAllRequest) -> Result<RevokedAll, Error> {
        read(self.post("/v1/revoke", request).await?)
    }

    /// Which auth file the server goes by. For admins.
    pub async fn auth_state(&self) -> Result<AuthState, Error> {
        self.get("/v1/admin/auth").await
    }

    /// What is true of a lock right now. A lock nobody ever used is free.
    pub async fn look(&self, lock: &str) -> Result<LockState, Error> {
        self.get(&self.lock_path(lock, "")?).await
    }

    /// Takes a lock away from all who have it.
    pub async fn revoke(&self, lock: &str, reason: &str) -> Result<Revoked, Error> {
        let path = self.lock_path(lock, "/revoke")?;
        read(self.post(&path, &RevokeRequest { reason: reason.into() }).await?)
    }

    /// Has the server take a backup of itself, below the folder it was told.
    pub async fn take_backup(&self) -> Result<BackupTaken, Error> {
        let path = "/v1/admin/backup";
        read(self.inner.transport.call(Method::POST, path, None::<&()>, BACKUP_MAX).await?)
    }

    /// One page of locks.
    pub async fn list(&self, query: &ListQuery) -> Result<LockList, Error> {
        let standing = query.standing.map(|standing| match standing {
            Standing::Held => "held",
            Standing::Waiting => "waiting",
            Standing::Free => "free",
        });
        let limit = query.limit.map(|limit| limit.to_string());
        let parameters = [
            ("prefix", Some(query.prefix.as_str()).filter(|prefix| !prefix.is_empty())),
            ("owner", query.owner.as_deref()),
            ("state", standing),
            ("limit", limit.as_deref()),
            ("cursor", query.cursor.as_deref()),
        ];
        self.get(&format!("{}/locks{}", self.namespace_path(), query_string(&parameters))).await
    }

    /// What happened to locks, newest first.
    pub async fn history(&self, query: &HistoryQuery) -> Result<History, Error> {
        let limit = query.limit.map(|limit| limit.to_string());
        let since = query.since_ms.map(|since| since.to_string());
        let parameters = [
            ("owner", query.owner.as_deref()),
            ("since", since.as_deref()),
            ("limit", limit.as_deref()),
            ("cursor", query.cursor.as_deref()),
        ];
        let path = match &query.lock {
            Some(lock) => self.lock_path(lock, "/history")?,
            None => format!("{}/history", self.namespace_path()),
        };
        self.get(&format!("{path}{}", query_string(&parameters))).await
    }

    /// Opens a session without keeping it alive.
    pub async fn open_session(&self, request: &OpenSessionRequest) -> Result<SessionOpened, Error> {
        read(self.post("/v1/sessions", request).await?)
    }

    /// Keeps a session alive for another ttl.
    pub async fn keep_session(&self, session_id: &str) -> Result<KeptAlive, Error> {
        let path = format!("/v1/sessions/{}/keepalive", escape(session_id));
        self.call(Method::POST, &path).await
    }

    /// How long a session still has.
    pub async fn look_session(&self, session_id: &str) -> Result<SessionOpened, Error> {
        self.get(&format!("/v1/sessions/{}", escape(session_id))).await
    }

    /// Ends a session and gives back all its leases.
    pub async fn close_session(&self, session_id: &str) -> Result<(), Error> {
        let path = format!("/v1/sessions/{}", escape(session_id));
        let call = self.inner.transport.call(Method::DELETE, &path, None::<&()>, Duration::ZERO);
        let (status, body) = call.await?;
        if status.is_success() { Ok(()) } else { Err(failure(status, &body)) }
    }

    /// Whether a token's lease is active. Advice only: by the time you act on it, it may not be. What protects is a
    /// [`FencingGate`](crate::FencingGate) at the thing that is written to.
    pub async fn check_fence(&self, lock: &str, token: u64) -> Result<FenceVerdict, Error> {
        let request = FenceCheck {
            lock_name: lock.into(),
            fencing_token: token,
            namespace: self.inner.namespace.clone(),
        };
        read(self.post("/v1/fence/check", &request).await?)
    }

    /// The states of Terraform that the server keeps.
    pub async fn terraform_states(&self) -> Result<TerraformStates, Error> {
        self.get("/terraform").await
    }

    /// The versions of a state that are kept.
    pub async fn terraform_versions(&self, state: &str) -> Result<StateVersions, Error> {
        self.get(&format!("{}/versions", state_path(state)?)).await
    }

    /// A state, or an earlier version of it, byte for byte.
    pub async fn terraform_state(
        &self,
        state: &str,
        version: Option<u64>,
    ) -> Result<Vec<u8>, Error> {
        let path = match version {
            None => state_path(state)?,
            Some(version) => format!("{}/versions/{version}", state_path(state)?),
        };
        let call = self.inner.transport.call(Method::GET, &path, None::<&()>, STATE_MAX);
        let (status, body) = call.await?;
        if status.is_success() { Ok(body.into()) } else { Err(failure(status, &body)) }
    }

    /// Makes an earlier version the state again, under a lock that is taken for it.
    pub async fn terraform_restore(
        &self,
        state: &str,
        version: u64,
    ) -> Result<StateWritten, Error> {
        let path = format!("{}/versions/{version}/restore", state_path(state)?);
        let call = self.inner.transport.call(Method::POST, &path, None::<&()>, STATE_MAX);
        let (status, body) = call.await?;
        match holder(status, &body) {
            Some(failure) => Err(Error::Failed { status: status.as_u16(), failure }),
            None => read((status, body)),
        }
    }

    /// Whether the server could make something durable right now.
    pub async fn ready(&self) -> Result<(), Error> {
        let call = self.inner.transport.call(Method::GET, "/readyz", None::<&()>, Duration::ZERO);
        let (status, body) = call.await?;
        if status.is_success() { Ok(()) } else { Err(failure(status, &body)) }
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        self.call(Method::GET, path).await
    }

    async fn call<T: DeserializeOwned>(&self, method: Method, path: &str) -> Result<T, Error> {
        read(self.inner.transport.call(method, path, None::<&()>, Duration::ZERO).await?)
    }

    async fn post(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<(hyper::StatusCode, hyper::body::Bytes), Error> {
        self.inner.transport.call(Method::POST, path, Some(body), Duration::ZERO).await
    }

    pub(crate) fn namespace_path(&self) -> String {
        match &self.inner.namespace {
            Some(namespace) => format!("/v1/namespaces/{}", escape(namespace)),
            None => "/v1".into(),
        }
    }

    pub(crate) fn lock_path(&self, lock: &str, what: &str) -> Result<String, Error> {
        if lock.is_empty() {
            return Err(Error::Invalid("a lock must have a name".into()));
        }
        Ok(format!("{}/locks/{}{what}", self.namespace_path(), escape(lock)))
    }
}

/// Somebody has the lock of a state: said as Terraform reads it, whose name for who has it is `ID`.
fn holder(status: StatusCode, body: &[u8]) -> Option<Failure> {
    #[derive(serde::Deserialize)]
    struct LockInfo {
        #[serde(rename = "ID")]
        id: String,
    }
    if !matches!(status, StatusCode::CONFLICT | StatusCode::LOCKED) {
        return None;
    }
    let LockInfo { id } = serde_json::from_slice(body).ok()?;
    Some(Failure::new(Code::Other, format!("the state is locked: {id}")))
}

fn state_path(state: &str) -> Result<String, Error> {
    if state.is_empty() {
        return Err(Error::Invalid("a state must have a name".into()));
    }
    Ok(format!("/terraform/{}", escape(state)))
}

/// `?a=b&c=d` of those that have a value.
pub(crate) fn query_string(parameters: &[(&str, Option<&str>)]) -> String {
    let given = parameters.iter().filter_map(|(name, value)| Some((name, (*value)?)));
    let pairs: Vec<_> = given.map(|(name, value)| format!("{name}={}", escape(value))).collect();
    if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
}

fn escape(text: &str) -> String {
    // A path step of dots alone would be taken for a way up.
    if text.chars().all(|c| c == '.') {
        return text.replace('.', "%2E");
    }
    utf8_percent_encode(text, ESCAPED).to_string()
}
