//! How often somebody may ask: so many in a second, evenly, with as many at once.
//!
//! Kept is only when the next request would be on time (the generic cell rate algorithm), so each takes a few bytes.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Mutex;
use std::time::Duration;

use leasehold_core::{Span, Timestamp};

use crate::sync::lock;

/// Most that are remembered. Those whose time has passed are forgotten first; beyond that nobody is held up.
const REMEMBERED_MAX: usize = 100_000;

/// How often each of many may do something.
pub(crate) struct Rates<K> {
    /// When the next of each would be on time.
    due: Mutex<HashMap<K, Timestamp>>,
}

impl<K> Default for Rates<K> {
    fn default() -> Self {
        Self { due: Mutex::default() }
    }
}

impl<K: Eq + Hash> Rates<K> {
    /// One more of `key`'s, of `n` allowed in each `period` and at once; or how long to wait before the next.
    pub(crate) fn take(
        &self,
        key: K,
        now: Timestamp,
        n: u32,
        period: Duration,
    ) -> Result<(), Duration> {
        let interval = (period.as_nanos() / u128::from(n.max(1))) as u64;
        let period = period.as_nanos() as u64;
        let mut due = lock(&self.due);
        if due.len() >= REMEMBERED_MAX {
            due.retain(|_, at| *at > now);
            if due.len() >= REMEMBERED_MAX {
                return Ok(());
            }
        }
        let at = due.entry(key).or_insert(now);
        let next = (*at).max(now) + Span::from_nanos(interval);
        let ahead = next.since(now).as_nanos();
        if ahead > period {
            return Err(Duration::from_nanos(ahead - period));
        }
        *at = next;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_nanos(1_000_000_000 + ms * 1_000_000)
    }

    #[test]
    fn so_many_at_once_and_then_evenly() {
        let rates = Rates::default();
        for _ in 0..10 {
            assert_eq!(rates.take("a", at(0), 10, SECOND), Ok(()));
        }
        assert_eq!(rates.take("a", at(0), 10, SECOND), Err(Duration::from_millis(100)));
        assert_eq!(rates.take("b", at(0), 10, SECOND), Ok(()), "each by itself");
        // What was told is true: not before, and then.
        assert_eq!(rates.take("a", at(99), 10, SECOND), Err(Duration::from_millis(1)));
        assert_eq!(rates.take("a", at(100), 10, SECOND), Ok(()));
        assert!(rates.take("a", at(100), 10, SECOND).is_err());
        for _ in 0..10 {
            assert_eq!(rates.take("a", at(5000), 10, SECOND), Ok(()), "no more than a period's");
        }
        assert!(rates.take("a", at(5000), 10, SECOND).is_err());
    }
}
