//! Sessions: one keep-alive for any number of locks.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_api::OpenSessionRequest;

use crate::clock::Moment;
use crate::farewell::{self, GiveBack};
use crate::heartbeat::Heartbeat;
use crate::retry::{Attempts, Doubt, Manner};
use crate::tenure::Tenure;
use crate::terms::{DEFAULT_TTL, margin, millis};
use crate::{Client, Error, LockRequest, Lost, Retry};

/// A request for a session: `client.session().ttl(..).open().await`.
#[derive(Clone, Debug)]
#[must_use = "nothing is asked before `open`"]
pub struct SessionRequest {
    client: Client,
    owner: String,
    ttl: Duration,
    margin: Option<Duration>,
    retry: Retry,
}

impl SessionRequest {
    pub(crate) fn new(client: Client) -> Self {
        let owner = client.owner().into();
        Self { client, owner, ttl: DEFAULT_TTL, margin: None, retry: Retry::default() }
    }

    /// The owner of the session. Default: the client's [`owner`](Client::owner).
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = owner.into();
        self
    }

    /// How long the session lasts without a keep-alive. Default: 30 s.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// How long before its end the session counts as lost: see [the margin of a lock](LockRequest::margin).
    pub fn margin(mut self, margin: Duration) -> Self {
        self.margin = Some(margin);
        self
    }

    /// How failures are retried. A try whose response was lost can leave a session behind that no client knows. It
    /// holds no lock, and expires.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// Opens the session and keeps it alive.
    pub async fn open(self) -> Result<Session, Error> {
        let margin = margin(self.ttl, self.margin)?;
        let request = OpenSessionRequest { owner_id: self.owner, ttl_ms: millis(self.ttl) };
        let clock = self.client.clock().clone();
        let give_up_at = clock.now() + self.retry.total_max;
        let mut attempts = Attempts::new(self.retry, Manner::Once, give_up_at);
        let mut doubt = Doubt::default();
        loop {
            let sent_at = clock.now();
            match self.client.open_session(&request).await {
                Ok(opened) => {
                    self.client.inner.transport.failover().warn(self.ttl);
                    let expires_in = Duration::from_millis(opened.expires_after_send_ms);
                    let tenure = Tenure::new(clock, margin, sent_at, expires_in);
                    let (id, owner) = (opened.session_id, opened.owner_id);
                    let end = sent_at + expires_in;
                    return Ok(Session::start(self.client, id, owner, self.ttl, tenure, end));
                }
                Err(error) => {
                    let error = doubt.over(error);
                    let Some(pause) = attempts.after(&error, clock.now()) else {
                        return Err(error);
                    };
                    clock.sleep_until(clock.now() + pause).await;
                }
            }
        }
    }
}

/// A session that is kept alive until it is [closed](Self::close), dropped or [lost](Self::lost). Every lock in it is
/// lost with it. Its guarantees are those of a [`LockGuard`](crate::LockGuard).
#[must_use = "the session is closed when this is dropped"]
pub struct Session {
    client: Client,
    id: String,
    owner: String,
    tenure: Arc<Tenure>,
    heartbeat: Option<Heartbeat>,
    is_closed: bool,
}

impl Session {
    fn start(
        client: Client,
        id: String,
        owner: String,
        ttl: Duration,
        tenure: Tenure,
        end: Moment,
    ) -> Self {
        let tenure = Arc::new(tenure);
        let (keeping, kept_id) = (client.clone(), id.clone());
        let keep = move || {
            let (client, id) = (keeping.clone(), kept_id.clone());
            async move {
                let kept = client.keep_session(&id).await?;
                Ok(Duration::from_millis(kept.expires_after_send_ms))
            }
        };
        let (clock, what) = (client.clock().clone(), format!("the session of {owner}"));
        let heartbeat = Heartbeat::start(clock, tenure.clone(), what, ttl, end, keep);
        Self { client, id, owner, tenure, heartbeat: Some(heartbeat), is_closed: false }
    }

    /// Starts a request for a lock that lasts as long as the session.
    pub fn lock(&self, name: impl Into<String>) -> LockRequest {
        self.client.lock(name).of_session(&self.id, &self.owner, self.tenure.clone())
    }

    /// Returns the session id. It is a secret.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the owner of the session.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// Returns when the session counts as lost unless it is kept alive before.
    pub fn deadline(&self) -> Moment {
        self.tenure.deadline()
    }

    /// Returns `Ok` while the session is alive. It reads the clock first.
    pub fn check(&self) -> Result<(), Lost> {
        self.tenure.check()
    }

    /// Completes when the session is lost. It does not borrow the session.
    pub fn lost(&self) -> impl Future<Output = Lost> + Send + use<> {
        let tenure = self.tenure.clone();
        async move { tenure.lost().await }
    }

    /// Closes the session and releases every lock in it. `NO_SUCH_SESSION` means that it had ended before.
    pub async fn close(mut self) -> Result<(), Error> {
        self.tenure.lose(Lost::Released);
        if let Some(heartbeat) = self.heartbeat.take() {
            heartbeat.stop().await;
        }
        let result = close(&self.client, &self.id).await;
        self.is_closed = true;
        result
    }
}

async fn close(client: &Client, id: &str) -> Result<(), Error> {
    let clock = client.clock();
    let retry = Retry::default();
    let mut attempts = Attempts::new(retry, Manner::Once, clock.now() + retry.total_max);
    let mut doubt = Doubt::default();
    loop {
        match client.close_session(id).await {
            // An earlier try might have closed the session.
            Err(Error::Failed { status: 404, .. }) if doubt.is_left() => return Ok(()),
            Err(error) => {
                let error = doubt.over(error);
                let Some(pause) = attempts.after(&error, clock.now()) else { return Err(error) };
                clock.sleep_until(clock.now() + pause).await;
            }
            Ok(()) => return Ok(()),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.heartbeat = None;
        self.tenure.lose(Lost::Released);
        if !self.is_closed {
            farewell::say(Open { client: self.client.clone(), id: std::mem::take(&mut self.id) });
        }
    }
}

/// An open session that is no longer kept alive.
struct Open {
    client: Client,
    id: String,
}

impl GiveBack for Open {
    async fn give_back(&self, client: &Client) {
        if let Err(error) = close(client, &self.id).await {
            tracing::warn!(%error, "could not close a dropped session");
        }
    }

    fn client(&self) -> &Client {
        &self.client
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Session");
        shown.field("owner", &self.owner).field("check", &self.check()).finish_non_exhaustive()
    }
}
