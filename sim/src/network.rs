//! Simulates the transmission of messages.

use crate::chance::Chance;
use crate::plan::{DELAY_MAX, Plan};
use crate::time::{MS, Time};

/// The network between the clients and the server, and between the clients and the protected resources.
pub struct Network {
    chance: Chance,
    is_healed: bool,
}

impl Network {
    /// Creates a network. Its behavior depends on the plan.
    pub fn new(chance: Chance) -> Self {
        Self { chance, is_healed: false }
    }

    /// Ends all faults: from now on every message arrives exactly once, and soon.
    pub fn heal(&mut self) {
        self.is_healed = true;
    }

    /// Returns the delay of each copy of a message. Empty if the message is lost.
    pub fn delays(&mut self, plan: &Plan) -> Vec<Time> {
        if self.is_healed {
            return vec![MS];
        }
        if self.chance.permille(plan.lost) {
            return Vec::new();
        }
        let n_copies = 1 + u64::from(self.chance.permille(plan.doubled));
        (0..n_copies).map(|_| self.delay(plan)).collect()
    }

    fn delay(&mut self, plan: &Plan) -> Time {
        if self.chance.permille(plan.late) {
            self.chance.within(10 * MS, DELAY_MAX)
        } else {
            self.chance.within(MS / 5, 5 * MS)
        }
    }
}
