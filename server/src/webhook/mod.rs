//! Webhook: sends each warning about a lease to another server as a `POST`, one after the other, signed, and with
//! retries.
//!
//! Delivery is best-effort and bounded. The server counts and drops warnings that it cannot deliver in time, and no
//! holder or waiter is ever delayed by a delivery. Dropped warnings are still in the events and in the history.

mod post;
mod signature;
mod target;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use leasehold_base::clock::Clock;
use leasehold_engine::EngineHandle;
use leasehold_store::Event;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use crate::dialect::native;
use crate::metrics::Metrics;
use post::Answer;
use signature::Secret;
pub use target::Target;

/// The settings of the webhook.
#[derive(Clone, Debug)]
pub struct Options {
    /// The URL to send to.
    pub target: Target,
    /// The file with the secret that signs warnings; `None`: they are not signed.
    pub secret_file: Option<PathBuf>,
    /// Maximum warnings waiting to be delivered; more are dropped.
    pub queue_max: usize,
    /// Maximum time to wait for a response.
    pub timeout: Duration,
    /// Maximum attempts to deliver one warning.
    pub attempts_max: u32,
    /// The pause before the second attempt. It doubles with each attempt.
    pub retry_min: Duration,
    /// Maximum pause between two attempts.
    pub retry_max: Duration,
}

impl Options {
    /// Returns the default settings for a target.
    pub fn new(target: Target) -> Self {
        Self {
            target,
            secret_file: None,
            queue_max: 1_000,
            timeout: Duration::from_secs(10),
            attempts_max: 8,
            retry_min: Duration::from_secs(1),
            retry_max: Duration::from_secs(60),
        }
    }

    /// Checks that the secret can be read and is long enough.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.secret().map(drop)
    }

    fn secret(&self) -> Result<Option<Secret>, String> {
        self.secret_file.as_deref().map(Secret::read).transpose()
    }
}

/// Delivers warnings until there are no more. Its task is [`Webhook::run`].
pub(crate) struct Webhook {
    options: Options,
    secret: Option<Secret>,
    notes: mpsc::Receiver<Arc<Event>>,
    engine: EngineHandle,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
}

impl Webhook {
    /// Subscribes to all warnings from now on. Fails if the secret is unusable.
    pub(crate) fn new(
        options: Options,
        engine: &EngineHandle,
        clock: Arc<dyn Clock>,
        metrics: Arc<Metrics>,
    ) -> Result<Self, String> {
        let secret = options.secret()?;
        let notes = engine.take_notes(options.queue_max);
        let engine = engine.clone();
        Ok(Self { options, secret, notes, engine, clock, metrics })
    }

    /// Delivers one warning after the other.
    pub(crate) async fn run(mut self) {
        while let Some(event) = self.notes.recv().await {
            let body = Bytes::from(native::note(self.engine.generation(), &event));
            let is_delivered = self.deliver(&body).await;
            self.metrics.count_webhook(is_delivered);
        }
    }

    /// Sends a warning until it is accepted, rejected permanently, or the maximum number of attempts is reached.
    /// Returns whether it was accepted.
    async fn deliver(&self, body: &Bytes) -> bool {
        let Options { target, attempts_max, retry_min, retry_max, .. } = &self.options;
        let mut pause = *retry_min;
        for attempt in 1..=*attempts_max {
            let answer = self.attempt(body).await;
            let why = match answer {
                Ok(Answer::Taken) => return true,
                Ok(Answer::Refused(status)) => {
                    tracing::warn!(host = target.host(), %status, "webhook refused the warning; not repeated");
                    return false;
                }
                Ok(Answer::Later(status)) => status.to_string(),
                Err(why) => why,
            };
            tracing::warn!(host = target.host(), attempt, attempts_max, %why, "webhook failed");
            if attempt < *attempts_max {
                sleep(pause).await;
                pause = (pause * 2).min(*retry_max);
            }
        }
        false
    }

    /// Sends a warning once. Each attempt has a separate time and signature, so that the receiver can detect old
    /// messages.
    async fn attempt(&self, body: &Bytes) -> Result<Answer, String> {
        let timestamp = self.clock.wall_ms() / 1000;
        let signature = self.secret.as_ref().map(|secret| secret.sign(timestamp, body));
        let posting = post::post(&self.options.target, timestamp, signature, body.clone());
        match timeout(self.options.timeout, posting).await {
            Ok(answered) => answered,
            Err(_) => Err(format!("no response within {:?}", self.options.timeout)),
        }
    }
}
