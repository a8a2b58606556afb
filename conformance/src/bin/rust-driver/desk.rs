//! Carries out commands, one at a time or concurrently, and keeps the objects that they name.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use leasehold::{Client, Events, LockRequest, Session, Watched};
use leasehold_conformance::speak::{Answer, Refusal, say, text, time, write};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::lease::{Guard, Lease, tell};

/// The objects that the harness has named.
#[derive(Default)]
pub(crate) struct Desk {
    clients: Mutex<HashMap<String, Client>>,
    leases: Mutex<HashMap<String, Lease>>,
    sessions: Mutex<HashMap<String, Option<Session>>>,
    /// Pending acquires, by the id of their command.
    waiting: Mutex<HashMap<u64, oneshot::Sender<()>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Desk {
    pub(crate) async fn obey(&self, command: &Value) -> Answer {
        match text(command, "do")? {
            "hello" => {
                Ok(json!({"sdk": "rust", "version": env!("CARGO_PKG_VERSION"), "protocol": 1}))
            }
            "connect" => self.connect(command),
            "acquire" => self.acquire(command).await,
            "acquire_all" => self.acquire_all(command).await,
            "check" => self.check(command),
            "release" => self.release(command).await,
            "cancel" => self.cancel(command),
            "session_open" => self.session_open(command).await,
            "session_close" => self.session_close(command).await,
            "write" => self.write(command).await,
            "watch" => self.watch(command).await,
            "campaign" => self.campaign(command).await,
            "leader" => self.leader(command).await,
            other => Err(Refusal::new("unsupported", format!("no command {other:?}"))),
        }
    }

    fn connect(&self, command: &Value) -> Answer {
        let mut urls = command["urls"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let mut builder = Client::builder(urls.next().unwrap_or_default());
        for url in urls {
            builder = builder.also(url);
        }
        if let Some(owner) = command["owner"].as_str() {
            builder = builder.owner(owner);
        }
        if let Some(namespace) = command["namespace"].as_str() {
            builder = builder.namespace(namespace);
        }
        if let Some(api_key) = command["api_key"].as_str() {
            builder = builder.api_key(api_key);
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

    /// Builds the request, if the SDK supports all fields of the command.
    fn request(&self, command: &Value) -> Result<LockRequest, Refusal> {
        let name = text(command, "lock")?;
        let mut request = match command["session"].as_str() {
            Some(session) => match lock(&self.sessions).get(session) {
                Some(Some(session)) => session.lock(name),
                Some(None) => return Err(Refusal::new("session_over", "it was closed")),
                None => return Err(Refusal::internal(format!("no session {session}"))),
            },
            None => self.client(command)?.lock(name),
        };
        if let Some(ttl) = time(command, "ttl_ms") {
            request = request.ttl(ttl);
        }
        if let Some(wait) = time(command, "wait_ms") {
            request = request.wait(wait);
        }
        if let Some(margin) = time(command, "margin_ms") {
            request = request.margin(margin);
        }
        if let Some(grace) = time(command, "grace_ms") {
            request = request.grace(grace);
        }
        if command["shared"] == true {
            request = request.shared();
        }
        if let Some(limit) = command["limit"].as_u64() {
            request = request.limit(u32::try_from(limit).unwrap_or(u32::MAX));
        }
        if !command["metadata"].is_null() {
            request = request.metadata(command["metadata"].clone());
        }
        Ok(request)
    }

    async fn acquire(&self, command: &Value) -> Answer {
        let request = self.request(command)?;
        let (cancel, cancelled) = oneshot::channel();
        let id = command["id"].as_u64().unwrap_or(0);
        lock(&self.waiting).insert(id, cancel);
        let answer = tokio::select! {
            answer = request.acquire() => answer.map_err(Refusal::from),
            Ok(()) = cancelled => Err(Refusal::new("cancelled", "it was cancelled")),
        };
        lock(&self.waiting).remove(&id);
        self.keep(command, Guard::One(answer?))
    }

    async fn acquire_all(&self, command: &Value) -> Answer {
        let mut request = self.client(command)?.locks();
        for wanted in command["locks"].as_array().into_iter().flatten() {
            let name = text(wanted, "lock")?;
            request = match (wanted["shared"] == true, wanted["limit"].as_u64()) {
                (_, Some(limit)) => request.counted(name, u32::try_from(limit).unwrap_or(u32::MAX)),
                (true, None) => request.shared(name),
                (false, None) => request.lock(name),
            };
        }
        if let Some(ttl) = time(command, "ttl_ms") {
            request = request.ttl(ttl);
        }
        if let Some(wait) = time(command, "wait_ms") {
            request = request.wait(wait);
        }
        if let Some(margin) = time(command, "margin_ms") {
            request = request.margin(margin);
        }
        self.keep(command, Guard::Several(request.acquire().await?))
    }

    async fn campaign(&self, command: &Value) -> Answer {
        let mut election = self.client(command)?.election(text(command, "election")?);
        if let Some(ttl) = time(command, "ttl_ms") {
            election = election.ttl(ttl);
        }
        let leadership = election.campaign(command["value"].clone()).await?;
        self.keep(command, Guard::Leader(leadership))
    }

    fn keep(&self, command: &Value, guard: Guard) -> Answer {
        let (name, tokens) = (text(command, "lease")?, guard.tokens());
        guard.watch(name);
        let answer = match guard {
            Guard::Several(_) => json!({"fencing_tokens": tokens}),
            _ => json!({"fencing_token": tokens[0]}),
        };
        lock(&self.leases).insert(name.into(), Lease { guard: Some(guard), token: tokens[0] });
        Ok(answer)
    }

    /// Runs `ask` on the lease that the command names.
    fn with<T>(
        &self,
        command: &Value,
        ask: impl FnOnce(&mut Lease) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let name = text(command, "lease")?;
        let mut leases = lock(&self.leases);
        let lease = leases.get_mut(name);
        ask(lease.ok_or_else(|| Refusal::internal(format!("no lease {name}")))?)
    }

    fn check(&self, command: &Value) -> Answer {
        let is_held =
            |lease: &mut Lease| Ok(lease.guard.as_ref().is_some_and(|guard| guard.check().is_ok()));
        Ok(json!({"held": self.with(command, is_held)?}))
    }

    async fn release(&self, command: &Value) -> Answer {
        let gone = || Refusal::new("not_released", "it was released before");
        let guard = self.with(command, |lease| lease.guard.take().ok_or_else(gone))?;
        guard.release().await?;
        Ok(json!({}))
    }

    fn cancel(&self, command: &Value) -> Answer {
        let id = command["command"].as_u64().unwrap_or(0);
        let waiting = lock(&self.waiting).remove(&id);
        let cancel = waiting.ok_or_else(|| Refusal::internal(format!("{id} does not wait")))?;
        let _ = cancel.send(());
        Ok(json!({}))
    }

    async fn session_open(&self, command: &Value) -> Answer {
        let name = text(command, "session")?;
        let mut request = self.client(command)?.session();
        if let Some(ttl) = time(command, "ttl_ms") {
            request = request.ttl(ttl);
        }
        if let Some(margin) = time(command, "margin_ms") {
            request = request.margin(margin);
        }
        let session = request.open().await?;
        tell("session", name, session.lost());
        lock(&self.sessions).insert(name.into(), Some(session));
        Ok(json!({}))
    }

    async fn session_close(&self, command: &Value) -> Answer {
        let name = text(command, "session")?;
        let session = lock(&self.sessions).get_mut(name).and_then(Option::take);
        session.ok_or_else(|| Refusal::new("session_over", "it was closed"))?.close().await?;
        Ok(json!({}))
    }

    async fn write(&self, command: &Value) -> Answer {
        let token = self.with(command, |lease| {
            let is_held = lease.guard.as_ref().is_some_and(|guard| guard.check().is_ok());
            if command["checked"] == true && !is_held {
                return Err(Refusal::new("lost", "it is lost, so nothing was written"));
            }
            Ok(lease.token)
        })?;
        write(command, token).await
    }

    async fn watch(&self, command: &Value) -> Answer {
        let mut events = self.client(command)?.watch(text(command, "prefix")?);
        events.connect().await?;
        tokio::spawn(tell_events(text(command, "watch")?.to_owned(), events));
        Ok(json!({}))
    }

    async fn leader(&self, command: &Value) -> Answer {
        let leader = self.client(command)?.election(text(command, "election")?).leader().await?;
        let shown = leader
            .map(|it| json!({"owner": it.owner, "value": it.value, "fencing_token": it.token}));
        Ok(json!({"leader": shown}))
    }
}

async fn tell_events(watch: String, mut events: Events) {
    loop {
        match events.next().await {
            Ok(Watched::Event { id, event }) => say(&json!({
                "event": "happened", "watch": watch, "kind": event.kind, "lock": event.lock_name,
                "owner": event.owner_id, "fencing_token": event.fencing_token, "id": id,
            })),
            Ok(Watched::Gap(gap)) => {
                say(&json!({"event": "gap", "watch": watch, "why": gap.reason}));
            }
            Ok(Watched::Stale { .. } | Watched::Current { .. }) => {}
            // The next call tries again. An application has to decide for how long it does that.
            Err(error) if error.is_retryable() => {}
            Err(_) => return,
        }
    }
}
