//! The requests that went through the links, as the proxy saw them.

use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::flaw::{Outcome, demand};

/// A request that arrived at a link.
#[derive(Clone, Debug)]
pub struct Seen {
    /// When its last byte arrived.
    pub at: Instant,
    /// The index of the link.
    pub link: usize,
    /// The method.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// The body, or `null` if there was none.
    pub body: Value,
    /// Whether the client wants to be referred to the leader instead of having a follower forward the request.
    pub is_direct: bool,
    /// The token in `Authorization: Bearer ...`.
    pub bearer: Option<String>,
    /// When it was about to be forwarded to the server, or `None` if it never was.
    pub forwarded_at: Option<Instant>,
    /// The status of the server's response, even if that did not reach the client.
    pub status: Option<u16>,
    /// When the response was passed to the client.
    pub answered_at: Option<Instant>,
}

impl Seen {
    /// Returns whether the server did what was requested.
    pub fn is_served(&self) -> bool {
        self.status.is_some_and(|status| (200..300).contains(&status))
    }

    /// Returns the request id.
    pub fn request_id(&self) -> Option<&str> {
        self.body["request_id"].as_str()
    }
}

/// All requests of one script, in order of arrival.
#[derive(Clone, Default)]
pub struct Log {
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Log {
    fn lock(&self) -> MutexGuard<'_, Vec<Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn note(&self, seen: Seen) -> usize {
        let mut log = self.lock();
        log.push(seen);
        log.len() - 1
    }

    pub(crate) fn change(&self, n: usize, change: impl FnOnce(&mut Seen)) {
        if let Some(seen) = self.lock().get_mut(n) {
            change(seen);
        }
    }

    /// Returns the requests whose path contains `part`, oldest first.
    pub fn of(&self, part: &str) -> Vec<Seen> {
        self.lock().iter().filter(|seen| seen.path.contains(part)).cloned().collect()
    }

    /// Waits until there are `n` such requests.
    pub async fn when_seen(&self, part: &str, n: usize, within: Duration) -> Outcome {
        self.wait(part, within, |seen| seen.len() >= n).await
    }

    /// Waits until the condition holds for one of these requests.
    pub async fn when(
        &self,
        part: &str,
        within: Duration,
        is_so: impl Fn(&Seen) -> bool,
    ) -> Outcome {
        self.wait(part, within, |seen| seen.iter().any(&is_so)).await
    }

    async fn wait(
        &self,
        part: &str,
        within: Duration,
        are_so: impl Fn(&[Seen]) -> bool,
    ) -> Outcome {
        let give_up_at = Instant::now() + within;
        while !are_so(&self.of(part)) {
            let n = self.of(part).len();
            demand!(
                Instant::now() < give_up_at,
                "within {within:?}, of requests to {part} only {n} came, and none as it should be"
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// Returns the earliest time at which the server can have ended the leases that these requests keep alive: `ttl`
    /// after it last received such a request that it served.
    pub fn end(&self, parts: &[&str], ttl: Duration) -> Option<Instant> {
        let log = self.lock();
        let keeps = |seen: &&Seen| parts.iter().any(|part| seen.path.contains(part));
        let served = log.iter().filter(keeps).filter(|seen| seen.is_served());
        served.filter_map(|seen| seen.forwarded_at).max().map(|at| at + ttl)
    }

    /// Formats the last requests with `part` in their paths for people, with their times after `start`.
    pub fn show(&self, start: Instant, part: &str) -> String {
        let log = self.of(part);
        let mut shown = String::new();
        for seen in log.iter().skip(log.len().saturating_sub(40)) {
            let at = |at: Option<Instant>| {
                at.map_or("never".into(), |at| format!("{}", at.duration_since(start).as_millis()))
            };
            let Seen { link, method, path, .. } = seen;
            let status = seen.status.map_or("-".into(), |status| status.to_string());
            let (came, went, id) = (at(Some(seen.at)), at(seen.answered_at), seen.request_id());
            let id = id.map_or(String::new(), |id| format!(" request_id {id}"));
            let _ = writeln!(
                shown,
                "{came:>6} ms  link {link}  {method} {path}{id}: {status}, answered at {went}"
            );
        }
        shown
    }
}
