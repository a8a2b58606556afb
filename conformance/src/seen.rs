//! What went through the links, as the proxy saw it.

use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::flaw::{Outcome, demand};

/// A request that reached a link.
#[derive(Clone, Debug)]
pub struct Seen {
    /// When its last byte was here.
    pub at: Instant,
    /// Which link it came by.
    pub link: usize,
    /// As sent.
    pub method: String,
    /// With its query, as sent.
    pub path: String,
    /// `null` if there was none.
    pub body: Value,
    /// It asks a server that does not lead to say so.
    pub is_direct: bool,
    /// Of `Authorization: Bearer ...`.
    pub bearer: Option<String>,
    /// Just before it was passed on to the server; `None` if it never was.
    pub forwarded_at: Option<Instant>,
    /// What the server answered, whether or not that reached the client.
    pub status: Option<u16>,
    /// When the answer was let through to the client.
    pub answered_at: Option<Instant>,
}

impl Seen {
    /// The server did what it asked.
    pub fn is_served(&self) -> bool {
        self.status.is_some_and(|status| (200..300).contains(&status))
    }

    /// Its request id.
    pub fn request_id(&self) -> Option<&str> {
        self.body["request_id"].as_str()
    }
}

/// All requests of one script, in the order in which they came.
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

    /// Those whose path contains `part`, oldest first.
    pub fn of(&self, part: &str) -> Vec<Seen> {
        self.lock().iter().filter(|seen| seen.path.contains(part)).cloned().collect()
    }

    /// Waits until there are `n` of them.
    pub async fn when_seen(&self, part: &str, n: usize, within: Duration) -> Outcome {
        self.wait(part, within, |seen| seen.len() >= n).await
    }

    /// Waits until one of them is so.
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

    /// When the server can have ended what these requests keep alive, at the earliest: `ttl` after the last one that it
    /// served was passed on to it.
    pub fn end(&self, parts: &[&str], ttl: Duration) -> Option<Instant> {
        let log = self.lock();
        let keeps = |seen: &&Seen| parts.iter().any(|part| seen.path.contains(part));
        let served = log.iter().filter(keeps).filter(|seen| seen.is_served());
        served.filter_map(|seen| seen.forwarded_at).max().map(|at| at + ttl)
    }

    /// For people: the last requests with `part` in their paths, with their times after `start`.
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
