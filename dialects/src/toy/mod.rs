//! A dialect for tests: one path with its own method, one chapter, one option, and a listener that answers one line.
//! The rest of the server knows it only by its line in the table of dialects.

pub(super) mod contract;

use std::net::SocketAddr;

use axum::Router;
use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use bytes::BytesMut;

use super::listener::Serving;
use super::{Dialect, Listener, RequestFailure};
use crate::app::App;
use crate::http::{Conversation, Heard, Listen};
use crate::route::Route;

pub(super) const WORDS: &[&str] = &["toy"];

pub(super) const LISTENER: Option<Listener> = Some(Listener {
    dialect: Dialect::Toy,
    address: |options| options.toy.listen.map(Listen::Http),
    idle_timeout: |_| None,
    serve: converse,
});
/// No operation of this dialect differs from others.
pub(super) const ROUTES: &[Route] = &[];

/// The settings of the toy dialect.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The greeting that the dialect sends.
    pub greeting: String,
    /// The listen address.
    pub listen: Option<SocketAddr>,
}

pub(super) fn routes(_: &App) -> Router<App> {
    Router::new().route("/toy", any(greet))
}

async fn greet(State(app): State<App>, method: Method) -> Response {
    match method.as_str() {
        "GET" | "GREET" => app.dialect.toy.greeting.clone().into_response(),
        _ => StatusCode::METHOD_NOT_ALLOWED.into_response(),
    }
}

fn converse(app: App, mut conversation: Conversation) -> Serving {
    Box::pin(async move {
        let mut name = BytesMut::new();
        while !name.ends_with(b"\n") {
            // A client that disconnects early needs no reply.
            if conversation.hear(&mut name, None).await != Heard::More {
                return;
            }
        }
        let greeting = format!("{}, {}", app.dialect.toy.greeting, String::from_utf8_lossy(&name));
        conversation.say(greeting.as_bytes(), Vec::new()).await;
    })
}

pub(super) fn render(_: &App, failure: RequestFailure) -> Response {
    (failure.status, failure.text).into_response()
}
