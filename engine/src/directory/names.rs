//! Lists of one namespace by owner or state: which locks can be on the next page.

use leasehold_auth::Part;
use leasehold_core::LockKey;

use super::block::Block;
use super::model::Model;
use super::query::Sight;
use super::row::{Row, bits};
use crate::read::{Filter, Standing};

/// Some names in order.
#[derive(Clone, Default, Debug)]
pub(crate) struct Names {
    pub(crate) names: Vec<Box<str>>,
    /// Whether there can be more after the last of them.
    pub(crate) has_more: bool,
    /// How many locks were looked at one by one.
    pub(super) n_visited: usize,
}

/// What a lock must be like to be on the list. Some locks that are like that do not belong on it: the writer checks
/// each.
struct Candidate<'a> {
    filter: &'a Filter,
    sight: &'a dyn Sight,
    owner: u64,
}

impl Model {
    /// Returns the next `n_max` names of locks that can be on a list.
    pub(crate) fn names(&self, filter: &Filter, sight: &dyn Sight, n_max: usize) -> Names {
        let mut found = Names::default();
        let Some(namespace) = self.namespaces.get(&*filter.namespace) else { return found };
        let owner = filter.owner.as_deref().map_or(0, bits);
        let candidate = Candidate { filter, sight, owner };
        let from =
            filter.after.as_deref().map_or(&*filter.prefix, |after| after.max(&filter.prefix));
        let ends_before = |number: &u32| self.block(*number).last() < from;
        let first = namespace.blocks.partition_point(ends_before);
        for number in &namespace.blocks[first..] {
            let block = self.block(*number);
            if block.first() > from && !block.first().starts_with(&*filter.prefix) {
                break;
            }
            let part = candidate.part_of(block);
            if part == Part::None {
                continue;
            }
            for n in block.place_of(from)..block.len() {
                found.n_visited += 1;
                if !candidate.matches(&block.rows[n]) {
                    continue;
                }
                let name = block.names.get(n);
                if !name.starts_with(&*filter.prefix) {
                    return found;
                }
                if filter.after.as_deref() == Some(name) {
                    continue;
                }
                let key = || LockKey::new(block.namespace.clone(), name);
                if part == Part::Some && !sight.shows(&key()) {
                    continue;
                }
                if found.names.len() == n_max {
                    found.has_more = true;
                    return found;
                }
                found.names.push(name.into());
            }
        }
        found
    }
}

impl Candidate<'_> {
    /// Returns how many locks of a block can be on the list, as far as its counts and the reader's rights tell.
    fn part_of(&self, block: &Block) -> Part {
        let counts = block.counts.shown(false);
        let n = match self.filter.standing {
            None => counts.n_locks,
            Some(Standing::Held) => counts.n_held,
            Some(Standing::Waiting) => counts.n_waited_for,
            Some(Standing::Free) => counts.n_locks - counts.n_held,
        };
        if n == 0 {
            return Part::None;
        }
        self.sight.part_between(&block.namespace, block.first(), block.last())
    }

    fn matches(&self, row: &Row) -> bool {
        let stands = match self.filter.standing {
            None => true,
            Some(Standing::Held) => row.n_holders > 0,
            Some(Standing::Waiting) => row.n_waiting > 0,
            Some(Standing::Free) => row.n_holders == 0,
        };
        stands && row.instances & self.owner == self.owner
    }
}
