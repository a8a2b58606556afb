//! Hearing of the end of a lease when it ends, not when it is renewed.

use std::sync::Arc;
use std::time::Duration;

use leasehold_api::EventKind;
use tokio::task::JoinHandle;

use crate::tenure::{Lost, Tenure};
use crate::{Client, Error, Events, Watched};

/// The pause after the server could not be watched for a while.
const PAUSE: Duration = Duration::from_secs(1);

/// A task that watches one lease. It ends with this value, at the latest.
#[derive(Debug)]
pub(crate) struct Sentinel {
    task: JoinHandle<()>,
}

impl Sentinel {
    /// Watches the lease that has `token` of `lock`, and ends `tenure` when the server says that it is over. If the
    /// server cannot be watched, renewals still tell.
    pub(crate) fn start(client: Client, lock: String, token: u64, tenure: Arc<Tenure>) -> Self {
        let task = tokio::spawn(async move {
            tokio::select! {
                biased;
                _ = tenure.lost() => {}
                () = ended(&client, &lock, token) => {
                    tracing::warn!(lock, token, "the server says that the lease is over");
                    tenure.lose(Lost::Ended);
                }
            }
        });
        Self { task }
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns when the lease is over, as far as we are told.
async fn ended(client: &Client, lock: &str, token: u64) {
    let mut events = client.watch(lock);
    // It may have been over before we listened.
    let mut is_sure = false;
    loop {
        match next(&mut events, client, lock, token, &mut is_sure).await {
            Ok(true) => return,
            Ok(false) => {}
            Err(error) => {
                tracing::debug!(lock, %error, "the lease cannot be watched now");
                is_sure = false;
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn next(
    events: &mut Events,
    client: &Client,
    lock: &str,
    token: u64,
    is_sure: &mut bool,
) -> Result<bool, Error> {
    if !*is_sure {
        events.connect().await?;
        let state = client.look(lock).await?;
        *is_sure = true;
        return Ok(!state.holders.iter().any(|holder| holder.fencing_token == token));
    }
    match events.next().await? {
        Watched::Event { event, .. } => {
            let is_it = event.lock_name == lock && event.fencing_token == token;
            let is_end =
                matches!(event.kind, EventKind::Released | EventKind::Expired | EventKind::Revoked);
            Ok(is_it && is_end)
        }
        Watched::Gap(_) => {
            *is_sure = false;
            Ok(false)
        }
    }
}
