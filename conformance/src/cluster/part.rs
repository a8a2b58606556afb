//! One driver's part in a cluster: it holds locks, waits and takes turns through leader changes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;

use super::Cluster;
use super::turns::Turns;
use crate::driver::Asked;
use crate::flaw::{Flaw, Outcome, demand};
use crate::script::{SOON, WAIT_MS, event};
use crate::seen::Seen;
use crate::server::Held;
use crate::subject::{Subject, granted, lease_of};

/// The TTL of all leases: they are renewed every 2.7 s, and a third of it is left if a leader change takes 3 s.
pub(super) const TTL_MS: u64 = 8_000;
const TTL: Duration = Duration::from_millis(TTL_MS);
/// How soon two turns must be over.
const TURNS_WITHIN: Duration = Duration::from_secs(60);

/// The clients that take turns. The first starts at the leader, the second at a follower.
pub(super) const CLIENTS_OF_TURNS: [&str; 2] = ["carol", "dave"];

/// Returns the prefix of the lock names of a driver.
pub(super) fn prefix(n: usize) -> String {
    format!("d{n}-")
}

/// A step that all drivers take at the same time.
#[derive(Clone, Copy)]
pub(super) enum Step {
    /// Checks that alice's leases were renewed since this time, by another server than this one.
    IsRenewed { since: Instant, but: usize },
    /// Checks that everything continues, and that a new client that starts at a follower goes to the leader.
    GoesOn { leader: usize, follower: usize, newcomer: &'static str },
    /// Makes bob wait again.
    Wait { leader: usize },
}

/// One driver's part in the cluster. Each driver has separate locks.
pub(super) struct Part {
    cluster: Arc<Cluster>,
    subject: Arc<Subject>,
    /// The prefix of its lock names.
    prefix: String,
    /// The locks that alice holds, and their tokens.
    held: [(String, u64); 2],
    /// The end of the path of its session.
    session: String,
    turns: Turns,
    waits: Option<Wait>,
}

/// Bob's wait for a lock that the harness holds.
struct Wait {
    lock: String,
    held: Held,
    bob: Asked,
}

impl Part {
    /// Acquires all locks, and makes bob wait.
    pub(super) async fn begin(
        cluster: Arc<Cluster>,
        subject: Arc<Subject>,
        n: usize,
        leader: usize,
    ) -> Outcome<Self> {
        let prefix = prefix(n);
        let follower = leader + 1;
        for (client, first) in
            [("alice", leader), ("bob", follower), ("carol", leader), ("dave", follower)]
        {
            let urls = json!({"urls": cluster.urls_from(first)});
            subject.connect_with(client, urls).await?;
        }
        let (held, kept) = (format!("{prefix}held"), format!("{prefix}kept"));
        let watch = json!({"do": "watch", "client": "alice", "watch": "w", "prefix": prefix});
        subject.driver.ask(watch).await?;
        let token = subject.acquire("alice", &held, json!({"ttl_ms": TTL_MS})).await?;
        let open =
            json!({"do": "session_open", "client": "alice", "session": "s", "ttl_ms": TTL_MS});
        subject.driver.ask(open).await?;
        let in_session = subject.acquire("alice", &kept, json!({"session": "s"})).await?;
        let asked = cluster.log.of(&format!("/{kept}/acquire"));
        let session_id = asked.first().and_then(|seen| seen.body["session_id"].as_str());
        let Some(session_id) = session_id else {
            return Err(Flaw::Wrong(format!("acquired without a session: {asked:?}")));
        };
        let session = format!("/{session_id}/keepalive");
        let turns = Turns::take(&subject, &format!("{prefix}turns")).await?;
        let held = [(held, token), (kept, in_session)];
        let mut part = Self { cluster, subject, prefix, held, session, turns, waits: None };
        part.wait(leader, "first").await?;
        part.writes("before").await?;
        part.turns.go_on(2, TURNS_WITHIN).await?;
        part.goes_to_the_leader(leader)?;
        Ok(part)
    }

    pub(super) async fn live(&mut self, step: Step) -> Outcome {
        match step {
            Step::IsRenewed { since, but } => self.is_renewed(since, but).await,
            Step::GoesOn { leader, follower, newcomer } => {
                self.goes_on(leader, newcomer).await?;
                self.newcomer(leader, follower, newcomer).await
            }
            Step::Wait { leader } => self.wait(leader, "second").await,
        }
    }

    /// Makes bob wait at this server for a lock of this name.
    async fn wait(&mut self, leader: usize, name: &str) -> Outcome {
        let (lock, server) = (format!("{}{name}", self.prefix), &self.cluster.servers[leader]);
        let held = server.acquire(&lock, "holder", json!({})).await?;
        let fields = json!({"ttl_ms": TTL_MS, "wait_ms": WAIT_MS});
        let bob = self.subject.begin_acquire("bob", &lock, fields);
        server.wait_for_queue(&lock, &["bob"], SOON).await?;
        self.waits = Some(Wait { lock, held, bob });
        Ok(())
    }

    async fn is_renewed(&self, since: Instant, but: usize) -> Outcome {
        let is_new = |seen: &Seen| {
            seen.link != but && seen.is_served() && seen.forwarded_at.is_some_and(|at| at > since)
        };
        let renew = format!("/{}held/renew", self.prefix);
        for kept_by in [&renew, &self.session] {
            self.cluster.log.when(kept_by, TTL, is_new).await?;
        }
        self.are_held().await
    }

    async fn are_held(&self) -> Outcome {
        let leases = self.held.each_ref().map(|(lock, _)| lease_of("alice", lock));
        self.subject.are_held(&leases.each_ref().map(String::as_str)).await
    }

    /// Checks that everything continues with this leader: the holders, the waiter, and the clients that take turns.
    async fn goes_on(&mut self, leader: usize, word: &str) -> Outcome {
        let server = &self.cluster.servers[leader];
        let Some(Wait { lock, held, bob }) = self.waits.take() else { return Ok(()) };
        server.wait_for_queue(&lock, &["bob"], SOON).await?;
        server.release(&held).await?;
        let token = granted(bob).await?;
        demand!(token == held.token() + 1, "bob was next, and got token {token}");
        let mut asked = self.cluster.log.of(&format!("/{lock}/acquire"));
        asked.retain(|seen| seen.body["owner_id"] == "bob");
        let ids: BTreeSet<_> = asked.iter().map(Seen::request_id).collect();
        demand!(
            ids.len() == 1 && !ids.contains(&None),
            "one request_id for all tries, not {ids:?}"
        );
        self.turns.go_on(2, TURNS_WITHIN).await?;
        self.writes(word).await?;
        self.are_held().await?;
        for (lock, token) in &self.held {
            let state = server.look(lock).await?;
            let is_same = state["fencing_token"] == *token && state["owner_id"] == "alice";
            demand!(is_same, "{lock} is not alice's with token {token} any more: {state}");
        }
        Ok(())
    }

    /// Checks that a new client is referred to the leader, and goes there.
    async fn newcomer(&self, leader: usize, follower: usize, name: &str) -> Outcome {
        let urls = json!({"urls": self.cluster.urls_from(follower)});
        self.subject.connect_with(name, urls).await?;
        let lock = format!("{}new-{name}", self.prefix);
        self.subject.acquire(name, &lock, json!({"ttl_ms": TTL_MS})).await?;
        self.subject.release(name, &lock).await?;
        self.is_of_the_leader(&format!("/{lock}/"), leader, true)
    }

    /// Writes with the token of alice's lock, which no other client can have held.
    async fn writes(&self, word: &str) -> Outcome {
        let lease = lease_of("alice", &self.held[0].0);
        match self.subject.write(&lease, word, true).answer().await? {
            Ok(answer) if answer["status"] == 200 => Ok(()),
            answer => Err(Flaw::Wrong(format!("a write by who holds the lock: {answer:?}"))),
        }
    }

    /// Checks that a client that a follower referred to the leader stays there.
    fn goes_to_the_leader(&self, leader: usize) -> Outcome {
        self.is_of_the_leader(&format!("/{}held/", self.prefix), leader, false)?;
        self.is_of_the_leader(&format!("/{}first/", self.prefix), leader, true)
    }

    fn is_of_the_leader(&self, part: &str, leader: usize, is_sent: bool) -> Outcome {
        let seen = self.cluster.log.of(part);
        let n_sent = seen.iter().filter(|seen| seen.status == Some(421)).count();
        demand!((n_sent > 0) == is_sent, "{n_sent} requests to {part} were told who leads");
        let elsewhere: Vec<_> = seen
            .iter()
            .filter(|seen| seen.link != leader && seen.status != Some(421))
            .map(|seen| format!("{} {}", seen.method, seen.path))
            .collect();
        demand!(elsewhere.is_empty(), "passed on by who does not lead: {elsewhere:?}");
        Ok(())
    }

    /// Ends all activity, and judges the history.
    pub(super) async fn end(self, leader: usize) -> Outcome {
        let (n_turns, n_spent) = self.turns.end().await?;
        let history = self.cluster.servers[leader].history().await?.only(&self.prefix);
        let locks: BTreeSet<_> = history.all().iter().map(|event| &event.lock).collect();
        for lock in locks {
            let doubled = history.double_grants(lock);
            demand!(doubled.is_empty(), "{lock} was granted twice at a time: {doubled:?}");
        }
        // A leader can be suspended for longer than the TTL after it grants a turn and before it responds. That can
        // happen once for each client, because it then takes its next turn at another server.
        let turns = format!("{}turns", self.prefix);
        let (expired, unheard) = (history.of("expired"), history.of_lock("expired", &turns).len());
        let is_so = unheard == expired.len() && n_spent <= unheard;
        demand!(is_so && unheard <= CLIENTS_OF_TURNS.len(), "a lease expired: {expired:?}");
        let n_granted = history.of_lock("granted", &turns).len();
        demand!(n_granted == n_turns + unheard, "{n_granted} grants for {n_turns} turns");
        event::told(&self.subject, history.all().len()).await?;
        event::are_those(&self.subject.driver, &history)?;
        let refused: Vec<_> =
            self.subject.resource.writes().into_iter().filter(|write| !write.is_accepted).collect();
        demand!(refused.is_empty(), "a write by who holds the lock was refused: {refused:?}");
        let noise = self.subject.driver.noise();
        demand!(noise.is_empty(), "on stdout, and no answer to any command: {noise:?}");
        Ok(())
    }
}
