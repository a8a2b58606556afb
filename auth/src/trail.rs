//! Facts about a request for the audit file and the change log, in addition to its principal.

use std::sync::{Arc, Mutex};

use leasehold_base::sync::lock;
use leasehold_core::{Call, LockKey};

use super::Right;
use super::policy::Rule;

/// Collects facts about a request while it is handled. Attached to callers whose requests are audited or logged.
#[derive(Debug)]
pub struct Trail {
    /// The client's address.
    peer: Arc<str>,
    /// The request id that the client sent.
    request_id: Option<Box<str>>,
    /// Whether an audit file records the request.
    is_audited: bool,
    /// How the change log identifies the request; `None` if changes are not logged.
    logged: Option<Logged>,
    seen: Mutex<RequestFacts>,
}

/// How the change log identifies a request.
#[derive(Debug, Default)]
pub struct Logged {
    /// The name of the protocol, for protocols without path patterns.
    pub route: &'static str,
    /// The request id that the client sent.
    pub request_id: Option<Arc<str>>,
    /// The id of the trace, if the request belongs to one.
    pub trace_id: Option<Arc<str>>,
}

/// Returns whether changes are logged, so that the caller of each change must be recorded.
pub fn are_changes_logged() -> bool {
    tracing::enabled!(target: "change", tracing::Level::INFO)
}

#[derive(Debug, Default)]
struct RequestFacts {
    rule: Option<Arc<str>>,
    route: Option<Arc<str>>,
    denied: Option<(Right, LockKey)>,
}

impl Trail {
    /// Returns a trail without facts.
    pub fn new(
        peer: Arc<str>,
        request_id: Option<Box<str>>,
        is_audited: bool,
        logged: Option<Logged>,
    ) -> Self {
        Self { peer, request_id, is_audited, logged, seen: Mutex::default() }
    }

    /// Records the route pattern that matched the request's path.
    pub fn take_route(&self, pattern: &str) {
        if self.logged.is_some() {
            lock(&self.seen).route = Some(pattern.into());
        }
    }

    pub(super) fn is_audited(&self) -> bool {
        self.is_audited
    }

    /// Returns the request as the change log records it, or `None` if changes are not logged.
    pub(super) fn call(&self, principal: &Arc<str>) -> Option<Call> {
        let Logged { route, request_id, trace_id } = self.logged.as_ref()?;
        Some(Call {
            principal: principal.clone(),
            peer: self.peer.clone(),
            route: lock(&self.seen).route.clone().unwrap_or_else(|| (*route).into()),
            request_id: request_id.clone(),
            trace_id: trace_id.clone(),
        })
    }

    /// Records the rule that granted a right, or the right and lock that were denied.
    pub(super) fn note(&self, rule: Option<&Rule>, right: Right, on: Option<&LockKey>) {
        let mut seen = lock(&self.seen);
        match (rule, on) {
            (Some(rule), _) => seen.rule = Some(rule.name.clone()),
            (None, Some(on)) => seen.denied = Some((right, on.clone())),
            (None, None) => {}
        }
    }

    pub(super) fn peer(&self) -> &Arc<str> {
        &self.peer
    }

    /// Returns the request id that the client sent.
    pub fn request_id(&self) -> Option<&str> {
        self.request_id.as_deref()
    }

    /// Returns the rule that granted the last check.
    pub(super) fn rule(&self) -> Arc<str> {
        lock(&self.seen).rule.clone().unwrap_or_default()
    }

    /// Returns the right that was denied, and the lock.
    pub fn denied(&self) -> Option<(Right, LockKey)> {
        lock(&self.seen).denied.clone()
    }
}
