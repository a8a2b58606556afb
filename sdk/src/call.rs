//! The calls of the native API, as they are on the wire: one request, one response, nothing in the background.
//!
//! The caller keeps track of deadlines: note the time *before* the call and add `expires_after_send_ms` to it.
//! [`Client::lock`] does this automatically.

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

use crate::terms::in_slice;
use crate::transport::{failure, read, read_or};
use crate::{Client, Error};

/// All characters except those that RFC 3986 calls unreserved.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Time limit for a backup, which takes as long as the server's disk needs.
const BACKUP_MAX: Duration = Duration::from_secs(600);

/// Time limit for transferring a Terraform state, which can be large.
const STATE_MAX: Duration = Duration::from_secs(120);

/// Filters and paging for [`Client::list`].
#[derive(Clone, Debug, Default)]
pub struct ListQuery {
    /// List only locks whose names begin with this.
    pub prefix: String,
    /// List only locks that this owner holds or waits for.
    pub owner: Option<String>,
    /// List only locks in this state.
    pub standing: Option<Standing>,
    /// Maximum number of locks on a page.
    pub limit: Option<usize>,
    /// The `next_cursor` of the previous page.
    pub cursor: Option<String>,
}

/// Filters and paging for [`Client::history`].
#[derive(Clone, Debug, Default)]
pub struct HistoryQuery {
    /// Return only events of this lock.
    pub lock: Option<String>,
    /// Return only events of this owner's leases.
    pub owner: Option<String>,
    /// Return only events at or after this time, in epoch milliseconds.
    pub since_ms: Option<i64>,
    /// Maximum number of events on a page.
    pub limit: Option<usize>,
    /// The `next_cursor` of the previous page.
    pub cursor: Option<String>,
}

/// The state of a listed lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "named as on the wire")]
pub enum Standing {
    Held,
    Waiting,
    Free,
}

impl Client {
    /// Requests a lock once. With `wait_ms`, the server responds when it grants the lock or the wait times out.
    pub async fn acquire(&self, lock: &str, request: &AcquireRequest) -> Result<Acquired, Error> {
        let path = self.lock_path(lock, "/acquire")?;
        let wait = Duration::from_millis(request.wait_ms.unwrap_or(0));
        let answer = self.inner.transport.call(Method::POST, &path, Some(request), wait).await?;
        read_or(answer, |no| Error::NotAcquired(Box::new(no)))
    }

    /// Does the same as [`acquire`](Self::acquire), but waits for at most 30 s plus the response timeout. Returns
    /// `None` if there was no response by then: the lock might have been granted. Repeat the request with the same
    /// `request_id` and the rest of the wait, which keeps its position in the queue. If the server does not respond at
    /// all anymore, that request goes to the next URL.
    pub async fn acquire_in_slice(
        &self,
        lock: &str,
        request: &AcquireRequest,
    ) -> Result<Option<Acquired>, Error> {
        let wait = request.wait_ms.map(Duration::from_millis);
        match in_slice(self, self.clock().now(), wait, self.acquire(lock, request)).await {
            Some(answer) => answer.map(Some),
            None => {
                self.inner.transport.sound().await;
                Ok(None)
            }
        }
    }

    /// Renews a lease.
    pub async fn renew(&self, lock: &str, request: &RenewRequest) -> Result<Renewed, Error> {
        let path = self.lock_path(lock, "/renew")?;
        read_or(self.post(&path, request).await?, Error::NotRenewed)
    }

    /// Releases a lease.
    pub async fn release(&self, lock: &str, request: &ReleaseRequest) -> Result<Released, Error> {
        let path = self.lock_path(lock, "/release")?;
        read_or(self.post(&path, request).await?, Error::NotReleased)
    }

    /// Requests several locks once. The server grants all of them together or none.
    pub async fn acquire_all(&self, request: &AcquireAllRequest) -> Result<AcquiredAll, Error> {
        let path = format!("{}/acquire", self.namespace_path());
        let wait = Duration::from_millis(request.wait_ms.unwrap_or(0));
        let answer = self.inner.transport.call(Method::POST, &path, Some(request), wait).await?;
        read_or(answer, |no| Error::NotAcquired(Box::new(no)))
    }

    /// Renews several leases: all of them or none.
    pub async fn renew_all(&self, request: &RenewAllRequest) -> Result<Renewed, Error> {
        let path = format!("{}/renew", self.namespace_path());
        read_or(self.post(&path, request).await?, |no: NotRenewedAll| {
            Error::NotRenewedAll(Box::new(no))
        })
    }

    /// Releases those of several leases that are still active. The response has the outcome for each of them.
    pub async fn release_all(&self, request: &ReleaseAllRequest) -> Result<ReleasedAll, Error> {
        let path = format!("{}/release", self.namespace_path());
        let (status, body) = self.post(&path, request).await?;
        // If none of the leases was active, the server sends 409 with an ordinary response body.
        let status = if status == StatusCode::CONFLICT { StatusCode::OK } else { status };
        read((status, body))
    }

    /// Ends a wait immediately. Returns `false` if there was no such wait, or if its lease was already granted.
    pub async fn cancel(&self, request: &CancelRequest) -> Result<bool, Error> {
        let path = format!("{}/cancel", self.namespace_path());
        let cancelled: Cancelled = read(self.post(&path, request).await?)?;
        Ok(cancelled.cancelled)
    }

    /// Revokes all leases, waits and sessions of an owner, a session or a principal, in all namespaces.
    pub async fn revoke_all(&self, request: &RevokeAllRequest) -> Result<RevokedAll, Error> {
        read(self.post("/v1/revoke", request).await?)
    }

    /// Returns which auth file the server uses. For admins.
    pub async fn auth_state(&self) -> Result<AuthState, Error> {
        self.get("/v1/admin/auth").await
    }

    /// Returns the current state of a lock. A lock that was never used is free.
    pub async fn look(&self, lock: &str) -> Result<LockState, Error> {
        self.get(&self.lock_path(lock, "")?).await
    }

    /// Revokes a lock: ends the leases of all its holders.
    pub async fn revoke(&self, lock: &str, reason: &str) -> Result<Revoked, Error> {
        let path = self.lock_path(lock, "/revoke")?;
        read(self.post(&path, &RevokeRequest { reason: reason.into() }).await?)
    }

    /// Makes the server take a backup of its data, below its configured backup directory.
    pub async fn take_backup(&self) -> Result<BackupTaken, Error> {
        let path = "/v1/admin/backup";
        read(self.inner.transport.call(Method::POST, path, None::<&()>, BACKUP_MAX).await?)
    }

    /// Returns one page of locks.
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

    /// Returns one page of lock events, newest first.
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

    /// Keeps a session alive for another TTL.
    pub async fn keep_session(&self, session_id: &str) -> Result<KeptAlive, Error> {
        let path = format!("/v1/sessions/{}/keepalive", escape(session_id));
        self.call(Method::POST, &path).await
    }

    /// Returns how long a session lasts without another keep-alive.
    pub async fn look_session(&self, session_id: &str) -> Result<SessionOpened, Error> {
        self.get(&format!("/v1/sessions/{}", escape(session_id))).await
    }

    /// Ends a session and releases all its leases.
    pub async fn close_session(&self, session_id: &str) -> Result<(), Error> {
        let path = format!("/v1/sessions/{}", escape(session_id));
        let call = self.inner.transport.call(Method::DELETE, &path, None::<&()>, Duration::ZERO);
        let (status, body) = call.await?;
        if status.is_success() { Ok(()) } else { Err(failure(status, &body)) }
    }

    /// Checks whether the lease of a token is active. This is only a hint: the lease can end before you act on the
    /// result. To protect a resource, put a [`FencingGate`](crate::FencingGate) in front of it.
    pub async fn check_fence(&self, lock: &str, token: u64) -> Result<FenceVerdict, Error> {
        let request = FenceCheck {
            lock_name: lock.into(),
            fencing_token: token,
            namespace: self.inner.namespace.clone(),
        };
        read(self.post("/v1/fence/check", &request).await?)
    }

    /// Lists the Terraform states that the server stores.
    pub async fn terraform_states(&self) -> Result<TerraformStates, Error> {
        self.get("/terraform").await
    }

    /// Lists the stored versions of a Terraform state.
    pub async fn terraform_versions(&self, state: &str) -> Result<StateVersions, Error> {
        self.get(&format!("{}/versions", state_path(state)?)).await
    }

    /// Returns a Terraform state, or an earlier version of it, byte for byte.
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

    /// Makes an earlier version the current Terraform state, under a lock that the server acquires for it.
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

    /// Checks whether the server can currently commit writes.
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

/// Returns the failure if a Terraform state is locked. The server sends it in Terraform's format, where the holder is
/// the `ID`.
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

/// Returns `?a=b&c=d` with the parameters that have a value.
pub(crate) fn query_string(parameters: &[(&str, Option<&str>)]) -> String {
    let given = parameters.iter().filter_map(|(name, value)| Some((name, (*value)?)));
    let pairs: Vec<_> = given.map(|(name, value)| format!("{name}={}", escape(value))).collect();
    if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
}

fn escape(text: &str) -> String {
    // A path segment that consists only of dots would be treated as a relative step.
    if text.chars().all(|c| c == '.') {
        return text.replace('.', "%2E");
    }
    utf8_percent_encode(text, ESCAPED).to_string()
}
