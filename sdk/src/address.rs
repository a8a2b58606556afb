//! Where the server is: one URL or several, of which one is asked until it does not answer.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use hyper::Uri;

use crate::Error;

/// The URLs of one server, or of several that are one to their clients.
#[derive(Debug)]
pub(crate) struct Addresses {
    /// At least one, each without a slash at its end.
    bases: Vec<String>,
    /// Counts on, also beyond their number.
    chosen: AtomicUsize,
}

impl Addresses {
    pub(crate) fn new(urls: &[String]) -> Result<Self, Error> {
        let bases = urls.iter().map(|url| base(url)).collect::<Result<Vec<_>, _>>()?;
        if bases.is_empty() {
            return Err(Error::Invalid("a client needs a URL".into()));
        }
        Ok(Self { bases, chosen: AtomicUsize::new(0) })
    }

    /// One request's turn, at the address that answered last.
    pub(crate) fn turn(&self) -> Turn<'_> {
        let number = self.chosen.load(Relaxed);
        Turn { addresses: self, number, is_answered: AtomicBool::new(false) }
    }
}

impl Clone for Addresses {
    fn clone(&self) -> Self {
        Self { bases: self.bases.clone(), chosen: AtomicUsize::new(self.chosen.load(Relaxed)) }
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
    pub(crate) fn base(&self) -> &str {
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

fn base(url: &str) -> Result<String, Error> {
    let invalid = |why: &str| Error::Invalid(format!("{url:?} {why}"));
    let uri: Uri = url.parse().map_err(|_| invalid("is no URL"))?;
    match uri.scheme_str() {
        Some("http") => {}
        Some("https") => return Err(invalid("asks for TLS, which this client does not speak")),
        _ => return Err(invalid("does not begin with http://")),
    }
    if uri.query().is_some() {
        return Err(invalid("must have no query"));
    }
    Ok(url.trim_end_matches('/').into())
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
            assert_eq!(turn.base(), "http://a");
            turn.was_answered();
        }
    }

    #[test]
    fn those_that_fail_together_move_on_by_one() {
        let addresses = two();
        let turns = [addresses.turn(), addresses.turn(), addresses.turn()];
        drop(turns);
        assert_eq!(addresses.turn().base(), "http://b");
        assert_eq!(addresses.turn().base(), "http://a", "the turn before was not answered");
    }

    #[test]
    fn no_url_and_a_bad_one_are_refused() {
        assert!(Addresses::new(&[]).is_err());
        assert!(Addresses::new(&["http://a".into(), "b".into()]).is_err());
    }
}
