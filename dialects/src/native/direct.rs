//! The three most frequent calls, dispatched without the router: routing them would take as long as handling them. A
//! request that is unusual in any way, such as one special character in its path, goes through the router to the same
//! handlers.

use axum::body::{Bytes, HttpBody};
use axum::extract::State;
use axum::http::{Method, Request};
use axum::response::IntoResponse;
use leasehold_core::LockKey;

use super::error::Refusal;
use super::extract::{Body, Lock, Received};
use super::lock;
use crate::app::App;
use crate::counted::Counted;
use crate::http::request::{Answer, Arrival};

const PREFIX: &str = "/v1/locks/";

/// A request that skips the router.
pub struct Direct {
    verb: Verb,
    /// The offset in the path at which the lock's name ends.
    name_end: usize,
}

/// The operation that the last segment of the path names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    /// Acquires a lock.
    Acquire,
    /// Renews a lease.
    Renew,
    /// Releases a lease.
    Release,
}

impl Verb {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Acquire, Self::Renew, Self::Release];

    /// Returns the route that the router would have matched.
    pub fn route(self) -> &'static str {
        match self {
            Verb::Acquire => "/v1/locks/{lock}/acquire",
            Verb::Renew => "/v1/locks/{lock}/renew",
            Verb::Release => "/v1/locks/{lock}/release",
        }
    }
}

impl Direct {
    /// Recognizes a frequent call. Returns `None` for every other request, which then goes through the router.
    pub fn of<B>(request: &Request<B>) -> Option<Self> {
        if request.method() != Method::POST {
            return None;
        }
        let (name, verb) = request.uri().path().strip_prefix(PREFIX)?.split_once('/')?;
        let verb = match verb {
            "acquire" => Verb::Acquire,
            "renew" => Verb::Renew,
            "release" => Verb::Release,
            _ => return None,
        };
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte);
        let is_direct = !name.is_empty() && name.bytes().all(is_plain);
        is_direct.then_some(Self { verb, name_end: PREFIX.len() + name.len() })
    }

    /// Returns the operation.
    pub fn verb(&self) -> Verb {
        self.verb
    }

    /// Calls the handler that the router would call, and returns its response.
    pub async fn answer<B>(self, app: App, arrival: &Arrival, request: Request<B>) -> Answer
    where
        B: HttpBody<Data = Bytes>,
    {
        let answer = self.call(app, arrival, request).await;
        answer.unwrap_or_else(|refusal| refusal.into_response().into())
    }

    async fn call<B>(
        self,
        app: App,
        arrival: &Arrival,
        request: Request<B>,
    ) -> Result<Answer, Refusal>
    where
        B: HttpBody<Data = Bytes>,
    {
        let (received, caller) = (Received(arrival.received), arrival.caller.clone());
        let name = request.uri().path()[PREFIX.len()..self.name_end].into();
        let lock = Lock(LockKey { namespace: app.dialect.native.namespace.clone(), name });
        match self.verb {
            Verb::Acquire => {
                let counted = Counted::by(&app, arrival, request.headers());
                let body = Body::read(request, &app).await?;
                lock::acquire(State(app), received, lock, counted, caller, body).await
            }
            Verb::Renew => {
                let body = Body::read(request, &app).await?;
                Ok(lock::renew(State(app), received, lock, caller, body).await?.into())
            }
            Verb::Release => {
                let body = Body::read(request, &app).await?;
                Ok(lock::release(State(app), lock, caller, body).await?.into())
            }
        }
    }
}
