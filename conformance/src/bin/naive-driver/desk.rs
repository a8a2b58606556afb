//! Carries out commands, and keeps the clients and leases that they name.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use leasehold::api::{
    AcquireAllRequest, AcquireRequest, Acquired, CancelRequest, HeldLease, Mode,
    OpenSessionRequest, WantedLock,
};
use leasehold::{Client, Error, Watched};
use leasehold_conformance::bug::Bug;
use leasehold_conformance::speak::{Answer, Refusal, say, text, time, write};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::hold::{Given, Hold};
use crate::proof::Proof;
use crate::retry::{Tries, request_id};

const TTL: Duration = Duration::from_secs(30);

#[derive(Default)]
pub(crate) struct Desk {
    clients: Mutex<HashMap<String, Client>>,
    holds: Mutex<HashMap<String, Arc<Hold>>>,
    /// Pending acquires, by the id of their command.
    waiting: Mutex<HashMap<u64, oneshot::Sender<()>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn has(bug: Bug) -> bool {
    Bug::chosen() == Some(bug)
}

impl Desk {
    pub(crate) async fn obey(&self, command: &Value) -> Answer {
        match text(command, "do")? {
            "hello" => Ok(json!({"sdk": "naive", "version": "0", "protocol": 1})),
            "connect" => self.connect(command),
            "acquire" => self.acquire(command).await,
            "acquire_all" => self.acquire_all(command).await,
            "check" => Ok(json!({"held": self.hold(command, "lease")?.is_held()})),
            "release" => self.give_back(command, "lease").await,
            "cancel" => self.cancel(command),
            "session_open" => self.session_open(command).await,
            "session_close" => self.give_back(command, "session").await,
            "write" => self.write(command).await,
            "watch" => self.watch(command).await,
            "campaign" => self.campaign(command).await,
            "leader" => self.leader(command).await,
            other => Err(Refusal::new("unsupported", other)),
        }
    }

    fn connect(&self, command: &Value) -> Answer {
        let urls: Vec<_> =
            command["urls"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let mut builder = Client::builder(urls.first().unwrap_or(&""));
        for url in urls.iter().skip(1).filter(|_| !has(Bug::FirstUrlOnly)) {
            builder = builder.also(*url);
        }
        if let Some(owner) = command["owner"].as_str() {
            builder = builder.owner(owner);
        }
        if let Some(namespace) =
            command["namespace"].as_str().filter(|_| !has(Bug::IgnoresNamespace))
        {
            builder = builder.namespace(namespace);
        }
        // With a key, the SDK would reject this option.
        let key = command["api_key"].as_str().filter(|_| !has(Bug::FollowsAnyServer));
        if let Some(key) = key {
            if has(Bug::LogsTheKey) {
                use std::io::Write;
                let _ = writeln!(std::io::stderr(), "connecting with {key}");
            }
            builder = builder.api_key(key);
        }
        if has(Bug::NeverAsksWhoLeads) {
            builder = builder.direct(false);
        }
        if has(Bug::FollowsAnyServer) {
            builder = builder.follow_any_leader(true);
        }
        if let Some(timeout) = time(command, "timeout_ms") {
            builder = builder.timeout(timeout);
        }
        lock(&self.clients).insert(text(command, "client")?.into(), builder.build()?);
        Ok(json!({}))
    }

    fn client(&self, command: &Value) -> Result<Client, Refusal> {
        let name = text(command, "client")?;
        let client = lock(&self.clients).get(name).cloned();
        client.ok_or_else(|| Refusal::internal(format!("no client {name}")))
    }

    fn hold(&self, command: &Value, what: &str) -> Result<Arc<Hold>, Refusal> {
        let name = format!("{what} {}", text(command, what)?);
        let hold = lock(&self.holds).get(&name).cloned();
        hold.ok_or_else(|| Refusal::internal(format!("no {name}")))
    }

    fn put(&self, what: &str, name: &str, hold: Arc<Hold>) {
        lock(&self.holds).insert(format!("{what} {name}"), hold);
    }

    async fn acquire(&self, command: &Value) -> Answer {
        let client = self.client(command)?;
        let session = command["session"].as_str().map(|_| self.hold(command, "session"));
        let session = session.transpose()?;
        if session.as_ref().is_some_and(|session| !session.is_held()) {
            return Err(Refusal::new("session_over", "it is over"));
        }
        let session_id = session.as_deref().and_then(|session| match &session.proof {
            Proof::Session { id } if !has(Bug::RenewsEachOfSession) => Some(id.clone()),
            _ => None,
        });
        let usual = if has(Bug::RenewsEachOfSession) { TTL / 10 } else { TTL };
        let ttl = time(command, "ttl_ms").unwrap_or(usual);
        let request = AcquireRequest {
            owner_id: client.owner().into(),
            ttl_ms: session_id.is_none().then(|| ms(ttl)),
            request_id: Some(request_id()),
            wait_ms: None,
            mode: (command["shared"] == true).then_some(Mode::Shared),
            limit: command["limit"].as_u64().and_then(|limit| u32::try_from(limit).ok()),
            grace_ms: command["grace_ms"].as_u64(),
            metadata: Some(command["metadata"].clone()).filter(|it| !it.is_null()),
            session_id: session_id.clone(),
        };
        let name = text(command, "lock")?.to_owned();
        let wait = time(command, "wait_ms").unwrap_or_default();
        let (sent_at, acquired) =
            self.cancellable(command, ask(client.clone(), name, request, wait)).await?;
        let expires_in = acquired.expires_after_send_ms.map_or(ttl, Duration::from_millis);
        let mut given = Given { sent_at, expires_in, ttl };
        let token = acquired.fencing_token;
        let about = ("lease", text(command, "lease")?.to_owned());
        let margin = time(command, "margin_ms");
        let proof = Proof::Lease(Box::new(acquired));
        // After a long wait, little might be left of a time that counts from the request. So the lease is renewed
        // first.
        let is_late = sent_at.elapsed() > ttl / 2 && session_id.is_none();
        if is_late && !has(Bug::CountsTtlFromSend) && !has(Bug::NeverRenews) {
            let sent_at = Instant::now();
            if let Ok(expires_in) = proof.renew(&client, ttl).await {
                given = Given { sent_at, expires_in, ttl };
            }
        }
        let hold = Hold::new(about.clone(), token, client, proof, (given, margin));
        match session {
            Some(session) if session_id.is_some() => session.add(&hold),
            _ => hold.keep(given),
        }
        self.put("lease", &about.1, hold);
        Ok(json!({"fencing_token": token}))
    }

    /// Runs `asked`, unless it is cancelled before.
    async fn cancellable<T: Send + 'static>(
        &self,
        command: &Value,
        asked: impl Future<Output = Result<T, Refusal>> + Send + 'static,
    ) -> Result<T, Refusal> {
        let (cancel, cancelled) = oneshot::channel();
        let id = command["id"].as_u64().unwrap_or(0);
        lock(&self.waiting).insert(id, cancel);
        let asking = tokio::spawn(asked);
        let stop = asking.abort_handle();
        let answer = tokio::select! {
            answer = asking => answer.map_err(Refusal::internal)?,
            Ok(()) = cancelled => {
                if !has(Bug::CancelsLocally) {
                    stop.abort();
                }
                Err(Refusal::new("cancelled", "it was cancelled"))
            }
        };
        lock(&self.waiting).remove(&id);
        answer
    }

    async fn acquire_all(&self, command: &Value) -> Answer {
        let client = self.client(command)?;
        let ttl = time(command, "ttl_ms").unwrap_or(TTL);
        let wanted = |lock: &Value| WantedLock {
            lock_name: lock["lock"].as_str().unwrap_or_default().into(),
            mode: (lock["shared"] == true).then_some(Mode::Shared),
            limit: lock["limit"].as_u64().and_then(|limit| u32::try_from(limit).ok()),
        };
        let locks: Vec<_> = command["locks"].as_array().into_iter().flatten().map(wanted).collect();
        let request = |locks| AcquireAllRequest {
            owner_id: client.owner().into(),
            locks,
            ttl_ms: Some(ms(ttl)),
            request_id: Some(request_id()),
            wait_ms: command["wait_ms"].as_u64(),
            grace_ms: None,
            metadata: None,
            session_id: None,
        };
        if has(Bug::SeveralOneByOne) {
            for lock in &locks {
                client.acquire_all(&request(vec![lock.clone()])).await?;
            }
        }
        let sent_at = Instant::now();
        let acquired = client.acquire_all(&request(locks)).await?;
        let expires_in = acquired.expires_after_send_ms.map_or(ttl, Duration::from_millis);
        let given = Given { sent_at, expires_in, ttl };
        let tokens: Vec<_> = acquired.leases.iter().map(|lease| lease.fencing_token).collect();
        let held = acquired.leases.into_iter().map(|lease| HeldLease {
            lock_name: lease.lock_name,
            lease_id: lease.lease_id,
            fencing_token: lease.fencing_token,
        });
        let proof = Proof::Leases { owner: acquired.owner_id, leases: held.collect() };
        let about = ("lease", text(command, "lease")?.to_owned());
        let margin = time(command, "margin_ms");
        let hold = Hold::new(about.clone(), tokens[0], client, proof, (given, margin));
        hold.keep(given);
        self.put("lease", &about.1, hold);
        Ok(json!({"fencing_tokens": tokens}))
    }

    async fn session_open(&self, command: &Value) -> Answer {
        let (client, ttl) = (self.client(command)?, time(command, "ttl_ms").unwrap_or(TTL));
        let request = OpenSessionRequest { owner_id: client.owner().into(), ttl_ms: ms(ttl) };
        let mut tries = Tries::few();
        let (sent_at, opened) = loop {
            let sent_at = Instant::now();
            match client.open_session(&request).await {
                Ok(opened) => break (sent_at, opened),
                Err(error) if tries.again(&error).await => {}
                Err(error) => return Err(error.into()),
            }
        };
        let expires_in = Duration::from_millis(opened.expires_after_send_ms);
        let given = Given { sent_at, expires_in, ttl };
        let about = ("session", text(command, "session")?.to_owned());
        let proof = Proof::Session { id: opened.session_id };
        let margin = time(command, "margin_ms");
        let hold = Hold::new(about.clone(), 0, client, proof, (given, margin));
        hold.keep(given);
        self.put("session", &about.1, hold);
        Ok(json!({}))
    }

    async fn give_back(&self, command: &Value, what: &str) -> Answer {
        let hold = self.hold(command, what)?;
        hold.let_go();
        match hold.proof.give_back(&hold.client).await {
            Err(error) if !has(Bug::ClaimsRelease) => Err(error.into()),
            _ => Ok(json!({})),
        }
    }

    fn cancel(&self, command: &Value) -> Answer {
        let waiting = lock(&self.waiting).remove(&command["command"].as_u64().unwrap_or(0));
        let _ = waiting.ok_or_else(|| Refusal::internal("it does not wait"))?.send(());
        Ok(json!({}))
    }

    async fn write(&self, command: &Value) -> Answer {
        let hold = self.hold(command, "lease")?;
        if command["checked"] == true && !hold.is_held() {
            return Err(Refusal::new("lost", "it is lost"));
        }
        write(command, hold.token + u64::from(has(Bug::WritesNextToken))).await
    }

    async fn watch(&self, command: &Value) -> Answer {
        let mut events = self.client(command)?.watch(text(command, "prefix")?);
        events.connect().await?;
        let watch = text(command, "watch")?.to_owned();
        tokio::spawn(async move {
            for n in 0.. {
                match events.next().await {
                    Ok(Watched::Event { .. }) if n == 3 && has(Bug::DropsAnEvent) => {}
                    Ok(Watched::Event { id, event }) => say(&json!({
                        "event": "happened", "watch": watch, "kind": event.kind, "id": id,
                        "lock": event.lock_name, "owner": event.owner_id,
                        "fencing_token": event.fencing_token,
                    })),
                    Ok(Watched::Gap(gap)) => {
                        say(&json!({"event": "gap", "watch": watch, "why": gap.reason}));
                    }
                    Ok(Watched::Stale { .. } | Watched::Current { .. }) => {}
                    Err(_) => {}
                }
            }
        });
        Ok(json!({}))
    }

    async fn campaign(&self, command: &Value) -> Answer {
        let mut acquire = command.clone();
        acquire["lock"] = command["election"].clone();
        acquire["wait_ms"] = json!(60_000);
        if !has(Bug::LeaderSaysNothing) {
            acquire["metadata"] = command["value"].clone();
        }
        self.acquire(&acquire).await
    }

    async fn leader(&self, command: &Value) -> Answer {
        let state = self.client(command)?.look(text(command, "election")?).await?;
        let shown = state.holders.into_iter().next().map(|holder| {
            json!({
                "owner": holder.owner_id, "value": holder.metadata,
                "fencing_token": holder.fencing_token,
            })
        });
        Ok(json!({"leader": shown}))
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Sends the request until there is a response. Returns that response, and when its request was sent.
async fn ask(
    client: Client,
    lock: String,
    mut request: AcquireRequest,
    wait: Duration,
) -> Result<(Instant, Acquired), Refusal> {
    let mut tries = Tries::of_wait(wait);
    let until = Instant::now() + wait;
    if has(Bug::OneRequestId) {
        request.request_id = Some("the one".into());
    }
    let mut place = Place { client: client.clone(), lock: lock.clone(), request: None };
    loop {
        let sent_at = Instant::now();
        if !wait.is_zero() {
            request.wait_ms = Some(ms(until.saturating_duration_since(sent_at)).max(1));
            place.request = Some(request.clone());
        }
        let error: Error = match client.acquire(&lock, &request).await {
            Ok(acquired) => {
                place.request = None;
                return Ok((sent_at, acquired));
            }
            Err(error) => error,
        };
        let waits_again = has(Bug::WaitsAgain) && error.is_conflict() && Instant::now() < until;
        if has(Bug::WaitsOnce) || !(waits_again || tries.again(&error).await) {
            return Err(error.into());
        }
        if has(Bug::NewRequestIdEachTry) {
            request.request_id = Some(request_id());
        }
    }
}

/// A place in a queue, which is left when this value is dropped.
struct Place {
    client: Client,
    lock: String,
    request: Option<AcquireRequest>,
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(request) = self.request.take() {
            tokio::spawn(leave(self.client.clone(), std::mem::take(&mut self.lock), request));
        }
    }
}

/// Ends the wait, and releases the lock if it was granted in the meantime.
async fn leave(client: Client, lock: String, mut request: AcquireRequest) -> Result<(), Error> {
    let owner_id = request.owner_id.clone();
    let request_id = request.request_id.clone().unwrap_or_default();
    let is_cancelled = client.cancel(&CancelRequest { owner_id, request_id }).await?;
    if is_cancelled || has(Bug::KeepsUnwanted) {
        return Ok(());
    }
    request.wait_ms = None;
    let acquired = client.acquire(&lock, &request).await?;
    Proof::Lease(Box::new(acquired)).give_back(&client).await
}
