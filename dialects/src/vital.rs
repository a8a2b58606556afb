//! Decides which requests are served when the server is full or beyond a rate limit: renewals and releases of what the
//! caller holds, and health checks. None of them waits or streams.
//!
//! The operation decides, not a word in the URL. Each dialect declares its operations: see [`crate::route`].

use axum::body::HttpBody;
use axum::http::request::Parts;
use axum::http::{Method, Request, Uri};

use crate::http::request::form;
use crate::{of_path, route};

/// How important a request is for holders.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Vital {
    /// The request renews, releases or checks health.
    Always,
    /// The request renews if its caller holds the lock; otherwise it acquires.
    IfRenewal,
    /// Either it renews or ends what its caller owns, or it takes a lock from another principal. Only its handler can
    /// tell.
    IfOwn,
    /// The request can wait.
    Never,
}

impl Vital {
    /// Returns how important a request is.
    pub fn of<B: HttpBody>(request: &Request<B>) -> Self {
        let is_empty = || request.body().is_end_stream();
        Self::by(request.method(), request.uri(), is_empty)
    }

    fn by(method: &Method, uri: &Uri, is_empty: impl FnOnce() -> bool) -> Self {
        let is_look = method == Method::GET || method == Method::HEAD;
        if is_look && form::is_health(uri.path()) {
            return Self::Always;
        }
        route::vital(of_path(uri.path()).declared(), method.as_str(), uri, is_empty)
    }
}

/// Returns whether the request is one that is never refused, for handlers that apply the rate limit themselves.
pub fn is_vital(parts: &Parts) -> bool {
    Vital::by(&parts.method, &parts.uri, || true) == Vital::Always
}

/// Returns whether a follower answers a request itself. Extra slashes at the start of the path do not count.
pub fn is_on_followers(method: &Method, path: &str) -> bool {
    let n_slashes = path.bytes().take_while(|byte| *byte == b'/').count();
    let path = &path[n_slashes.saturating_sub(1)..];
    route::is_on_followers(of_path(path).declared(), method.as_str(), path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    fn of(line: &str, body: &'static str) -> Vital {
        let (method, target) = line.split_once(' ').expect("a method and a target");
        let request = Request::builder().method(method).uri(target);
        Vital::of(&request.body(Body::from(body)).expect("a request"))
    }

    #[test]
    fn a_request_that_renews_or_releases_is_vital() {
        for line in [
            "GET /healthz",
            "HEAD /readyz",
            "GET /health",
            "POST /v1/locks/a/renew",
            "POST /v1/locks/a/release",
            "POST /v1/namespaces/n/locks/a/release",
            "POST /v1/renew",
            "POST /v1/namespaces/n/release",
            "POST /v1/sessions/s/keepalive",
            "DELETE /v1/sessions/s",
            "POST /leases/l/renew",
            "DELETE /lock?client=a",
            "GET /a/b?lock=release",
            "GET /files/a?lock=%72elease",
            "POST /a/b?lock=refresh",
            "DELETE /auth/session",
            "UNLOCK /dav/a",
            "LOCK /dav/a",
        ] {
            assert_eq!(of(line, ""), Vital::Always, "{line}");
        }
        assert_eq!(of("POST /lock?client=a&ttl=5s", ""), Vital::IfRenewal);
        for line in [
            "PATCH /v1/claims/7/",
            "PUT /v1/claims/7",
            "UNLOCK /terraform/prod",
            "DELETE /terraform/prod/lock",
            "POST /lfs/team/app/locks/7/unlock",
        ] {
            assert_eq!(of(line, ""), Vital::IfOwn, "{line}");
        }
    }

    #[test]
    fn no_word_in_an_address_makes_another_operation_vital() {
        for line in [
            "GET /",
            "GET /metrics",
            "GET /v1/locks",
            "GET /v1/locks/renew",
            "POST /v1/locks/a/acquire",
            "POST /v1/locks/renew/acquire",
            "POST /v1/locks/a/b/renew",
            "POST /v1/sessions",
            "POST /v1/namespaces/n/sessions/s/keepalive",
            "POST /leases/acquire",
            "POST /v1/claims/",
            "PATCH /v1/claims/7/release",
            "PUT /a/release",
            "POST /a/release",
            "GET /a?lock=acquire",
            "GET /a?lock=release&lock=acquire",
            "GET /a?block=release",
            "HEAD /a?lock=release",
            "GET /a/?lock=release",
            "GET /?lock=release",
            "GET /admin/locks?lock=release",
            "GET /v1/events",
            "GET /v1/events?lock=release",
            "GET /v1/namespaces/n/events?lock=refresh",
            "GET /v1/locks?lock=release",
            "POST /v1/locks/a/watch?lock=release",
            "POST /v1/locks/a/acquire?lock=release",
            "GET /console/live?lock=release",
            "GET /lock?lock=release",
            "GET /lock/page?lock=release",
            "POST /lock/page",
            "GET /dav/a?lock=release",
            "GET /terraform/prod?lock=release",
            "POST /terraform/prod?lock=release",
            "GET /lfs/team/app/objects/x?lock=release",
            "PUT /lfs/team/app/locks/7/unlock",
            "DELETE /terraform/prod",
            "LOCK /terraform/prod",
            "POST /terraform/prod",
            "POST /lfs/team/app/locks",
            "UNLOCK /v1/locks/a",
            "BREW /lock",
        ] {
            assert_eq!(of(line, ""), Vital::Never, "{line}");
        }
        assert_eq!(of("LOCK /dav/a", "<lockinfo/>"), Vital::Never);
    }
}
