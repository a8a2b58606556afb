//! Where the server is: one URL or several, of which one is asked until it does not answer.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use hyper::Uri;

use crate::Error;
use crate::socket::url_of_socket;

/// The URLs of one server, or of several that are one to their clients.
#[derive(Debug)]
pub(crate) struct Addresses {
    /// At least one.
    bases: Vec<Base>,
    /// Those of them that are Unix sockets.
    unix_paths: Arc<[PathBuf]>,
    /// Counts on, also beyond their number.
    chosen: AtomicUsize,
}

/// One of them.
#[derive(Clone, Debug)]
struct Base {
    /// As it was given, without a slash at its end.
    given: String,
    /// What paths are put behind.
    url: String,
}

impl Addresses {
    pub(crate) fn new(urls: &[String]) -> Result<Self, Error> {
        let mut unix_paths = Vec::new();
        let bases = urls.iter().map(|url| base(url, &mut unix_paths));
        let bases = bases.collect::<Result<Vec<_>, _>>()?;
        if bases.is_empty() {
            return Err(Error::Invalid("a client needs a URL".into()));
        }
        Ok(Self { bases, unix_paths: unix_paths.into(), chosen: AtomicUsize::new(0) })
    }

    /// Is any of them encrypted?
    pub(crate) fn has_tls(&self) -> bool {
        self.bases.iter().any(|base| base.url.starts_with("https:"))
    }

    pub(crate) fn unix_paths(&self) -> &Arc<[PathBuf]> {
        &self.unix_paths
    }

    /// One request's turn, at the address that answered last.
    pub(crate) fn turn(&self) -> Turn<'_> {
        let number = self.chosen.load(Relaxed);
        Turn { addresses: self, number, is_answered: AtomicBool::new(false) }
    }
}

impl Clone for Addresses {
    fn clone(&self) -> Self {
        let (bases, unix_paths) = (self.bases.clone(), self.unix_paths.clone());
        Self { bases, unix_paths, chosen: AtomicUsize::new(self.chosen.load(Relaxed)) }
    }
}

/// A request's turn. If it ends without an answer, the next request goes to the next address: also if it was dropped,
/// because that is how a renewal ends that takes too long. Whoever drops a wait for other reasons costs the others no
/// more than a new connection.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    addresses: &'a Addresses,
    number: usize,
    is_answered: AtomicBool,
}

impl Turn<'_> {
    /// What a path is put behind.
    pub(crate) fn url(&self) -> &str {
        &self.base().url
    }

    /// The URL as it was given, for people.
    pub(crate) fn given(&self) -> &str {
        &self.base().given
    }

    fn base(&self) -> &Base {
        &self.addresses.bases[self.number % self.addresses.bases.len()]
    }

    pub(crate) fn was_answered(&self) {
        self.is_answered.store(true, Relaxed);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if !self.is_answered.load(Relaxed) {
            // Only the first of those that failed together moves on.
            let next = self.number.wrapping_add(1);
            let _ = self.addresses.chosen.compare_exchange(self.number, next, Relaxed, Relaxed);
        }
    }
}

fn base(url: &str, unix_paths: &mut Vec<PathBuf>) -> Result<Base, Error> {
    let invalid = |why: &str| Error::Invalid(format!("{url:?} {why}"));
    if let Some(path) = unix_path(url) {
        if path.is_empty() {
            return Err(invalid("has no path; write unix:/run/leasehold.sock"));
        }
        unix_paths.push(path.into());
        return Ok(Base { given: url.into(), url: url_of_socket(unix_paths.len() - 1) });
    }
    let uri: Uri = url.parse().map_err(|_| invalid("is no URL"))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(invalid("does not begin with http://, https:// or unix:"));
    }
    if uri.query().is_some() {
        return Err(invalid("must have no query"));
    }
    let url = url.trim_end_matches('/').to_owned();
    Ok(Base { given: url.clone(), url })
}

/// `unix:/run/a.sock`, or as a URL would say it, `unix:///run/a.sock`.
pub(crate) fn unix_path(url: &str) -> Option<&str> {
    let path = url.strip_prefix("unix:")?;
    Some(path.strip_prefix("//").unwrap_or(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> Addresses {
        Addresses::new(&["http://a".into(), "http://b/".into()]).unwrap()
    }

    #[test]
    fn an_address_is_kept_as_long_as_it_answers() {
        let addresses = two();
        for _ in 0..3 {
            let turn = addresses.turn();
            assert_eq!(turn.url(), "http://a");
            turn.was_answered();
        }
    }

    #[test]
    fn those_that_fail_together_move_on_by_one() {
        let addresses = two();
        let turns = [addresses.turn(), addresses.turn(), addresses.turn()];
        drop(turns);
        assert_eq!(addresses.turn().url(), "http://b");
        assert_eq!(addresses.turn().url(), "http://a", "the turn before was not answered");
    }

    #[test]
    fn no_url_and_a_bad_one_are_refused() {
        assert!(Addresses::new(&[]).is_err());
        for url in ["b", "unix:", "unix://", "ftp://a", "https://a?x"] {
            assert!(Addresses::new(&["http://a".into(), url.into()]).is_err(), "{url}");
        }
    }

    #[test]
    fn a_unix_socket_is_an_address_like_any_other() {
        let urls = ["https://a/", "unix:/run/a.sock", "unix:///run/b.sock"].map(String::from);
        let addresses = Addresses::new(&urls).unwrap();
        assert!(addresses.has_tls() && !two().has_tls());
        assert_eq!(**addresses.unix_paths(), ["/run/a.sock", "/run/b.sock"].map(PathBuf::from));
        let shown = [(); 3].map(|()| addresses.turn().given().to_owned());
        assert_eq!(shown, ["https://a", "unix:/run/a.sock", "unix:///run/b.sock"]);
    }
}
