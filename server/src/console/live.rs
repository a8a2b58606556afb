//! Sends an event to a page when its data might have changed. The event has no content: the page reloads its data with
//! the rights of the user.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use leasehold_auth::{Caller, Right};
use leasehold_core::LockKey;
use leasehold_engine::{Interest, Next, Reader};
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

use super::visit::{Trouble, Visit};
use crate::http::answers::Sending;

/// Interval of keep-alive messages. A page that misses a few of them assumes that its connection is dead.
const SIGN_OF_LIFE_EVERY: Duration = Duration::from_secs(5);
/// Minimum time between two events for one page.
const CHANGE_EVERY: Duration = Duration::from_millis(250);

#[derive(Deserialize, Default)]
#[serde(default)]
struct Params {
    namespace: String,
    name: String,
}

pub(super) async fn follow(visit: Visit) -> Response {
    match begin(&visit) {
        Ok(response) => response,
        // A script makes this request, so it gets neither a page nor a redirect.
        Err(Trouble::Denied(denied)) => (denied.status(), denied.to_string()).into_response(),
        Err(Trouble::Later(why)) => {
            (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "1")], why).into_response()
        }
        Err(trouble) => visit.answer(Err(trouble)),
    }
}

fn begin(visit: &Visit) -> Result<Response, Trouble> {
    let Params { namespace, name } = visit.params()?;
    let interest = match (namespace.as_str(), name.as_str()) {
        ("", "") => Interest::All,
        _ => {
            let key = LockKey::new(namespace, name);
            visit.app.limits.check_key(&key)?;
            Interest::Lock(key)
        }
    };
    let interest = visit.caller.permit(interest)?;
    let sending = visit.app.answers.stream(&visit.client)?;
    let reader = visit.app.engine.follow(interest, None);
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(tell(visit.clone(), reader, sender, sending));
    let head = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    let frames = ReceiverStream::new(receiver).map(Ok::<_, Infallible>);
    Ok((head, Body::from_stream(frames)).into_response())
}

/// Sends events until the browser disconnects, the engine stops, or the user has lost all rights to read.
async fn tell(visit: Visit, mut reader: Reader, sender: mpsc::Sender<Bytes>, _sending: Sending) {
    const CHANGE: &[u8] = b"event: change\ndata:\n\n";
    const SIGN_OF_LIFE: &[u8] = b":\n\n";
    let Visit { app, caller, .. } = &visit;
    let check = |now: &Caller| now.check_somewhere(Right::Read, None);
    let over = async {
        tokio::select! {
            () = app.engine.stopped() => {}
            _ = caller.denied(app.engine.clock(), check) => {}
            () = sender.closed() => {}
        }
    };
    let mut over = std::pin::pin!(over);
    let mut frame = SIGN_OF_LIFE;
    loop {
        let sent = async {
            let sent = sender.send(Bytes::from_static(frame)).await;
            tokio::time::sleep(CHANGE_EVERY).await;
            sent
        };
        tokio::select! {
            () = &mut over => return,
            sent = sent => if sent.is_err() { return },
        }
        frame = tokio::select! {
            () = &mut over => return,
            () = change(&mut reader, caller) => CHANGE,
            () = tokio::time::sleep(SIGN_OF_LIFE_EVERY) => SIGN_OF_LIFE,
        };
    }
}

/// Waits for an event that the user can see with their current rights.
async fn change(reader: &mut Reader, caller: &Caller) {
    loop {
        match reader.next().await {
            Next::Gap(_) => return,
            Next::Event(event) => {
                let is_seen = || caller.by_now().check(Right::Read, &event.fact.lock).is_ok();
                if !caller.is_asked() || is_seen() {
                    return;
                }
            }
        }
    }
}
