//! Learns of the end of a lease when it ends, instead of at the next renewal.

use std::sync::Arc;
use std::time::Duration;

use leasehold_api::{Code, LeaseEnd, WatchLeaseRequest};
use tokio::task::JoinHandle;

use crate::sse::Messages;
use crate::tenure::Tenure;
use crate::{Client, Error};

/// The pause after a watch failed.
const PAUSE: Duration = Duration::from_secs(1);

/// A task that watches one lease. Dropping this stops the task.
#[derive(Debug)]
pub(crate) struct Sentinel {
    task: JoinHandle<()>,
}

impl Sentinel {
    /// Watches the lease of `lock` that `proof` belongs to, and ends `tenure` when the server reports that the lease
    /// has ended. If watching fails, the next renewal notices the end.
    pub(crate) fn start(
        client: Client,
        lock: String,
        proof: WatchLeaseRequest,
        tenure: Arc<Tenure>,
    ) -> Self {
        let task = tokio::spawn(async move {
            tokio::select! {
                biased;
                _ = tenure.lost() => {}
                ending = ended(&client, &lock, &proof) => {
                    let token = proof.fencing_token;
                    let (how, reason) = ending.as_ref().map(|end| (&*end.how, &end.reason)).unzip();
                    let reason = reason.and_then(Option::as_deref);
                    tracing::warn!(lock, token, how, reason, "the server reports that the lease has ended");
                    tenure.ended(ending);
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

/// Returns when the server reports that the lease has ended, and how it ended if the server reported that.
async fn ended(client: &Client, lock: &str, proof: &WatchLeaseRequest) -> Option<LeaseEnd> {
    loop {
        let error = match watch(client, lock, proof).await {
            Ok(ending) => return ending,
            Err(error) => error,
        };
        tracing::debug!(lock, %error, "cannot watch the lease now");
        match error {
            Error::Failed { failure, .. } if failure.code == Code::LeaseNotHeld => return None,
            error if error.is_retryable() => tokio::time::sleep(PAUSE).await,
            // A server that does not allow watching will not allow it later.
            _ => std::future::pending().await,
        }
    }
}

async fn watch(
    client: &Client,
    lock: &str,
    proof: &WatchLeaseRequest,
) -> Result<Option<LeaseEnd>, Error> {
    let path = client.lock_path(lock, "/watch")?;
    let mut messages = Messages::of(client.inner.transport.watch(&path, proof).await?);
    loop {
        let messages = messages.read().await?;
        if let Some(message) = messages.iter().find(|message| message.event == "ended") {
            return Ok(serde_json::from_str(&message.data).ok());
        }
    }
}
