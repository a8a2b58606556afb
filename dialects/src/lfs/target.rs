//! Parses the path of a request. The name of a repository can contain slashes, so the path is parsed from its end.

/// The part of a repository that a request is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Target {
    /// The repository's locks.
    Locks,
    /// The repository's locks, with those of the caller separate.
    Verify,
    /// The lock with this id, to unlock it.
    Unlock(String),
    /// A batch of objects.
    Batch,
    /// The content of an object. The id is not yet checked.
    Object(String),
    /// Whether an object is stored.
    Stored(String),
}

/// Returns the name of the repository and the target, or `None` if the path does not exist.
pub(super) fn parse(path: &str) -> Option<(&str, Target)> {
    let path = path.strip_prefix("/lfs/")?;
    let (repository, target) = split(path)?;
    // By default, git-lfs derives the URL from that of the git remote.
    let repository = repository.strip_suffix("/info/lfs").unwrap_or(repository);
    Some((repository.strip_suffix(".git").unwrap_or(repository), target))
}

fn split(path: &str) -> Option<(&str, Target)> {
    let (before, last) = path.rsplit_once('/')?;
    if last == "locks" {
        return Some((before, Target::Locks));
    }
    let (before, word) = before.rsplit_once('/')?;
    match (word, last) {
        ("locks", "verify") => return Some((before, Target::Verify)),
        ("objects", "batch") => return Some((before, Target::Batch)),
        ("objects", oid) => return Some((before, Target::Object(oid.into()))),
        _ => {}
    }
    let (before, outer) = before.rsplit_once('/')?;
    match (outer, last) {
        ("locks", "unlock") => Some((before, Target::Unlock(word.into()))),
        ("objects", "verify") => Some((before, Target::Stored(word.into()))),
        _ => None,
    }
}

/// Returns whether the path transfers an object. git-lfs endlessly repeats transfers that get status 401.
pub fn is_transfer(path: &str) -> bool {
    // Nearly all requests are for other dialects, so this check comes first.
    path.starts_with("/lfs/")
        && matches!(parse(path), Some((_, Target::Object(_) | Target::Stored(_))))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OID: &str = "68ee1e1e2b6b4b3ac1ecaf6bd7a5e4b2ec7ea5ccef5bb7ba9c3fd2f2a5e9bd01";

    #[test]
    fn a_path_is_read_from_its_end() {
        let oid = || OID.to_owned();
        for (path, repository, target) in [
            ("/lfs/app/locks", "app", Target::Locks),
            ("/lfs/team/app/locks", "team/app", Target::Locks),
            ("/lfs/team/app.git/info/lfs/locks", "team/app", Target::Locks),
            ("/lfs/team/app.git/locks/verify", "team/app", Target::Verify),
            ("/lfs/a/locks/locks", "a/locks", Target::Locks),
            ("/lfs/a/locks/7/unlock", "a", Target::Unlock("7".into())),
            ("/lfs/a/objects/batch", "a", Target::Batch),
            (&format!("/lfs/a/b/objects/{OID}"), "a/b", Target::Object(oid())),
            (&format!("/lfs/a/b/objects/{OID}/verify"), "a/b", Target::Stored(oid())),
        ] {
            assert_eq!(parse(path), Some((repository, target)), "{path}");
        }
        for path in [
            "/lfs/locks",
            "/lfs/",
            "/lfs/a",
            "/lfs/a/objects",
            "/lfs/a/locks/7",
            "/lfs/objects/batch",
            "/other/a/locks",
        ] {
            assert_eq!(parse(path), None, "{path}");
        }
        assert!(is_transfer(&format!("/lfs/a/objects/{OID}")));
        assert!(is_transfer(&format!("/lfs/a.git/info/lfs/objects/{OID}/verify")));
        assert!(!is_transfer("/lfs/a/objects/batch") && !is_transfer("/lfs/a/locks"));
    }
}
