//! Who the last request of a connection was from. Clients send the same credential with every request; it is looked at
//! again only when something could have changed.

use std::sync::{Arc, Mutex};

use axum::http::{HeaderMap, HeaderValue, header};

use super::Caller;
use super::issuer::Issuer;
use super::policy::is_same;
use crate::sync::lock;

/// Longer ones are not remembered: there are as many of these as connections.
const BYTES_MAX: usize = 4096;

/// Who the last request of one connection was from. Nobody, for one that is new.
///
/// What it holds counts for the same `Authorization` header to the byte, on the same connection, under the same policy,
/// and until it ends. Whoever shows a cookie as well is looked at anew, and so is everybody who comes by a proxy that
/// says who asks.
#[derive(Debug, Default)]
pub struct Remembered(Mutex<Option<Box<Last>>>);

#[derive(Debug)]
struct Last {
    /// The header; `None`: there was none.
    shown: Option<Box<[u8]>>,
    caller: Caller,
    /// Of the policy it was found out by.
    epoch: u64,
    term: Term,
}

/// How long what was found out counts, as long as the policy is the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Term {
    /// When it ends by itself, in epoch milliseconds.
    ends_ms: Option<i64>,
    /// Whose token it is, and how often that issuer's tokens had been forgotten by then.
    issuer: Option<(Arc<Issuer>, u64)>,
}

impl Term {
    /// No longer than until then.
    pub(super) fn end(&mut self, ends_ms: Option<i64>) {
        self.ends_ms = [self.ends_ms, ends_ms].into_iter().flatten().min();
    }

    /// No longer than this issuer's tokens are remembered.
    pub(super) fn bind(&mut self, issuer: &Arc<Issuer>, n_forgotten: u64) {
        self.issuer = Some((issuer.clone(), n_forgotten));
    }

    fn counts(&self, wall_ms: impl FnOnce() -> i64) -> bool {
        let is_over = self.ends_ms.is_some_and(|ends| wall_ms() >= ends);
        let is_forgotten =
            self.issuer.as_ref().is_some_and(|(issuer, n)| issuer.n_forgotten() != *n);
        !is_over && !is_forgotten
    }
}

impl Remembered {
    /// Who this request is from, if that is known without looking.
    pub(crate) fn caller(
        &self,
        headers: &HeaderMap,
        epoch: u64,
        wall_ms: impl FnOnce() -> i64,
    ) -> Option<Caller> {
        let last = lock(&self.0);
        let last = last.as_ref().filter(|last| last.epoch == epoch)?;
        let is_it = match (&last.shown, only(headers)?) {
            (Some(shown), Some(value)) => is_same(shown, value.as_bytes()),
            (shown, value) => shown.is_none() && value.is_none(),
        };
        (is_it && last.term.counts(wall_ms)).then(|| last.caller.clone())
    }

    /// Whoever shows this again is this caller.
    pub(super) fn keep(&self, headers: &HeaderMap, caller: &Caller, epoch: u64, term: Term) {
        let Some(shown) = only(headers) else { return };
        if shown.is_some_and(|shown| shown.len() > BYTES_MAX) {
            return;
        }
        let shown = shown.map(|shown| shown.as_bytes().into());
        *lock(&self.0) = Some(Box::new(Last { shown, caller: caller.clone(), epoch, term }));
    }
}

/// The header, if there is not more than one of it.
fn only(headers: &HeaderMap) -> Option<Option<&HeaderValue>> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (first, second) = (values.next(), values.next());
    second.is_none().then_some(first)
}
