//! Error responses: renders a failure as a status and a WebDAV `error` element with a message, and adds the errors that
//! only this protocol has.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use leasehold_auth::Denied;
use leasehold_core::Rejection;
use leasehold_engine as engine;

use super::hold;
use super::place::href;
use super::xml::escape;
use crate::app::App;
use crate::basic;
use crate::content::{self, FilePath, NoPath, Unreceived};
use crate::failure::{RequestFailure, Retry, rendered};
use crate::grip::{InTheWay, Obstacle};
use crate::http::answers::TooMuch;
use crate::http::body::BadBody;
use crate::owner;

/// What a client does after a request that might have taken effect. This protocol has no request ids.
const ADVICE: &str = "look at the path before repeating it";

/// An error response of this dialect.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    /// The condition code of RFC 4918, as XML; empty if the error has no code.
    condition: String,
    why: String,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, why: impl Into<String>) -> Self {
        Self { status, condition: String::new(), why: why.into() }
    }

    /// The request is invalid.
    pub(super) fn invalid(why: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, why)
    }

    pub(super) fn forbidden(why: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, why)
    }

    pub(super) fn missing() -> Self {
        Self::new(StatusCode::NOT_FOUND, "there is no such file or folder")
    }

    /// The parent folder of a new file or folder does not exist.
    pub(super) fn no_parent() -> Self {
        Self::conflict("the parent folder does not exist; create it first (MKCOL)")
    }

    pub(super) fn conflict(why: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, why)
    }

    /// `If`, `If-Match` or another condition does not hold.
    pub(super) fn precondition(why: &str) -> Self {
        Self::new(StatusCode::PRECONDITION_FAILED, why)
    }

    /// Sets the condition code of RFC 4918.
    pub(super) fn named(self, condition: &str) -> Self {
        Self { condition: format!("<D:{condition}/>"), ..self }
    }

    /// Another lock conflicts, and the request did not show its token.
    pub(super) fn locked(app: &App, way: &InTheWay) -> Self {
        let holding = &way.holding;
        let who = match (&holding.owner, holding.lease) {
            (Some(by), Some((dialect, _))) => {
                owner::named(by, &owner::called(dialect, by, holding.metadata.as_deref()))
            }
            (Some(by), None) => owner::named(by, &owner::plain(&by.instance)),
            (None, _) => "the next in the queue".into(),
        };
        let is_request = holding.owner.as_ref().is_some_and(|by| hold::is_request(&by.instance));
        let until = holding.deadline.filter(|_| !is_request).map(|deadline| {
            let at = leasehold_base::calendar::to_seconds(app.engine.wall_ms_of(deadline));
            format!(" until {at}")
        });
        let why = match is_request {
            true => format!("another request is changing {} ({who}); try again", way.name),
            false => format!("{} is locked by {who}{}", way.name, until.unwrap_or_default()),
        };
        Self::by_lock(&way.name, why)
    }

    /// The lock with this name conflicts.
    pub(super) fn by_lock(name: &str, why: String) -> Self {
        let root = match FilePath::plain(name) {
            Some(path) => href(&path, name.ends_with('/')),
            None => escape(name),
        };
        let condition =
            format!("<D:lock-token-submitted><D:href>{root}</D:href></D:lock-token-submitted>");
        Self { status: StatusCode::LOCKED, condition, why }
    }

    /// Changes the condition code for a client that requested a lock.
    pub(super) fn for_locker(mut self) -> Self {
        self.condition = self.condition.replace("lock-token-submitted", "no-conflicting-lock");
        self
    }

    pub(super) fn status(&self) -> StatusCode {
        self.status
    }

    pub(super) fn of_obstacle(app: &App, obstacle: Obstacle) -> Self {
        match obstacle {
            Obstacle::Held(way) => Self::locked(app, &way),
            grace @ Obstacle::Grace { .. } => Self::new(StatusCode::LOCKED, grace.in_words()),
            Obstacle::Rejected(rejection) => rejection.into(),
            other => RequestFailure::from(other).into(),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Self { status, condition, why } = self;
        let body = format!(
            "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:error xmlns:D=\"DAV:\">{condition}<L:message \
             xmlns:L=\"urn:leasehold\">{}</L:message></D:error>\n",
            escape(&why)
        );
        let kind = [(header::CONTENT_TYPE, super::XML), (header::CACHE_CONTROL, "no-store")];
        let mut response = (status, kind, body).into_response();
        let headers = response.headers_mut();
        Retry::by_status(status).add_to(headers);
        // Programs that mount WebDAV folders authenticate only with Basic.
        if status == StatusCode::UNAUTHORIZED {
            let basic = HeaderValue::from_static("Basic realm=\"leasehold\", charset=\"UTF-8\"");
            headers.insert(header::WWW_AUTHENTICATE, basic);
        }
        response
    }
}

impl From<NoPath> for Refusal {
    fn from(why: NoPath) -> Self {
        match why {
            NoPath::Reserved => Self::missing(),
            NoPath::Bad(why) => Self::invalid(why),
        }
    }
}

impl From<RequestFailure> for Refusal {
    fn from(failure: RequestFailure) -> Self {
        let failure = basic::explained(failure).advising(ADVICE);
        Self::new(failure.status, failure.text)
    }
}

rendered!(Refusal: Denied, BadBody, TooMuch, engine::Error, content::Error);

impl From<Unreceived> for Refusal {
    fn from(why: Unreceived) -> Self {
        RequestFailure::unreceived(why, "a file", "files-bytes-max").into()
    }
}

impl Refusal {
    pub(super) fn too_large(bytes_max: u64) -> Self {
        RequestFailure::too_large(bytes_max, "a file", "files-bytes-max").into()
    }
}

impl From<Rejection> for Refusal {
    fn from(rejection: Rejection) -> Self {
        match rejection {
            Rejection::Limit(exceeded) => {
                RequestFailure::limited(exceeded, "the lock or its owner is out of bounds").into()
            }
            other => RequestFailure::from(other).into(),
        }
    }
}
