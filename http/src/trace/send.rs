//! Sends spans to the collector: in batches, with a limited number of retries.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{StatusCode, Uri};
use leasehold_auth::issuer::fetch;
use prost::Message;
use tokio::sync::mpsc;

use super::message::{Export, Span};
use crate::metrics::Metrics;

/// Maximum spans in one request to the collector.
const BATCH_MAX: usize = 512;
/// Maximum time that a span waits for others in its batch.
const LINGER: Duration = Duration::from_secs(1);
const ATTEMPTS_MAX: u32 = 3;
/// The pause before the second attempt. It doubles with each attempt.
const RETRY: Duration = Duration::from_millis(500);

/// Sends queued spans to the collector.
pub struct Sender {
    endpoint: Uri,
    waiting: mpsc::Receiver<Span>,
    metrics: Arc<Metrics>,
}

impl Sender {
    pub(super) fn new(endpoint: Uri, waiting: mpsc::Receiver<Span>, metrics: Arc<Metrics>) -> Self {
        Self { endpoint, waiting, metrics }
    }

    /// Sends spans until the tracer is dropped and the queue is empty.
    pub async fn run(mut self) {
        let mut trouble = false;
        while let Some(batch) = self.batch().await {
            let n = batch.len() as u64;
            match self.send(batch).await {
                Ok(()) => {
                    trouble = false;
                    self.metrics.count_spans("exported", n);
                }
                Err(why) => {
                    // Logged once, not for each batch.
                    if !trouble {
                        tracing::warn!(why, n, "cannot send traces");
                    }
                    trouble = true;
                    self.metrics.count_spans("failed", n);
                }
            }
        }
    }

    /// Returns the next batch, or `None` if there will be no more spans.
    async fn batch(&mut self) -> Option<Vec<Span>> {
        let mut batch = vec![self.waiting.recv().await?];
        let rest = async {
            while batch.len() < BATCH_MAX {
                let Some(span) = self.waiting.recv().await else { break };
                batch.push(span);
            }
        };
        // The batch contains the spans that arrived before the timeout.
        let _ = tokio::time::timeout(LINGER, rest).await;
        Some(batch)
    }

    async fn send(&self, batch: Vec<Span>) -> Result<(), String> {
        let body = bytes::Bytes::from(Export::of(batch).encode_to_vec());
        let mut pause = RETRY;
        for attempt in 1.. {
            let sent = fetch::deliver(&self.endpoint, "application/x-protobuf", body.clone()).await;
            let (why, may_help) = match sent {
                Ok(answer) if answer.status.is_success() => return Ok(()),
                Ok(answer) => {
                    let is_busy = answer.status.is_server_error()
                        || answer.status == StatusCode::TOO_MANY_REQUESTS;
                    (format!("the collector returned {}", answer.status), is_busy)
                }
                Err(why) => (why, true),
            };
            if !may_help || attempt >= ATTEMPTS_MAX {
                return Err(why);
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use axum::body::Bytes;
    use axum::routing::post;
    use tokio::net::TcpListener;

    use super::*;
    use crate::trace::Done;

    fn span(trace_id: u128) -> Span {
        let done = Done {
            method: "GET",
            route: "/v1/locks",
            status: 200,
            peer: "127.0.0.1".into(),
            principal: "anonymous",
            request_id: "1".into(),
            took: Duration::from_millis(1),
        };
        Span::server((trace_id, 7, None), Duration::from_secs(1), &done)
    }

    /// Starts a collector that responds with these statuses in turn, and then always with the last.
    async fn collector(statuses: &'static [u16], got: mpsc::UnboundedSender<Bytes>) -> Uri {
        let n = Arc::new(AtomicUsize::new(0));
        let answer = async move |body: Bytes| {
            let status = statuses[n.fetch_add(1, SeqCst).min(statuses.len() - 1)];
            let _ = got.send(body);
            StatusCode::from_u16(status).expect("a status")
        };
        let router = axum::Router::new().route("/v1/traces", post(answer));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async move { axum::serve(listener, router).await });
        format!("http://{address}/v1/traces").parse().expect("a URI")
    }

    #[tokio::test]
    async fn spans_are_sent_together_and_again_if_that_may_help() {
        for (statuses, n_sent, counted) in [
            (&[200][..], 1, "leasehold_spans_total{result=\"exported\"} 3"),
            (&[503, 200], 2, "leasehold_spans_total{result=\"exported\"} 3"),
            (&[400], 1, "leasehold_spans_total{result=\"failed\"} 3"),
            (&[500], 3, "leasehold_spans_total{result=\"failed\"} 3"),
        ] {
            let (got, mut all) = mpsc::unbounded_channel();
            let (queue, waiting) = mpsc::channel(10);
            let metrics = Arc::new(Metrics::default());
            let sender = Sender::new(collector(statuses, got).await, waiting, metrics.clone());
            for id in 1..=3 {
                queue.try_send(span(id)).expect("room");
            }
            // The sender ends when the tracer's end of the queue is dropped.
            drop(queue);
            tokio::time::timeout(Duration::from_secs(30), sender.run()).await.expect("an end");
            for _ in 0..n_sent {
                let export = Export::decode(all.try_recv().expect("a batch")).expect("protobuf");
                let spans = &export.resource_spans[0].scope_spans[0].spans;
                let ids: Vec<_> = spans.iter().map(|span| span.trace_id[15]).collect();
                assert_eq!(ids, [1, 2, 3]);
            }
            assert!(all.try_recv().is_err(), "{statuses:?}: not more often");
            let text = metrics.render();
            assert!(text.contains(counted), "{statuses:?}: {text}");
        }
    }
}
