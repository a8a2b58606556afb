//! What is known of a request beside who makes it, for the audit file.

use std::sync::{Arc, Mutex};

use leasehold_core::LockKey;

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
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    rule: Option<Arc<str>>,
    denied: Option<(Right, LockKey)>,
}

impl Trail {
    pub(crate) fn new(peer: Arc<str>, request_id: Option<Box<str>>) -> Self {
        Self { peer, request_id, seen: Mutex::default() }
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
