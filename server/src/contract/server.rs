//! The chapter with the server's own endpoints.

use leasehold_api::Failure;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Chapter, Operation};
use crate::metrics::Format;

/// The check succeeded.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Health {
    /// Always `ok`.
    status: &'static str,
}

impl Health {
    pub(crate) const OK: Self = Self { status: "ok" };
}

pub(super) fn chapter() -> Chapter {
    let get = |path: &str, id: &str, summary| Operation::new("get", path, id, summary);
    Chapter::new("server", "Is it well, what has it counted, what does it answer").with([
        get("/healthz", "healthz", "Does the process answer?").answer::<Health>(200, "It does."),
        get("/livez", "livez", "Does the engine's loop go round?")
            .answer::<Health>(200, "It does.")
            .answer::<Failure>(503, "It is stuck."),
        get("/readyz", "readyz", "Could something be made durable right now?")
            .answer::<Health>(200, "It could.")
            .answer::<Failure>(503, "It could not."),
        get("/leaderz", "leaderz", "Does this server lead those that share its store?")
            .answer::<Health>(200, "It does, or it is not part of a cluster.")
            .answer::<Failure>(503, "It does not."),
        get("/metrics", "metrics", "What was counted")
            .answer_text(
                200,
                Format::Prometheus.content_type(),
                "In the text format of Prometheus.",
            )
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
        get("/docs/docs.css", "docsStyle", "How that page looks")
            .answer_text(200, super::page::CSS, "Its style.")
            .guarded::<Failure>(),
        get("/docs/docs.js", "docsScript", "How that page works")
            .answer_text(200, super::page::JS, "Its script.")
            .guarded::<Failure>(),
    ])
}
