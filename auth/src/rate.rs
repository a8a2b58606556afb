//! Rate limits: at most `n` requests per period, evenly spread, with bursts of up to `n`.
//!
//! Only the time at which the next request is due is stored per client (the generic cell rate algorithm), so a client
//! takes only a few bytes.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Mutex;
use std::time::Duration;

use leasehold_base::sync::lock;
use leasehold_core::{Span, Timestamp};

/// Maximum clients in the table. Clients whose time has passed are forgotten first; if none has passed, further clients
/// have to wait.
const REMEMBERED_MAX: usize = 100_000;
/// Minimum time between two searches for clients whose time has passed.
const FORGET_EVERY: Duration = Duration::from_millis(100);

/// A rate limiter for many clients, each with a separate limit.
pub(crate) struct Rates<K> {
    remembered: Mutex<DueTimes<K>>,
}

struct DueTimes<K> {
    /// When each client's next request is due.
    due: HashMap<K, Timestamp>,
    /// The next search for clients whose time has passed happens after this.
    forget_at: Timestamp,
}

/// Why a client has to wait before its next request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Late {
    /// The client exceeded its own rate. It must wait this long.
    Own(Duration),
    /// The table is full of other clients.
    Others(Duration),
}

impl Late {
    /// How long to wait.
    pub(crate) fn wait(self) -> Duration {
        match self {
            Late::Own(wait) | Late::Others(wait) => wait,
        }
    }

    /// The reason as text: `own` if the client caused it itself.
    pub(crate) fn why(self, own: String) -> String {
        match self {
            Late::Own(_) => own,
            Late::Others(_) => format!(
                "too many clients are rate-limited ({REMEMBERED_MAX}); repeat the request later"
            ),
        }
    }
}

impl<K> Default for Rates<K> {
    fn default() -> Self {
        let remembered = DueTimes { due: HashMap::new(), forget_at: Timestamp::default() };
        Self { remembered: Mutex::new(remembered) }
    }
}

impl<K: Eq + Hash> Rates<K> {
    /// Counts a request of `key`, of which `n` are allowed per `period`. Fails with the time to wait if there are too
    /// many.
    pub(crate) fn take(
        &self,
        key: K,
        now: Timestamp,
        n: u32,
        period: Duration,
    ) -> Result<(), Late> {
        let interval = (period.as_nanos() / u128::from(n.max(1))) as u64;
        let period = period.as_nanos() as u64;
        let mut remembered = lock(&self.remembered);
        let DueTimes { due, forget_at } = &mut *remembered;
        if due.len() >= REMEMBERED_MAX && !due.contains_key(&key) {
            if *forget_at <= now {
                due.retain(|_, at| *at > now);
                *forget_at = now + Span::from_nanos(FORGET_EVERY.as_nanos() as u64);
            }
            if due.len() >= REMEMBERED_MAX {
                return Err(Late::Others(FORGET_EVERY));
            }
        }
        let at = due.entry(key).or_insert(now);
        let next = (*at).max(now) + Span::from_nanos(interval);
        let ahead = next.since(now).as_nanos();
        if ahead > period {
            return Err(Late::Own(Duration::from_nanos(ahead - period)));
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
        let own = |ms| Err(Late::Own(Duration::from_millis(ms)));
        assert_eq!(rates.take("a", at(0), 10, SECOND), own(100));
        assert_eq!(rates.take("b", at(0), 10, SECOND), Ok(()), "each by itself");
        // The reported wait is exact: one millisecond earlier the request is still rejected.
        assert_eq!(rates.take("a", at(99), 10, SECOND), own(1));
        assert_eq!(rates.take("a", at(100), 10, SECOND), Ok(()));
        assert!(rates.take("a", at(100), 10, SECOND).is_err());
        for _ in 0..10 {
            assert_eq!(rates.take("a", at(5000), 10, SECOND), Ok(()), "no more than a period's");
        }
        assert!(rates.take("a", at(5000), 10, SECOND).is_err());
    }

    #[test]
    fn a_full_table_delays_all_further_clients() {
        let rates = Rates::default();
        for n in 0..REMEMBERED_MAX {
            assert_eq!(rates.take(n, at(0), 2, SECOND), Ok(()));
        }
        let others = Err(Late::Others(FORGET_EVERY));
        assert_eq!(rates.take(usize::MAX, at(0), 2, SECOND), others);
        // Clients in the table keep their state.
        assert_eq!(rates.take(0, at(0), 2, SECOND), Ok(()));
        assert!(matches!(rates.take(0, at(0), 2, SECOND), Err(Late::Own(_))));
        assert_eq!(rates.take(usize::MAX, at(499), 2, SECOND), others);
        // The time of all clients but one has passed.
        assert_eq!(rates.take(usize::MAX, at(600), 2, SECOND), Ok(()));
    }
}
