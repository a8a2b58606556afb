//! A dialect for tests: one path with a method of its own, one chapter, one option, and a listener that answers a line.
//! Its line in the table of dialects is all that the rest of the server knows of it.

pub(super) mod contract;
mod tests;

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;

use axum::Router;
use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::Listener;
use crate::app::App;

pub(super) const WORDS: &[&str] = &["toy"];

pub(super) const LISTENER: Option<Listener> =
    Some(Listener { address: |options| options.toy.listen, serve: converse });

/// What it can be told.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What it says.
    pub greeting: String,
    /// Where it listens.
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

fn converse(app: App, stream: TcpStream) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        let mut stream = BufReader::new(stream);
        let mut name = String::new();
        // Whoever goes away in the middle is of no interest.
        if stream.read_line(&mut name).await.is_ok() {
            let greeting = format!("{}, {name}", app.dialect.toy.greeting);
            let _ = stream.write_all(greeting.as_bytes()).await;
        }
    })
}

pub(super) fn refuse(_: &App, denied: crate::auth::Denied) -> Response {
    (StatusCode::FORBIDDEN, denied.to_string()).into_response()
}
