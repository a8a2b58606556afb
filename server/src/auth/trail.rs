//! What is known of a request beside who makes it, for the audit file and the log.

use std::sync::{Arc, Mutex};

use leasehold_core::{Call, LockKey};

use super::Right;
use super::policy::Rule;
use crate::sync::lock;

/// Goes with a caller whose acts are written down.
#[derive(Debug)]
pub(crate) struct Trail {
    /// From where.
    peer: Arc<str>,
    /// What the client calls the request.
    request_id: Option<Box<str>>,
    /// Is what it does written to an audit file?
    is_audited: bool,
    /// What the log calls it; `None`: changes are not logged.
    logged: Option<Logged>,
    seen: Mutex<Seen>,
}

/// What a request is called in the log.
#[derive(Debug, Default)]
pub(crate) struct Logged {
    /// The protocol, where paths have no pattern.
    pub(crate) route: &'static str,
    pub(crate) request_id: Option<Arc<str>>,
    pub(crate) trace_id: Option<Arc<str>>,
}

/// Do changes have lines in the log, so that it must be known who asks for them?
pub(crate) fn are_changes_logged() -> bool {
    tracing::enabled!(target: "change", tracing::Level::INFO)
}

#[derive(Debug, Default)]
struct Seen {
    rule: Option<Arc<str>>,
    route: Option<Arc<str>>,
    denied: Option<(Right, LockKey)>,
}

impl Trail {
    pub(crate) fn new(
        peer: Arc<str>,
        request_id: Option<Box<str>>,
        is_audited: bool,
        logged: Option<Logged>,
    ) -> Self {
        Self { peer, request_id, is_audited, logged, seen: Mutex::default() }
    }

    /// Which pattern the path has.
    pub(crate) fn take_route(&self, pattern: &str) {
        if self.logged.is_some() {
            lock(&self.seen).route = Some(pattern.into());
        }
    }

    pub(super) fn is_audited(&self) -> bool {
        self.is_audited
    }

    /// The request as the log tells of it, if it does.
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

    /// By which rule something was allowed, or what was not.
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

    pub(crate) fn request_id(&self) -> Option<&str> {
        self.request_id.as_deref()
    }

    /// The rule that allowed the last thing that was asked for.
    pub(super) fn rule(&self) -> Arc<str> {
        lock(&self.seen).rule.clone().unwrap_or_default()
    }

    /// What was not allowed.
    pub(crate) fn denied(&self) -> Option<(Right, LockKey)> {
        lock(&self.seen).denied.clone()
    }
}
