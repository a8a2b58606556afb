//! Maps every error to a response: a status and a WebDAV `error` element with a message.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use leasehold_auth::Denied;
use leasehold_core::Rejection;
use leasehold_engine as engine;

use super::hold;
use super::place::href;
use super::xml::escape;
use crate::app::App;
use crate::content::{self, FilePath, NoPath, Unreceived};
use crate::dialect::basic;
use crate::dialect::grip::{InTheWay, Obstacle};
use crate::dialect::limit::{self, Met};
use crate::dialect::owner;
use crate::dialect::rejection::in_words;
use crate::http::answers::TooMuch;
use crate::http::body::BadBody;

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
        let words = obstacle.in_words();
        match obstacle {
            Obstacle::Held(way) => Self::locked(app, &way),
            Obstacle::Grace { .. } => Self::new(StatusCode::LOCKED, words),
            Obstacle::Full { .. } => Self::new(StatusCode::TOO_MANY_REQUESTS, words),
            Obstacle::TooDeep { .. } => Self::invalid(words),
            Obstacle::Rejected(rejection) => rejection.into(),
            Obstacle::Denied(denied) => denied.into(),
            Obstacle::Engine(error) => error.into(),
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
        match status {
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            // Programs that mount WebDAV folders authenticate only with Basic.
            StatusCode::UNAUTHORIZED => {
                let basic =
                    HeaderValue::from_static("Basic realm=\"leasehold\", charset=\"UTF-8\"");
                headers.insert(header::WWW_AUTHENTICATE, basic);
            }
            _ => {}
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

impl From<Denied> for Refusal {
    fn from(denied: Denied) -> Self {
        Self::new(denied.status(), basic::in_words(&denied))
    }
}

impl From<BadBody> for Refusal {
    fn from(bad: BadBody) -> Self {
        Self::new(bad.status(), bad.to_string())
    }
}

impl From<TooMuch> for Refusal {
    fn from(too_much: TooMuch) -> Self {
        match too_much.is_own {
            true => Self::new(StatusCode::TOO_MANY_REQUESTS, too_much.to_string()),
            false => Self::new(StatusCode::SERVICE_UNAVAILABLE, too_much.to_string()),
        }
    }
}

impl From<engine::Error> for Refusal {
    fn from(error: engine::Error) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
    }
}

impl From<content::Error> for Refusal {
    fn from(error: content::Error) -> Self {
        let why = error.to_string();
        match error {
            content::Error::Missing => Self::missing(),
            content::Error::IsFolder
            | content::Error::NotFolder
            | content::Error::NotEmpty
            | content::Error::Changed
            | content::Error::Special => Self::conflict(why),
            content::Error::Denied => Self::forbidden(why),
            content::Error::TooDeep { .. } => Self::invalid(why),
            content::Error::Full
            | content::Error::TooMany
            | content::Error::OverQuota { .. }
            | content::Error::DiskLow { .. } => Self::new(StatusCode::INSUFFICIENT_STORAGE, why),
            content::Error::NoFiles | content::Error::TooManyUploads { .. } => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, why)
            }
            content::Error::Broken(error) => {
                tracing::error!(%error, "a file could not be used");
                let why = "the file could not be read or written";
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, why)
            }
            content::Error::Unknown => engine::Error::Unknown.into(),
        }
    }
}

impl From<Unreceived> for Refusal {
    fn from(why: Unreceived) -> Self {
        match why {
            Unreceived::TooLarge(bytes_max) => Self::too_large(bytes_max),
            Unreceived::Late => {
                let why = "the body stopped arriving; nothing was changed";
                Self::new(StatusCode::REQUEST_TIMEOUT, why)
            }
            Unreceived::Broken => Self::invalid("the body broke off; nothing was changed"),
            Unreceived::Content(error) => error.into(),
        }
    }
}

impl Refusal {
    pub(super) fn too_large(bytes_max: u64) -> Self {
        let why = format!("a file can have at most {bytes_max} bytes (files-bytes-max)");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, why)
    }
}

impl From<Rejection> for Refusal {
    fn from(rejection: Rejection) -> Self {
        match rejection {
            Rejection::Limit(exceeded) => match limit::met(exceeded) {
                Met::Request(why) => {
                    Self::invalid(format!("the lock or its owner is out of bounds: {why}"))
                }
                Met::Room(why) => Self::new(StatusCode::TOO_MANY_REQUESTS, why),
            },
            Rejection::Maintenance => {
                let why = "the server is in maintenance: no lock can be acquired";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, why)
            }
            other => Self::conflict(in_words(&other)),
        }
    }
}
