//! The conditions under which a leader may write, and what a refused write found.

use super::backend::{HeadEntry, LeaderEntry};
use super::value::LeaderValue;
use crate::Place;

/// Our leadership: the number of the leader's entry and its value, which contains a nonce. Numbers can repeat after the
/// system that keeps the store was restored from a snapshot; a nonce does not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tenure {
    /// The version of the store in which the entry was created.
    pub number: i64,
    /// The value of the entry.
    pub value: Vec<u8>,
}

impl Tenure {
    /// Returns whether this entry is the one we created.
    pub fn is(&self, leader: &LeaderEntry) -> bool {
        leader.number == self.number && leader.value == self.value
    }
}

/// The state of the store in which our writes take effect: this leadership lasts, the head of the journal was last put
/// in this version, and no server has noticed that the store was rolled back.
#[derive(Clone, Debug)]
pub struct Guard {
    /// Our leadership.
    pub tenure: Tenure,
    /// The version in which the head was last put.
    pub head_at: i64,
}

/// The outcome of a guarded write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The conditions hold. If the write put the head, it did so in this version.
    Held(i64),
    /// An earlier attempt has put the head, in this version.
    DoneBefore(i64),
    /// Another server leads, or none does.
    Lost(String),
    /// We lead, but the journal is not as we left it.
    Astray(String),
}

/// The state of the store that a refused write found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The leader.
    pub leader: Option<LeaderEntry>,
    /// The head, if it can be read.
    pub head: Option<HeadEntry>,
    /// Whether a server has noticed that the store was rolled back.
    pub is_rewound: bool,
}

impl Guard {
    /// Determines why a write was refused. `put` is the place that it was to put as the head, if any.
    pub fn judge(&self, refusal: &Refusal, put: Option<Place>) -> Verdict {
        let Refusal { leader, head, is_rewound } = refusal;
        if !leader.as_ref().is_some_and(|leader| self.tenure.is(leader)) {
            return Verdict::Lost(match leader {
                Some(leader) => match serde_json::from_slice::<LeaderValue>(&leader.value) {
                    Ok(LeaderValue { node, address, .. }) => {
                        format!("{node} is the leader, at {address}")
                    }
                    Err(why) => format!("another leader has an unreadable entry: {why}"),
                },
                None => "the cluster has no leader; leadership was lost".into(),
            });
        }
        if let (Some(head), Some(put)) = (head, put)
            && head.place == put
            && head.at != self.head_at
        {
            return Verdict::DoneBefore(head.at);
        }
        if *is_rewound {
            return Verdict::Astray("the store was rolled back to an earlier state".into());
        }
        Verdict::Astray(match head {
            Some(head) => format!("the journal ends at record {}", head.place.seq),
            None => "the journal head is missing or malformed".into(),
        })
    }
}
