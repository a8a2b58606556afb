//! What the request pipeline must know of an operation before its handler runs. Each dialect declares its operations
//! that differ from the others in the constant `ROUTES` of its folder.

use axum::http::Uri;

use super::vital::Vital;

/// An operation: a method and the pattern of a path.
///
/// `{name}` in the pattern stands for one segment, and `{*name}` for one or more.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    method: &'static str,
    path: &'static str,
    vital: Vital,
    is_on_followers: bool,
    case: Case,
}

/// Which requests of a method and path the declaration is about. Protocols that were not made by this project put
/// several operations on the same path.
#[derive(Clone, Copy, Debug)]
enum Case {
    /// All requests.
    Every,
    /// Requests without a body.
    Empty,
    /// Requests whose query string names the operation; the function recognizes them.
    Named(fn(&Uri) -> bool),
}

impl Route {
    /// An operation that can wait, and that only the leader answers.
    pub(crate) const fn new(method: &'static str, path: &'static str) -> Self {
        Self { method, path, vital: Vital::Never, is_on_followers: false, case: Case::Every }
    }

    /// It renews or releases, so it is answered when the server is full.
    pub(crate) const fn vital(self, vital: Vital) -> Self {
        Self { vital, ..self }
    }

    /// Every server of a cluster answers it, because followers read the same journal.
    pub(crate) const fn on_followers(self) -> Self {
        Self { is_on_followers: true, ..self }
    }

    /// Only requests without a body are this operation.
    pub(crate) const fn without_body(self) -> Self {
        Self { case: Case::Empty, ..self }
    }

    /// Only requests for which the function returns `true` are this operation.
    pub(crate) const fn named(self, is_named: fn(&Uri) -> bool) -> Self {
        Self { case: Case::Named(is_named), ..self }
    }

    /// Returns the method.
    pub fn method(&self) -> &'static str {
        self.method
    }

    /// Returns the pattern of the path.
    pub fn path(&self) -> &'static str {
        self.path
    }

    fn is(&self, method: &str, path: &str) -> bool {
        let mut segments = path.split('/').skip(1);
        self.method == method && is_path(self.path.split('/').skip(1), &mut segments)
    }
}

/// Returns how important a request is for holders, by the operations of its dialect.
pub(super) fn vital(
    routes: &[Route],
    method: &str,
    uri: &Uri,
    is_empty: impl FnOnce() -> bool,
) -> Vital {
    let route =
        routes.iter().find(|route| route.vital != Vital::Never && route.is(method, uri.path()));
    route.map_or(Vital::Never, |route| {
        let is_this = match route.case {
            Case::Every => true,
            Case::Empty => is_empty(),
            Case::Named(is_named) => is_named(uri),
        };
        if is_this { route.vital } else { Vital::Never }
    })
}

/// Returns whether a follower answers a request, by the operations of its dialect.
pub(super) fn is_on_followers(routes: &[Route], method: &str, path: &str) -> bool {
    routes.iter().any(|route| route.is_on_followers && route.is(method, path))
}

/// Returns whether the segments of a path fit those of a pattern.
fn is_path<'a>(
    mut pattern: impl Iterator<Item = &'static str> + Clone,
    segments: &mut (impl Iterator<Item = &'a str> + Clone),
) -> bool {
    while let Some(expected) = pattern.next() {
        let Some(segment) = segments.next() else { return false };
        if expected.starts_with("{*") {
            // It stands for this segment and any number of those after it.
            let mut rest = segments.clone();
            loop {
                if is_path(pattern.clone(), &mut rest.clone()) {
                    return true;
                }
                if rest.next().is_none() {
                    return false;
                }
            }
        }
        if !expected.starts_with('{') && expected != segment {
            return false;
        }
    }
    segments.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_fits_paths_with_as_many_segments() {
        let is = |pattern: &'static str, path: &str| {
            is_path(pattern.split('/').skip(1), &mut path.split('/').skip(1))
        };
        for (pattern, path) in [
            ("/lock", "/lock"),
            ("/v1/locks/{lock}/renew", "/v1/locks/a/renew"),
            ("/{*file}", "/a"),
            ("/{*file}", "/a/b/c"),
            ("/lfs/{*repository}/locks/{id}/unlock", "/lfs/a/b/locks/7/unlock"),
            ("/lfs/{*repository}/locks/{id}/unlock", "/lfs/a/locks/locks/7/unlock"),
        ] {
            assert!(is(pattern, path), "{pattern} {path}");
        }
        for (pattern, path) in [
            ("/lock", "/locks"),
            ("/lock", "/lock/"),
            ("/v1/locks/{lock}/renew", "/v1/locks/renew"),
            ("/v1/locks/{lock}/renew", "/v1/locks/a/b/renew"),
            ("/lfs/{*repository}/locks/{id}/unlock", "/lfs/locks/7/unlock"),
        ] {
            assert!(!is(pattern, path), "{pattern} {path}");
        }
    }
}
