//! Keeps a lease or session alive, tracks its deadline, and reports its loss.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use leasehold::{Client, Error};
use leasehold_conformance::bug::Bug;
use leasehold_conformance::speak::say;
use serde_json::{Value, json};
use tokio::task::AbortHandle;

use crate::proof::Proof;

/// A lease, a group of leases, or a session.
pub(crate) struct Hold {
    /// The kind, `lease` or `session`, and the name.
    about: (&'static str, String),
    pub(crate) token: u64,
    pub(crate) client: Client,
    pub(crate) proof: Proof,
    margin: Duration,
    state: Mutex<State>,
}

struct State {
    end: Instant,
    lost: bool,
    /// The leases of a session, which end with it.
    members: Vec<Weak<Hold>>,
    tasks: Vec<AbortHandle>,
}

/// A remaining time, and when the request for it was sent.
#[derive(Clone, Copy)]
pub(crate) struct Given {
    pub(crate) sent_at: Instant,
    pub(crate) expires_in: Duration,
    pub(crate) ttl: Duration,
}

impl Given {
    fn end(self) -> Instant {
        let (from, time) = match Bug::chosen() {
            Some(Bug::CountsFromAnswer) => (Instant::now(), self.expires_in),
            Some(Bug::CountsTtlFromSend) => (self.sent_at, self.ttl.min(self.expires_in)),
            _ => (self.sent_at, self.expires_in),
        };
        from + time * 99 / 100
    }
}

impl Hold {
    pub(crate) fn new(
        about: (&'static str, String),
        token: u64,
        client: Client,
        proof: Proof,
        (given, margin): (Given, Option<Duration>),
    ) -> Arc<Self> {
        let margin = margin.unwrap_or((given.ttl / 10).min(Duration::from_millis(250)));
        let state = State { end: given.end(), lost: false, members: Vec::new(), tasks: Vec::new() };
        Arc::new(Self { about, token, client, proof, margin, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts to keep it alive, and to report its loss.
    pub(crate) fn keep(self: &Arc<Self>, given: Given) {
        let mut tasks = Vec::new();
        if Bug::chosen() != Some(Bug::NeverRenews) {
            tasks.push(tokio::spawn(renew(self.clone(), given)).abort_handle());
        }
        let hears_no_alarm = [Bug::TrustsSlowRenewals, Bug::ChecksNoClock].map(Some);
        if !hears_no_alarm.contains(&Bug::chosen()) {
            tasks.push(tokio::spawn(alarm(self.clone())).abort_handle());
        }
        self.state().tasks = tasks;
    }

    /// Adds a lease to this session. It is lost with the session.
    pub(crate) fn add(&self, member: &Arc<Hold>) {
        self.state().members.push(Arc::downgrade(member));
    }

    fn deadline(&self) -> Instant {
        self.state().end - self.margin
    }

    pub(crate) fn is_held(&self) -> bool {
        let is_late = Instant::now() >= self.deadline() && !self.is_session_lease();
        !self.state().lost && (!is_late || Bug::chosen() == Some(Bug::ChecksNoClock))
    }

    /// Returns whether this is a lease that lasts as long as its session.
    fn is_session_lease(&self) -> bool {
        self.state().tasks.is_empty() && self.about.0 == "lease"
    }

    /// Reports the loss, unless it was reported before.
    fn lose(&self, reason: &str) {
        let (was_lost, members) = {
            let mut state = self.state();
            (std::mem::replace(&mut state.lost, true), state.members.clone())
        };
        if was_lost {
            return;
        }
        if Bug::chosen() != Some(Bug::NeverTellsLoss) {
            let mut event = json!({"event": "lost", "reason": reason});
            event[self.about.0] = Value::from(&*self.about.1);
            say(&event);
        }
        if Bug::chosen() != Some(Bug::SessionTellsNoLock) {
            members.iter().filter_map(Weak::upgrade).for_each(|member| member.lose(reason));
        }
    }

    /// Stops all requests for it.
    pub(crate) fn let_go(&self) {
        let goes_on = match self.about.0 {
            "lease" => Bug::RenewsAfterRelease,
            _ => Bug::KeepsClosedSession,
        };
        let (tasks, members) = {
            let mut state = self.state();
            state.lost = true;
            if Bug::chosen() == Some(goes_on) {
                state.lost = false;
                return;
            }
            (std::mem::take(&mut state.tasks), state.members.clone())
        };
        tasks.iter().for_each(AbortHandle::abort);
        members.iter().filter_map(Weak::upgrade).for_each(|member| member.let_go());
    }
}

/// Reports the loss when the deadline passes.
async fn alarm(hold: Arc<Hold>) {
    while !hold.state().lost {
        let deadline = hold.deadline();
        tokio::time::sleep_until(deadline.into()).await;
        if Instant::now() >= hold.deadline() {
            hold.lose("out_of_time");
        }
    }
}

async fn renew(hold: Arc<Hold>, mut given: Given) {
    let ttl = given.ttl;
    let patience = match Bug::chosen() {
        Some(Bug::TrustsSlowRenewals | Bug::Resurrects) => ttl * 10,
        _ => ttl / 6,
    };
    let mut next_at = hold.state().end - ttl * 2 / 3;
    loop {
        tokio::time::sleep_until(next_at.into()).await;
        if Bug::chosen() == Some(Bug::ChecksNoClock) {
            // This bug makes the client slow to notice what its clock shows.
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        // The loss might have occurred during the pause before this attempt.
        if hold.state().lost && Bug::chosen() != Some(Bug::Resurrects) {
            return;
        }
        given.sent_at = Instant::now();
        let answer = tokio::time::timeout(patience, hold.proof.renew(&hold.client, ttl)).await;
        let mut answer = answer.unwrap_or_else(|_| Err(Error::Broken("too slow".into())));
        let is_foreign = matches!(answer, Err(Error::Foreign { status: 200, .. }));
        if is_foreign && Bug::chosen() == Some(Bug::TrustsAnything) {
            answer = Ok(ttl);
        }
        if hold.state().lost && Bug::chosen() != Some(Bug::Resurrects) {
            return;
        }
        match answer {
            Ok(expires_in) => {
                given.expires_in = expires_in;
                let mut state = hold.state();
                state.lost = false;
                state.end = state.end.max(given.end());
                next_at = given.sent_at + ttl / 3;
            }
            Err(error) if is_final(&error) => return hold.lose("ended"),
            Err(_) if Bug::chosen() == Some(Bug::BrokenIsLost) => return hold.lose("ended"),
            Err(_) => next_at = Instant::now() + ttl / 20,
        }
    }
}

/// Returns whether the server has reported that the lease or session has ended.
fn is_final(error: &Error) -> bool {
    let is_over = matches!(
        error,
        Error::NotRenewed(_) | Error::NotRenewedAll(_) | Error::Failed { status: 404, .. }
    );
    is_over && Bug::chosen() != Some(Bug::IgnoresRefusedRenewals)
}
