//! Decides which requests are served when the server is full or beyond a rate limit: renewals and releases of what the
//! caller holds, and health checks. None of them waits or streams.
//!
//! The operation decides, not a word in the URL: a request counts only if the handler of its protocol would renew or
//! release something.

use axum::body::HttpBody;
use axum::extract::Query;
use axum::http::request::Parts;
use axum::http::{Method, Request, Uri};

use crate::dialect::{Dialect, of_path};

/// How important a request is for holders.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Vital {
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
    pub(super) fn of<B: HttpBody>(request: &Request<B>) -> Self {
        let is_empty = || request.body().is_end_stream();
        Self::by(request.method(), request.uri(), is_empty)
    }

    fn by(method: &Method, uri: &Uri, is_empty: impl FnOnce() -> bool) -> Self {
        let segments: Vec<_> = uri.path().split('/').skip(1).collect();
        let is_always = match (of_path(uri.path()), method.as_str()) {
            (Dialect::Sticky, "POST") if uri.path() == "/lock" => return Self::IfRenewal,
            (Dialect::Sticky, "DELETE") => uri.path() == "/lock",
            (Dialect::Native | Dialect::Leases, "GET" | "HEAD") => is_health(uri.path()),
            (Dialect::Native, "POST" | "DELETE") => is_native(method, &segments),
            (Dialect::Leases, "POST") => matches!(segments[..], ["leases", _, "renew" | "release"]),
            (Dialect::Files, "DELETE") => uri.path() == "/auth/session",
            (Dialect::Files, "GET" | "POST") => is_of_held_file(&segments, uri),
            (dialect, method) if can_take_away(dialect, method, &segments) => return Self::IfOwn,
            (Dialect::Dav, "UNLOCK") => true,
            // `LOCK` without a body refreshes a lock.
            (Dialect::Dav, "LOCK") => is_empty(),
            _ => false,
        };
        if is_always { Self::Always } else { Self::Never }
    }
}

/// Returns whether the request is one that is never refused, for handlers that apply the rate limit themselves.
pub(crate) fn is_vital(parts: &Parts) -> bool {
    Vital::by(&parts.method, &parts.uri, || true) == Vital::Always
}

/// Returns whether the request's body decides between ending the caller's own lock and taking one from another
/// principal.
fn can_take_away(dialect: Dialect, method: &str, segments: &[&str]) -> bool {
    match (dialect, method) {
        (Dialect::Claims, "PATCH" | "PUT") => {
            matches!(segments, ["v1", "claims", _] | ["v1", "claims", _, ""])
        }
        (Dialect::Terraform, "UNLOCK") => {
            matches!(segments, ["terraform", _] | ["terraform", _, "lock"])
        }
        (Dialect::Terraform, "DELETE") => matches!(segments, ["terraform", _, "lock"]),
        (Dialect::Lfs, "POST") => matches!(segments, ["lfs", _, .., "locks", _, "unlock"]),
        _ => false,
    }
}

fn is_health(path: &str) -> bool {
    matches!(path, "/healthz" | "/livez" | "/readyz" | "/leaderz" | "/health")
}

/// Returns whether the request renews or releases a lease, several leases or a session.
fn is_native(method: &Method, segments: &[&str]) -> bool {
    let segments = match segments {
        ["v1", "namespaces", _, rest @ ..] if !matches!(rest, ["sessions", ..]) => rest,
        ["v1", rest @ ..] => rest,
        _ => return false,
    };
    match segments {
        ["sessions", _] => method == Method::DELETE,
        ["sessions", _, "keepalive"] => method == Method::POST,
        ["renew" | "release"] | ["locks", _, "renew" | "release"] => method == Method::POST,
        _ => false,
    }
}

/// Returns whether the request releases or renews a file's lock. Directories have no locks, and other paths of the
/// protocol take no `lock` parameter.
fn is_of_held_file(segments: &[&str], uri: &Uri) -> bool {
    let is_file = !matches!(segments, ["auth" | "admin", ..] | [.., ""]);
    let Some(query) = uri.query().filter(|query| is_file && query.contains("lock")) else {
        return false;
    };
    // With further parameters, the handler would refuse the request, or this is not such a request.
    let is_one = !query.contains('&');
    let pairs = Query::<Vec<(String, String)>>::try_from_uri(uri);
    let operation = |(name, value): &(String, String)| {
        name == "lock" && matches!(value.as_str(), "release" | "refresh")
    };
    is_one && pairs.is_ok_and(|Query(pairs)| pairs.iter().all(operation))
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
