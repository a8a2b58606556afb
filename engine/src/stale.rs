//! Checks whether events can be late: if the shared store has not answered for a while, other servers might have
//! written records that this server has not read.

use std::time::Duration;

use tokio::sync::watch;

use super::EngineHandle;

/// A server is stale if the store has not answered for this long.
const STALE_AFTER: Duration = Duration::from_secs(5);
/// How often staleness is checked.
const CHECK_EVERY: Duration = Duration::from_secs(1);

impl EngineHandle {
    /// Reports whether events can be late, and each change. Always `false` unless [`Self::check_staleness`] runs.
    pub fn staleness(&self) -> watch::Receiver<bool> {
        self.shared().stale.subscribe()
    }

    /// Checks staleness from now on. For servers with a shared store.
    pub async fn check_staleness(self) {
        // At its start, a server has not read anything yet.
        tokio::time::sleep(STALE_AFTER).await;
        loop {
            let is_stale = self.is_stale();
            self.shared()
                .stale
                .send_if_modified(|was| std::mem::replace(was, is_stale) != is_stale);
            tokio::time::sleep(CHECK_EVERY).await;
        }
    }

    /// A server that was the leader until a moment ago has not had time to read anything.
    fn is_stale(&self) -> bool {
        let is_behind = || self.behind_for().is_none_or(|behind| behind > STALE_AFTER);
        self.unconfirmed_for() > STALE_AFTER && (!self.is_following() || is_behind())
    }
}
