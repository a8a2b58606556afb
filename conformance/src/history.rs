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
#[derive(Clone, Debug)]
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
}
