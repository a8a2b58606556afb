//! What the server says happened.

use serde_json::Value;

/// An event of the server's history.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Happened {
    /// Its id.
    pub id: String,
    /// `granted`, `released`, `expired`, ...
    pub kind: String,
    /// The lock.
    pub lock: String,
    /// The owner of the lease.
    pub owner: String,
    /// The token of the lease; 0 for one that has none yet.
    pub token: u64,
    /// By the server's wall clock, which is also the harness's.
    pub at_ms: u64,
}

/// All that happened, oldest first.
#[derive(Clone, Default, Debug)]
pub struct History(Vec<Happened>);

impl History {
    /// From the server's answer, which has the newest first.
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

    /// This, and what came after it.
    pub(crate) fn then(mut self, later: Self) -> Self {
        self.0.extend(later.0);
        self
    }

    /// Only what happened to locks with such names.
    pub(crate) fn only(mut self, prefix: &str) -> Self {
        self.0.retain(|event| event.lock.starts_with(prefix));
        self
    }

    /// Without what happened to locks with such names.
    pub(crate) fn without(mut self, prefix: &str) -> Self {
        self.0.retain(|event| !event.lock.starts_with(prefix));
        self
    }

    /// Those of one kind.
    pub fn of(&self, kind: &str) -> Vec<&Happened> {
        self.0.iter().filter(|event| event.kind == kind).collect()
    }

    /// Those of one kind that happened to one lock.
    pub fn of_lock(&self, kind: &str, lock: &str) -> Vec<&Happened> {
        self.of(kind).into_iter().filter(|event| event.lock == lock).collect()
    }

    /// All of them.
    pub fn all(&self) -> &[Happened] {
        &self.0
    }

    /// Where somebody had an exclusive lock that another one still had, or with a token that is not larger.
    pub fn double_grants(&self, lock: &str) -> Vec<&Happened> {
        let (mut holder, mut last) = (None, 0);
        let mut doubled = Vec::new();
        for event in self.0.iter().filter(|event| event.lock == lock) {
            match event.kind.as_str() {
                "granted" => {
                    if holder.is_some() || event.token <= last {
                        doubled.push(event);
                    }
                    (holder, last) = (Some(event.token), event.token);
                }
                "released" | "expired" | "revoked" if holder == Some(event.token) => holder = None,
                _ => {}
            }
        }
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
        assert_eq!(n(&[(got, 1), (got, 2)]), 1, "nobody gave it back");
        assert_eq!(n(&[(got, 2), (gave, 2), (got, 2)]), 1, "the same token twice");
        assert_eq!(n(&[(got, 1), (gave, 7), (got, 2)]), 1, "another lease was given back");
    }
}
