//! What is served even if there is no place left: what keeps a lock from being lost or held for nothing, and what tells
//! whether the server is well. None of it waits.

use axum::http::{Method, Uri};

/// Whichever dialect it is.
pub(super) fn is_vital(method: &Method, uri: &Uri) -> bool {
    let path = uri.path();
    let last = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    match method.as_str() {
        "GET" | "HEAD" => {
            let is_health =
                matches!(path, "/healthz" | "/livez" | "/readyz" | "/leaderz" | "/health");
            is_health || is_of_held_file(uri)
        }
        // In the sticky dialect, asking again is renewing.
        "POST" if path == "/lock" => true,
        "POST" if path.starts_with("/v1/") || path.starts_with("/leases/") => {
            matches!(last, "renew" | "release" | "keepalive")
        }
        "POST" if path.starts_with("/lfs/") => last == "unlock",
        "POST" => is_of_held_file(uri),
        "DELETE" => {
            path.starts_with("/v1/sessions/")
                || path.starts_with("/terraform/")
                || matches!(path, "/lock" | "/auth/session")
        }
        "UNLOCK" => true,
        "PATCH" | "PUT" => path.starts_with("/v1/claims/"),
        _ => false,
    }
}

/// Releases or renews a file's lock.
fn is_of_held_file(uri: &Uri) -> bool {
    let is_vital = |pair| matches!(pair, "lock=release" | "lock=refresh");
    uri.query().is_some_and(|query| query.split('&').any(is_vital))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_cannot_wait_is_vital() {
        let is_vital = |line: &str| {
            let (method, target) = line.split_once(' ').expect("a method and a target");
            is_vital(&method.parse().expect("a method"), &target.parse().expect("a target"))
        };
        for line in [
            "GET /healthz",
            "HEAD /readyz",
            "GET /health",
            "POST /v1/locks/a/renew",
            "POST /v1/locks/a/release",
            "POST /v1/namespaces/n/locks/a/release",
            "POST /v1/sessions/s/keepalive",
            "DELETE /v1/sessions/s",
            "POST /leases/l/renew",
            "POST /lock?client=a&ttl=5s",
            "DELETE /lock?client=a",
            "PATCH /v1/claims/7/",
            "GET /a/b?lock=release",
            "POST /a/b?lock=refresh",
            "DELETE /auth/session",
            "UNLOCK /terraform/prod",
            "DELETE /terraform/prod/lock",
            "POST /lfs/team/app/locks/7/unlock",
        ] {
            assert!(is_vital(line), "{line}");
        }
        for line in [
            "GET /",
            "GET /metrics",
            "GET /v1/locks",
            "GET /v1/locks/renew",
            "POST /v1/locks/a/acquire",
            "POST /v1/locks/renew/acquire",
            "POST /v1/sessions",
            "POST /leases/acquire",
            "POST /v1/claims/",
            "PUT /a/release",
            "POST /a/release",
            "GET /a?lock=acquire",
            "GET /v1/events",
            "LOCK /terraform/prod",
            "POST /terraform/prod",
            "POST /lfs/team/app/locks",
            "BREW /lock",
        ] {
            assert!(!is_vital(line), "{line}");
        }
    }
}
