//! The chapter with the server's own endpoints.

use leasehold_api::Failure;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Chapter, Operation};
use crate::metrics::Format;

/// The check succeeded.
#[derive(Serialize, JsonSchema)]
pub struct Health {
    /// Always `ok`.
    status: &'static str,
}

impl Health {
    /// The server is well.
    pub const OK: Self = Self { status: "ok" };
}

pub(super) fn chapter() -> Chapter {
    let get = |path: &str, id: &str, summary| Operation::new("get", path, id, summary);
    Chapter::new("server", "Health checks, metrics and this document").with([
        get("/healthz", "healthz", "Is the process alive?").answer::<Health>(200, "It does."),
        get("/livez", "livez", "Is the engine running?")
            .answer::<Health>(200, "It does.")
            .answer::<Failure>(503, "It is stuck."),
        get("/readyz", "readyz", "Can the server commit writes now?")
            .answer::<Health>(200, "It could.")
            .answer::<Failure>(503, "It cannot."),
        get("/leaderz", "leaderz", "Is this server the leader of its cluster?")
            .answer::<Health>(200, "It is the leader, or not part of a cluster.")
            .answer::<Failure>(503, "It is not the leader."),
        get("/metrics", "metrics", "Metrics")
            .answer_text(200, Format::Prometheus.content_type(), "In Prometheus text format.")
            .answer_text(
                200,
                Format::OpenMetrics.content_type(),
                "In OpenMetrics, if `Accept` asks for it.",
            )
            .guarded::<Failure>(),
        get("/openapi.json", "contract", "This document")
            .answer_object(200, "OpenAPI 3.1.")
            .guarded::<Failure>(),
        get("/docs", "docs", "This document, for people")
            .answer_text(200, super::page::HTML, "A page that needs no other server.")
            .guarded::<Failure>(),
        get("/docs/docs.css", "docsStyle", "The style of that page")
            .answer_text(200, super::page::CSS, "Its style.")
            .guarded::<Failure>(),
        get("/docs/docs.js", "docsScript", "The script of that page")
            .answer_text(200, super::page::JS, "Its script.")
            .guarded::<Failure>(),
    ])
}
