//! Caches the caller of a connection.
//!
//! Clients send the same credential with every request. It is checked again only when the result could have changed.

use std::sync::{Arc, Mutex};

use http::{HeaderMap, HeaderValue, header};
use leasehold_base::sync::lock;

use super::Caller;
use super::issuer::Issuer;
use super::policy::is_same;

/// Maximum length of a cached header. There can be one per connection.
const BYTES_MAX: usize = 4096;

/// The caller of the last request on a connection; empty for a new connection.
///
/// The entry applies to requests with a byte-identical `Authorization` header on the same connection, under the same
/// policy, until the credential expires. Requests with a cookie, and requests from a proxy that names users, are never
/// served from the cache.
#[derive(Debug, Default)]
pub struct Remembered(Mutex<Option<Box<Last>>>);

#[derive(Debug)]
struct Last {
    /// The `Authorization` header; `None` if the request had none.
    shown: Option<Box<[u8]>>,
    caller: Caller,
    /// The epoch of the policy that identified the caller.
    epoch: u64,
    term: Term,
}

/// How long a cached caller stays valid under an unchanged policy.
#[derive(Clone, Debug, Default)]
pub(super) struct Term {
    /// When it expires, in epoch milliseconds.
    ends_ms: Option<i64>,
    /// The token's issuer, and how often that issuer's token cache had been cleared by then.
    issuer: Option<(Arc<Issuer>, u64)>,
}

impl Term {
    /// Ends the term at `ends_ms` at the latest.
    pub(super) fn end(&mut self, ends_ms: Option<i64>) {
        self.ends_ms = [self.ends_ms, ends_ms].into_iter().flatten().min();
    }

    /// Ends the term when this issuer's token cache is cleared.
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
    /// Returns the cached caller, if the cache applies to this request.
    pub fn caller(
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

    /// Caches the caller for later requests with the same header.
    pub(super) fn keep(&self, headers: &HeaderMap, caller: &Caller, epoch: u64, term: Term) {
        let Some(shown) = only(headers) else { return };
        if shown.is_some_and(|shown| shown.len() > BYTES_MAX) {
            return;
        }
        let shown = shown.map(|shown| shown.as_bytes().into());
        *lock(&self.0) = Some(Box::new(Last { shown, caller: caller.clone(), epoch, term }));
    }
}

/// Returns the `Authorization` header, or `None` if there is more than one.
fn only(headers: &HeaderMap) -> Option<Option<&HeaderValue>> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (first, second) = (values.next(), values.next());
    second.is_none().then_some(first)
}
