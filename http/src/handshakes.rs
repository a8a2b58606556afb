//! Connections that cannot send a request yet, because their TLS handshake or PROXY header is in progress.
//!
//! Their number is limited. Beyond it, the oldest one is closed, so that deliberately slow clients do not block others.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use leasehold_base::sync::lock;
use tokio::sync::Notify;

/// All handshakes in progress.
pub struct Handshakes {
    n_max: usize,
    under_way: Mutex<InHandshake>,
}

#[derive(Default)]
struct InHandshake {
    /// The handshakes by their number, oldest first.
    all: BTreeMap<u64, Arc<Notify>>,
    n_begun: u64,
}

/// A handshake in progress; it ends when this is dropped.
pub(super) struct Handshake {
    handshakes: Arc<Handshakes>,
    number: u64,
    shed: Arc<Notify>,
}

impl Handshakes {
    /// Creates the limit of handshakes at the same time.
    pub fn new(n_max: usize) -> Arc<Self> {
        Arc::new(Self { n_max: n_max.max(1), under_way: Mutex::default() })
    }

    pub(super) fn begin(self: &Arc<Self>) -> Handshake {
        let mut under_way = lock(&self.under_way);
        if under_way.all.len() >= self.n_max
            && let Some((_, oldest)) = under_way.all.pop_first()
        {
            oldest.notify_one();
        }
        let (number, shed) = (under_way.n_begun, Arc::new(Notify::new()));
        under_way.n_begun += 1;
        under_way.all.insert(number, shed.clone());
        drop(under_way);
        Handshake { handshakes: self.clone(), number, shed }
    }
}

impl Handshake {
    /// Returns when the connection has to be closed to make room for another.
    pub(super) async fn until_shed(&self) {
        self.shed.notified().await;
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        lock(&self.handshakes.under_way).all.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn the_one_that_takes_longest_makes_room() {
        let handshakes = Handshakes::new(2);
        let is_shed = async |handshake: &Handshake| {
            tokio::time::timeout(Duration::from_millis(1), handshake.until_shed()).await.is_ok()
        };
        let (first, second) = (handshakes.begin(), handshakes.begin());
        assert!(!is_shed(&first).await);
        let third = handshakes.begin();
        assert!(is_shed(&first).await && !is_shed(&second).await);
        drop((first, second));
        let fourth = handshakes.begin();
        assert!(!is_shed(&third).await && !is_shed(&fourth).await);
        assert_eq!(lock(&handshakes.under_way).all.len(), 2);
    }
}
