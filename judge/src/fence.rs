//! The protected resource rejects writes of earlier holders.

/// A writer, and the position of its grant among all grants of the lock: its token, or the times between which the lock
/// was granted if the tokens themselves are in question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Writer<Id, Order> {
    /// The lease of the writer.
    pub id: Id,
    /// The lowest possible position.
    pub earliest: Order,
    /// The highest possible position.
    pub latest: Order,
}

/// The writes to the resource that one lock protects.
#[derive(Clone, Debug)]
pub struct Fence<Id, Order> {
    newest: Option<Writer<Id, Order>>,
}

impl<Id, Order> Default for Fence<Id, Order> {
    fn default() -> Self {
        Self { newest: None }
    }
}

impl<Id: Copy, Order: Copy + Ord> Fence<Id, Order> {
    /// Records that the resource accepted a write. Calls must be in the order of the writes. If the writer is stale,
    /// returns the later holder that wrote before it.
    pub fn accepted(&mut self, writer: Writer<Id, Order>) -> Option<Id> {
        let stale_after = self.newest.filter(|newest| writer.latest < newest.earliest);
        if self.newest.is_none_or(|newest| newest.earliest < writer.earliest) {
            self.newest = Some(writer);
        }
        stale_after.map(|newest| newest.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_after_that_of_a_later_holder_is_stale() {
        let mut fence = Fence::default();
        for (token, stale_after) in [(7, None), (7, None), (9, None), (7, Some(9)), (8, Some(9))] {
            let writer = Writer { id: token, earliest: token, latest: token };
            assert_eq!(fence.accepted(writer), stale_after, "{token}");
        }
    }

    #[test]
    fn of_two_grants_that_overlap_neither_is_certainly_later() {
        let mut fence = Fence::default();
        assert_eq!(fence.accepted(Writer { id: 'a', earliest: 5, latest: 9 }), None);
        assert_eq!(fence.accepted(Writer { id: 'b', earliest: 1, latest: 5 }), None);
        assert_eq!(fence.accepted(Writer { id: 'c', earliest: 1, latest: 4 }), Some('a'));
    }
}
