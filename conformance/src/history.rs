//! The history of events, as the server reports it.

use leasehold_judge::{Exclusion, Mode, Tokens};
use serde_json::Value;

/// An event of the server's history.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Happened {
    /// The id of the event.
    pub id: String,
    /// The kind: `granted`, `released`, `expired`, and so on.
    pub kind: String,
    /// The lock.
    pub lock: String,
    /// The owner of the lease.
    pub owner: String,
    /// The token of the lease, or 0 if it has no token yet.
    pub token: u64,
    /// The time by the server's wall clock, which the harness uses too.
    pub at_ms: u64,
}

/// All events, oldest first.
#[derive(Clone, Default, Debug)]
pub struct History(Vec<Happened>);

impl History {
    /// Reads the server's response, which has the newest event first.
    pub(crate) fn read(answer: &Value) -> Self {
        let text = |event: &Value, name: &str| event[name].as_str().unwrap_or_default().to_owned();
        let read = |event: &Value| Happened {
            id: text(event, "id"),
            kind: text(event, "kind"),
            lock: text(event, "lock_name"),
            owner: text(event, "owner_id"),
            token: event["fencing_token"].as_u64().unwrap_or(0),
            at_ms: event["at_ms"].as_u64().unwrap_or(0),
        };
        Self(answer["events"].as_array().into_iter().flatten().rev().map(read).collect())
    }

    /// Appends a later history.
    pub(crate) fn then(mut self, later: Self) -> Self {
        self.0.extend(later.0);
        self
    }

    /// Keeps only the events of locks with this prefix.
    pub(crate) fn only(mut self, prefix: &str) -> Self {
        self.0.retain(|event| event.lock.starts_with(prefix));
        self
    }

    /// Removes the events of locks with this prefix.
    pub(crate) fn without(mut self, prefix: &str) -> Self {
        self.0.retain(|event| !event.lock.starts_with(prefix));
        self
    }

    /// Returns the events of one kind.
    pub fn of(&self, kind: &str) -> Vec<&Happened> {
        self.0.iter().filter(|event| event.kind == kind).collect()
    }

    /// Returns the events of one kind for one lock.
    pub fn of_lock(&self, kind: &str, lock: &str) -> Vec<&Happened> {
        self.of(kind).into_iter().filter(|event| event.lock == lock).collect()
    }

    /// Returns all events.
    pub fn all(&self) -> &[Happened] {
        &self.0
    }

    /// Returns the tokens granted for an exclusive lock that was still held, or that were not larger than the previous
    /// one.
    pub fn double_grants(&self, lock: &str) -> Vec<u64> {
        let (mut holders, mut tokens) = (Exclusion::default(), Tokens::default());
        let (mut conflicts, mut doubled) = (Vec::new(), Vec::new());
        // The server decides one after the other, so the position in its history is the time.
        for (at, event) in self.0.iter().enumerate().filter(|(_, event)| event.lock == lock) {
            match event.kind.as_str() {
                "granted" => {
                    conflicts.extend(holders.begin(event.token, Mode::Exclusive, at));
                    if !tokens.granted(event.token, tokens.highest()) {
                        doubled.push(event.token);
                    }
                }
                "released" | "expired" | "revoked" => {
                    conflicts.extend(holders.end(event.token, at));
                }
                _ => {}
            }
        }
        conflicts.extend(holders.finish(self.0.len()));
        doubled.extend(conflicts.into_iter().map(|conflict| conflict.id));
        doubled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(told: &[(&str, u64)]) -> History {
        let event = |(kind, token): &(&str, u64)| Happened {
            id: String::new(),
            kind: (*kind).into(),
            lock: "a".into(),
            owner: String::new(),
            token: *token,
            at_ms: 0,
        };
        History(told.iter().map(event).collect())
    }

    #[test]
    fn two_who_have_a_lock_at_once_are_seen() {
        let (got, gave) = ("granted", "released");
        let n = |told: &[(&str, u64)]| history(told).double_grants("a").len();
        assert_eq!(n(&[(got, 1), (gave, 1), (got, 2), ("expired", 2), (got, 5)]), 0);
        assert_eq!(n(&[(got, 1), (got, 2)]), 1, "it was not released");
        assert_eq!(n(&[(got, 2), (gave, 2), (got, 2)]), 1, "the same token twice");
        assert_eq!(n(&[(got, 1), (gave, 7), (got, 2)]), 1, "another lease was released");
    }
}
