//! Telling another server what is noted of leases: one `POST` for each note, in order, signed and repeated.
//!
//! A courtesy, and bounded like one. What cannot be delivered in time is counted and let go; nobody who holds or wants
//! a lock ever waits for it. What is missed here is still in the events and in the history.

mod post;
mod signature;
mod target;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use leasehold_base::clock::Clock;
use leasehold_store::Event;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use crate::dialect::native;
use crate::engine::EngineHandle;
use crate::metrics::Metrics;
use post::Answer;
use signature::Secret;
pub use target::Target;

/// How notes are delivered.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where to.
    pub target: Target,
    /// The file with the secret they are signed with; `None`: they are not signed.
    pub secret_file: Option<PathBuf>,
    /// Most notes waiting to be delivered; more are dropped.
    pub queue_max: usize,
    /// Longest wait for an answer.
    pub timeout: Duration,
    /// Most attempts to deliver a note.
    pub attempts_max: u32,
    /// The pause before the second attempt; it doubles from there.
    pub retry_min: Duration,
    /// The longest pause between two attempts.
    pub retry_max: Duration,
}

impl Options {
    /// The usual for a target.
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

    /// Says what is wrong with the secret.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.secret().map(drop)
    }

    fn secret(&self) -> Result<Option<Secret>, String> {
        self.secret_file.as_deref().map(Secret::read).transpose()
    }
}

/// Delivers notes until there are no more. Its task is [`Webhook::run`].
pub(crate) struct Webhook {
    options: Options,
    secret: Option<Secret>,
    notes: mpsc::Receiver<Arc<Event>>,
    engine: EngineHandle,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
}

impl Webhook {
    /// Takes every note from now on. An error says what is wrong with the secret.
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

    /// Delivers one note after the other.
    pub(crate) async fn run(mut self) {
        while let Some(event) = self.notes.recv().await {
            let body = Bytes::from(native::note(self.engine.generation(), &event));
            let is_delivered = self.deliver(&body).await;
            self.metrics.count_webhook(is_delivered);
        }
    }

    /// Tries until it was taken, refused for good, or tried often enough.
    async fn deliver(&self, body: &Bytes) -> bool {
        let Options { target, attempts_max, retry_min, retry_max, .. } = &self.options;
        let mut pause = *retry_min;
        for attempt in 1..=*attempts_max {
            let answer = self.attempt(body).await;
            let why = match answer {
                Ok(Answer::Taken) => return true,
                Ok(Answer::Refused(status)) => {
                    tracing::warn!(host = target.host(), %status, "webhook refused; not repeated");
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

    /// Each attempt has its own time and so its own signature: an old one can be told from a new one.
    async fn attempt(&self, body: &Bytes) -> Result<Answer, String> {
        let timestamp = self.clock.wall_ms() / 1000;
        let signature = self.secret.as_ref().map(|secret| secret.sign(timestamp, body));
        let posting = post::post(&self.options.target, timestamp, signature, body.clone());
        match timeout(self.options.timeout, posting).await {
            Ok(answered) => answered,
            Err(_) => Err(format!("no answer within {:?}", self.options.timeout)),
        }
    }
}
