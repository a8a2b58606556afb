//! A search of all locks.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use leasehold_auth::Part;
use leasehold_core::LockKey;
use memchr::memmem::Finder;

use super::block::{BLOCK_MAX, Block};
use super::counts::Counts;
use super::model::{Model, Namespace};
use super::owners::Hits;
use super::query::{FoundLocks, Order, Place, SearchLocks, Sight};
use super::row::Row;

/// Namespaces that are named.
const NAMESPACES_MAX: usize = 200;

/// A search under way. It meets locks in the order of their names, so among equals the one met first comes first.
struct Searching<'a> {
    model: &'a Model,
    sight: &'a dyn Sight,
    wanted: &'a SearchLocks,
    finder: Option<Finder<'a>>,
    hits: Option<Hits>,
    found: FoundLocks,
    /// All blocks so far.
    blocks: Vec<&'a Block>,
    /// The last blocks whose matches are all before the page, by their places in `blocks`, with their numbers of
    /// matches.
    skipped: VecDeque<(usize, usize)>,
    n_skipped: usize,
    /// The last locks before the page.
    before: BinaryHeap<Reverse<Spot>>,
    /// The locks on the page.
    page: BinaryHeap<Spot>,
}

/// A lock's rank and where it was met: the place of its block in [`Searching::blocks`], and its place there.
type Spot = (u64, usize, usize);

/// Where the locks of a block are relative to a name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Before,
    After,
    Both,
}

impl SearchLocks {
    pub(crate) fn find(&self, model: &Model) -> FoundLocks {
        self.find_for(model, &self.view)
    }

    pub(super) fn find_for(&self, model: &Model, sight: &dyn Sight) -> FoundLocks {
        let search = &*self.query.search;
        let finder = (!search.is_empty()).then(|| Finder::new(search));
        let hits = finder.as_ref().and_then(|finder| model.owners.find(finder));
        let mut searching = Searching {
            model,
            sight,
            wanted: self,
            finder,
            hits,
            found: FoundLocks::default(),
            blocks: Vec::new(),
            skipped: VecDeque::new(),
            n_skipped: 0,
            before: BinaryHeap::new(),
            page: BinaryHeap::new(),
        };
        for (name, namespace) in &model.namespaces {
            searching.look_into(name, namespace);
        }
        for (at, _) in std::mem::take(&mut searching.skipped) {
            searching.recall(at);
        }
        searching.end()
    }

    fn hides_shared_of(&self, namespace: &str) -> bool {
        self.of_paths.as_deref() == Some(namespace)
    }
}

impl<'a> Searching<'a> {
    fn look_into(&mut self, name: &Arc<str>, namespace: &'a Namespace) {
        let (wanted, model) = (self.wanted, self.model);
        let hides_shared = wanted.hides_shared_of(name);
        let part = match &*namespace.blocks {
            [] => Part::None,
            [first, .., last] => {
                let (first, last) = (model.block(*first).first(), model.block(*last).last());
                self.sight.part_between(name, first, last)
            }
            [only] => self.part_of(model.block(*only)),
        };
        if part == Part::None {
            return;
        }
        let n_before = self.found.counts.n_locks;
        if part == Part::All {
            self.count(namespace.counts.shown(hides_shared));
        }
        let is_wanted = wanted.query.namespace.as_deref().is_none_or(|wanted| wanted == &**name);
        if is_wanted || part == Part::Some {
            self.look_at_blocks(namespace, part, is_wanted, hides_shared);
        }
        if self.found.counts.n_locks > n_before && self.found.namespaces.len() < NAMESPACES_MAX {
            self.found.namespaces.insert(name.clone());
        }
    }

    fn count(&mut self, counts: Counts) {
        self.found.counts = self.found.counts.plus(counts);
    }

    fn look_at_blocks(
        &mut self,
        namespace: &'a Namespace,
        part: Part,
        is_wanted: bool,
        hides_shared: bool,
    ) {
        let query = &self.wanted.query;
        let n_all = namespace.counts.shown(hides_shared).of_stand(query.stand);
        let n_matched = self.found.n_matches;
        for number in &namespace.blocks {
            let block = self.model.block(*number);
            self.blocks.push(block);
            let of_block = match part {
                Part::All => Part::All,
                _ => self.part_of(block),
            };
            let counts = block.counts.shown(hides_shared);
            match of_block {
                Part::None => continue,
                Part::All if part == Part::Some => self.count(counts),
                _ => {}
            }
            let n = counts.of_stand(query.stand);
            if of_block == Part::All && (!is_wanted || n == 0) {
                continue;
            }
            let is_plain = of_block == Part::All && self.is_plain();
            if is_plain && self.side_of(block) == Side::Before {
                self.skip(n);
                continue;
            }
            if is_plain && self.is_full() {
                self.found.n_matches += n;
                if part == Part::All {
                    // The rest of the namespace is after the page as well.
                    self.found.n_matches = n_matched + n_all;
                    return;
                }
                continue;
            }
            self.look_at_rows(block, of_block, is_wanted, hides_shared);
        }
    }

    /// Returns how many of a block's locks the reader may see.
    fn part_of(&self, block: &Block) -> Part {
        self.sight.part_between(&block.namespace, block.first(), block.last())
    }

    /// Returns whether the counts of blocks tell how many of their locks are wanted, in the order of blocks.
    fn is_plain(&self) -> bool {
        let query = &self.wanted.query;
        self.finder.is_none() && query.dialect.is_none() && query.order == Order::Name
    }

    fn is_full(&self) -> bool {
        self.page.len() >= self.wanted.query.n_max
    }

    /// Returns on which side of the place where the page begins a block is, in the order of names.
    fn side_of(&self, block: &Block) -> Side {
        let Some(Place { rank, key }) = &self.wanted.query.after else { return Side::After };
        let compare = |name| (&*key.namespace, &*key.name).cmp(&(&*block.namespace, name));
        match () {
            // In the order of names all ranks are zero.
            () if *rank > 0 && self.wanted.query.order == Order::Name => Side::Before,
            () if compare(block.last()).is_ge() => Side::Before,
            () if compare(block.first()).is_lt() => Side::After,
            () => Side::Both,
        }
    }

    /// Counts the latest block with `n` matches before the page, without a look at its locks.
    fn skip(&mut self, n: usize) {
        self.found.n_matches += n;
        self.found.n_before += n;
        self.skipped.push_back((self.blocks.len() - 1, n));
        self.n_skipped += n;
        // Only the last ones are on the previous page.
        while let Some((_, n)) = self.skipped.front()
            && self.n_skipped - n > self.wanted.query.n_max
        {
            self.n_skipped -= n;
            self.skipped.pop_front();
        }
    }

    /// Looks at the locks of a block that was skipped, for the previous page.
    fn recall(&mut self, at: usize) {
        let block = self.blocks[at];
        let hides_shared = self.wanted.hides_shared_of(&block.namespace);
        for (n, row) in block.rows.iter().enumerate() {
            self.found.n_visited += 1;
            if !(hides_shared && row.is_only_shared) && self.stands(row) {
                self.add_before((0, at, n));
            }
        }
    }

    fn look_at_rows(&mut self, block: &Block, part: Part, is_wanted: bool, hides_shared: bool) {
        let mut named = [false; BLOCK_MAX];
        if let Some(finder) = &self.finder {
            let mut has_any = false;
            block.names.find(finder, |n| (named[n], has_any) = (true, true));
            if !has_any && self.hits.is_none() && part == Part::All {
                return;
            }
        }
        let side = self.side_of(block);
        for (n, row) in block.rows.iter().enumerate() {
            // Text was compared already, and where it was not found nothing else matters.
            if self.finder.is_some() && !named[n] && self.hits.is_none() && part == Part::All {
                continue;
            }
            self.found.n_visited += 1;
            if hides_shared && row.is_only_shared {
                continue;
            }
            if part == Part::Some {
                let key = LockKey::new(block.namespace.clone(), block.names.get(n));
                if !self.sight.shows(&key) {
                    continue;
                }
                self.count(Counts::of(row));
            }
            let is_found = self.finder.is_none() || named[n] || self.is_owned(row, block.slots[n]);
            let dialect = self.wanted.query.dialect;
            let is_so = dialect.is_none_or(|dialect| row.dialect == Some(dialect));
            if is_wanted && is_found && is_so && self.stands(row) {
                self.add(row, block, n, side);
            }
        }
    }

    fn stands(&self, row: &Row) -> bool {
        Counts::of(row).of_stand(self.wanted.query.stand) > 0
    }

    /// Returns whether the search found an owner of this lock.
    fn is_owned(&self, row: &Row, slot: u32) -> bool {
        let Some(hits) = &self.hits else { return false };
        let crowd = row.has_more_owners.then(|| self.model.crowds.get(&slot)).flatten();
        match crowd {
            Some(crowd) => crowd.iter().any(|owner| hits.has(*owner)),
            None => hits.has(row.owner),
        }
    }

    /// Adds a wanted lock of the latest block.
    fn add(&mut self, row: &Row, block: &Block, n: usize, side: Side) {
        let query = &self.wanted.query;
        self.found.n_matches += 1;
        let rank = match query.order {
            Order::Name => 0,
            Order::Ends => self.model.ends(row),
            Order::Held => row.held_since,
            Order::Waiters => u64::MAX - u64::from(row.n_waiting),
            Order::Waited => row.waited_since,
        };
        let is_before = query.after.as_ref().is_some_and(|after| match after.rank.cmp(&rank) {
            Ordering::Less => false,
            Ordering::Greater => true,
            Ordering::Equal if side == Side::Both => *after.key.name >= *block.names.get(n),
            Ordering::Equal => side == Side::Before,
        });
        let spot = (rank, self.blocks.len() - 1, n);
        if is_before {
            self.found.n_before += 1;
            self.add_before(spot);
        } else if !self.is_full() {
            self.page.push(spot);
        } else if let Some(mut last) = self.page.peek_mut()
            && *last > spot
        {
            *last = spot;
        }
    }

    fn add_before(&mut self, spot: Spot) {
        if self.before.len() <= self.wanted.query.n_max {
            self.before.push(Reverse(spot));
        } else if let Some(mut first) = self.before.peek_mut()
            && first.0 < spot
        {
            *first = Reverse(spot);
        }
    }

    fn end(self) -> FoundLocks {
        let place = |(rank, at, n): Spot| {
            let block = self.blocks[at];
            let key = LockKey::new(block.namespace.clone(), block.names.get(n));
            Place { rank, key }
        };
        let before = self.before.iter().map(|Reverse(spot)| place(*spot)).collect();
        let places = self.page.iter().map(|spot| place(*spot)).collect();
        FoundLocks { before, places, ..self.found }
    }
}
