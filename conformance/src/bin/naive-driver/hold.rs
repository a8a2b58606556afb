//! Something that is ours for a while: when it ends, who keeps it alive, and who is told that it is lost.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use leasehold::{Client, Error};
use leasehold_conformance::bug::Bug;
use leasehold_conformance::speak::say;
use serde_json::{Value, json};
use tokio::task::AbortHandle;

use crate::proof::Proof;

/// A lease, several, or a session.
pub(crate) struct Hold {
    /// `lease` or `session`, and its name.
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
    /// What ends with it: the leases of a session.
    members: Vec<Weak<Hold>>,
    tasks: Vec<AbortHandle>,
}

/// How long it was given, and counted from when.
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

    /// Keeps it alive from now on, and tells when that fails.
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

    /// A lease of this session: it is lost with it.
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

    /// Its time is that of its session.
    fn is_session_lease(&self) -> bool {
        self.state().tasks.is_empty() && self.about.0 == "lease"
    }

    /// It is lost, unless it was before.
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

    /// Nothing is sent for it from here on.
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

/// Tells that it is lost when its time is over.
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
            // It is slow to learn what its clock could have told it.
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        // The loss may have come in the pause before this try.
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

/// The server knows that it is over.
fn is_final(error: &Error) -> bool {
    let is_over = matches!(
        error,
        Error::NotRenewed(_) | Error::NotRenewedAll(_) | Error::Failed { status: 404, .. }
    );
    is_over && Bug::chosen() != Some(Bug::IgnoresRefusedRenewals)
}
