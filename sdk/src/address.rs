//! Where the servers are: one URL or several, of which one is asked until it does not answer or another one leads.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hyper::Uri;

use crate::Error;
use crate::socket::url_of_socket;

/// Where the leader cannot be reached by us, those that follow it pass requests on. For so long they are asked to do so
/// at once, instead of saying first that they do not lead.
const PASSED_ON_FOR: Duration = Duration::from_secs(30);

/// The URLs of one server, or of several that are one to their clients.
#[derive(Debug)]
pub(crate) struct Addresses {
    /// At least one.
    given: Vec<Arc<Base>>,
    /// Those of them that are Unix sockets.
    unix_paths: Arc<[PathBuf]>,
    ways: Ways,
    state: Mutex<State>,
}

/// How to go to who leads.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ways {
    /// Ask those that do not lead to say who does; left out, if there is a choice.
    pub(crate) direct: Option<bool>,
    /// Also to a leader whose URL was not given.
    pub(crate) follows_any: bool,
}

#[derive(Debug)]
struct State {
    /// Who is asked first.
    chosen: Arc<Base>,
    /// Until then nobody is asked who leads.
    passed_on_until: Option<Instant>,
}

/// One of them.
#[derive(Debug)]
struct Base {
    /// As it was given, without a slash at its end.
    given: String,
    /// What paths are put behind.
    url: String,
}

impl Addresses {
    /// Each text may have several, with commas in between.
    pub(crate) fn new(texts: &[String], ways: Ways) -> Result<Self, Error> {
        let mut unix_paths = Vec::new();
        let mut given: Vec<Arc<Base>> = Vec::new();
        for url in texts.iter().flat_map(|text| text.split(',')).map(str::trim) {
            let base = base(url, &mut unix_paths)?;
            if given.iter().any(|other| other.is_at(&base)) {
                return Err(Error::Invalid(format!("{url:?} is given twice")));
            }
            given.push(Arc::new(base));
        }
        let Some(chosen) = given.first().cloned() else {
            return Err(Error::Invalid("a client needs a URL".into()));
        };
        let state = Mutex::new(State { chosen, passed_on_until: None });
        Ok(Self { given, unix_paths: unix_paths.into(), ways, state })
    }

    /// Is any of them encrypted?
    pub(crate) fn has_tls(&self) -> bool {
        self.given.iter().any(|base| base.is_encrypted())
    }

    /// The URLs, each as it was given.
    pub(crate) fn given(&self) -> impl Iterator<Item = &str> {
        self.given.iter().map(|base| base.given.as_str())
    }

    pub(crate) fn unix_paths(&self) -> &Arc<[PathBuf]> {
        &self.unix_paths
    }

    /// A request's way, which begins at the address that answered last.
    pub(crate) fn trip(&self) -> Trip<'_> {
        let State { chosen, passed_on_until } = &*self.state();
        let is_passed_on = passed_on_until.is_some_and(|until| Instant::now() < until);
        let direct = self.ways.direct.unwrap_or(self.given.len() > 1 || self.ways.follows_any);
        Trip {
            addresses: self,
            at: chosen.clone(),
            tried: vec![chosen.clone()],
            follower: None,
            is_direct: direct && !is_passed_on,
            is_answered: false,
            is_wait: false,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whoever begins from now on begins at the next one. Only the first of those that failed together moves on.
    fn leave(&self, base: &Base) {
        let mut state = self.state();
        if state.chosen.is_at(base) {
            state.chosen = self.after(base);
        }
    }

    /// The one after this in the order they were given; the first after one that was not.
    fn after(&self, base: &Base) -> Arc<Base> {
        let number = self.given.iter().position(|given| given.is_at(base));
        let next = number.map_or(0, |number| (number + 1) % self.given.len());
        self.given[next].clone()
    }

    /// Where a server says the leader is, if we go there.
    fn leader(&self, url: &str) -> Option<Arc<Base>> {
        let found = base(url, &mut Vec::new()).ok().filter(|_| unix_path(url).is_none())?;
        let given = self.given.iter().find(|given| given.is_at(&found)).cloned();
        // Whoever speaks TLS with all servers does not begin to speak without.
        let is_safe = found.is_encrypted() || self.given.iter().any(|given| !given.is_encrypted());
        given.or_else(|| (self.ways.follows_any && is_safe).then(|| Arc::new(found)))
    }
}

impl Clone for Addresses {
    fn clone(&self) -> Self {
        let (given, unix_paths) = (self.given.clone(), self.unix_paths.clone());
        let chosen = self.state().chosen.clone();
        let state = Mutex::new(State { chosen, passed_on_until: None });
        Self { given, unix_paths, ways: self.ways, state }
    }
}

impl Base {
    /// Are both the same place?
    fn is_at(&self, other: &Self) -> bool {
        self.url == other.url
    }

    fn is_encrypted(&self) -> bool {
        self.url.starts_with("https:")
    }
}

/// A request's way from address to address, as long as it is certain that nothing was done: at most once to each of
/// them, and once more to one that is to pass it on.
///
/// If it ends without an answer, the next request begins at the next address: also if it was dropped, because that is
/// how a renewal ends that takes too long. Not if it was a wait that was dropped: nobody was to answer that yet.
#[derive(Debug)]
pub(crate) struct Trip<'a> {
    addresses: &'a Addresses,
    at: Arc<Base>,
    tried: Vec<Arc<Base>>,
    /// The last that said that it does not lead.
    follower: Option<Arc<Base>>,
    is_direct: bool,
    is_answered: bool,
    /// Nobody needs to answer for a while.
    pub(crate) is_wait: bool,
}

impl Trip<'_> {
    /// What a path is put behind.
    pub(crate) fn url(&self) -> &str {
        &self.at.url
    }

    /// The URL as it was given, for people.
    pub(crate) fn given(&self) -> &str {
        &self.at.given
    }

    /// Is whoever does not lead to say so, instead of passing the request on?
    pub(crate) fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// The one asked has answered: it is asked first from now on.
    pub(crate) fn was_answered(&mut self) {
        self.is_answered = true;
        let is_passed_on = self.follower.is_some() && !self.is_direct;
        let mut state = self.addresses.state();
        state.chosen = self.at.clone();
        if is_passed_on {
            state.passed_on_until = Some(Instant::now() + PASSED_ON_FOR);
        }
    }

    /// No answer came from the one asked, and one should have.
    pub(crate) fn was_silent(&mut self) {
        self.addresses.leave(&self.at);
    }

    /// No connection came about: goes on, if there is another one to ask.
    pub(crate) fn was_unreachable(&mut self) -> bool {
        self.addresses.leave(&self.at);
        self.go_on(None)
    }

    /// The one asked does not lead, and says who does if it knows: goes on, if there is another one to ask.
    pub(crate) fn does_not_lead(&mut self, leader: Option<&str>) -> bool {
        self.addresses.leave(&self.at);
        self.follower = Some(self.at.clone());
        let leader = leader.and_then(|url| self.addresses.leader(url));
        self.go_on(leader)
    }

    fn go_on(&mut self, leader: Option<Arc<Base>>) -> bool {
        let is_new = |base: &&Arc<Base>| !self.tried.iter().any(|tried| tried.is_at(base));
        let mut next = self.addresses.after(&self.at);
        let mut others = Vec::new();
        for _ in &self.addresses.given {
            others.push(next.clone());
            next = self.addresses.after(&next);
        }
        let next = leader.iter().chain(&others).find(is_new).cloned();
        if let Some(next) = next {
            self.tried.push(next.clone());
            self.at = next;
            return true;
        }
        // Nobody whom we can reach leads: one of them is to pass it on.
        match self.follower.clone().filter(|_| self.is_direct) {
            Some(follower) => {
                (self.at, self.is_direct) = (follower, false);
                true
            }
            None => false,
        }
    }
}

impl Drop for Trip<'_> {
    fn drop(&mut self) {
        if !self.is_answered && !self.is_wait {
            self.was_silent();
        }
    }
}

fn base(url: &str, unix_paths: &mut Vec<PathBuf>) -> Result<Base, Error> {
    let invalid = |why: &str| Error::Invalid(format!("{url:?} {why}"));
    if url.is_empty() {
        let why =
            "a URL is empty; several are written with one comma in between: http://a,http://b";
        return Err(Error::Invalid(why.into()));
    }
    if let Some(path) = unix_path(url) {
        if path.is_empty() {
            return Err(invalid("has no path; write unix:/run/leasehold.sock"));
        }
        let path = PathBuf::from(path);
        let known = unix_paths.iter().position(|known| *known == path);
        let number = known.unwrap_or_else(|| {
            unix_paths.push(path);
            unix_paths.len() - 1
        });
        return Ok(Base { given: url.into(), url: url_of_socket(number) });
    }
    if url.contains('@') {
        // A password in a URL ends up in messages; so the URL is not shown here either.
        let why = "a URL must have no user and no password; give an API key";
        return Err(Error::Invalid(why.into()));
    }
    let uri: Uri = url.parse().map_err(|_| invalid("is not a URL"))?;
    let port = match uri.scheme_str() {
        Some("http") => 80,
        Some("https") => 443,
        _ => return Err(invalid("does not begin with http://, https:// or unix:")),
    };
    if uri.query().is_some() {
        return Err(invalid("must have no query"));
    }
    // The same text for the same place.
    let host = uri.host().unwrap_or_default().to_ascii_lowercase();
    if host.is_empty() || !host.chars().all(|c| c.is_ascii_alphanumeric() || "-._[]:".contains(c)) {
        return Err(invalid("is not a URL; several are written with commas in between"));
    }
    let scheme = uri.scheme_str().unwrap_or_default();
    let at = match uri.port_u16().filter(|given| *given != port) {
        Some(port) => format!("{scheme}://{host}:{port}"),
        None => format!("{scheme}://{host}"),
    };
    let path = uri.path().trim_end_matches('/');
    Ok(Base { given: url.trim_end_matches('/').into(), url: format!("{at}{path}") })
}

/// `unix:/run/a.sock`, or as a URL would say it, `unix:///run/a.sock`.
pub(crate) fn unix_path(url: &str) -> Option<&str> {
    let path = url.strip_prefix("unix:")?;
    Some(path.strip_prefix("//").unwrap_or(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(list: &str, ways: Ways) -> Addresses {
        Addresses::new(&[list.into()], ways).unwrap()
    }

    fn two() -> Addresses {
        addresses("http://a,http://b/", Ways::default())
    }

    #[test]
    fn an_address_is_kept_as_long_as_it_answers() {
        let addresses = two();
        for _ in 0..3 {
            let mut trip = addresses.trip();
            assert_eq!(trip.url(), "http://a");
            trip.was_answered();
        }
    }

    #[test]
    fn those_that_fail_together_move_on_by_one() {
        let addresses = two();
        let trips = [addresses.trip(), addresses.trip(), addresses.trip()];
        drop(trips);
        assert_eq!(addresses.trip().url(), "http://b");
        assert_eq!(addresses.trip().url(), "http://a", "the trip before was not answered");
    }

    #[test]
    fn every_address_is_tried_once_if_none_is_there() {
        let addresses = addresses("http://a,http://b,http://c", Ways::default());
        drop(addresses.trip());
        let mut trip = addresses.trip();
        let mut seen = vec![trip.url().to_owned()];
        while trip.was_unreachable() {
            seen.push(trip.url().to_owned());
        }
        assert_eq!(seen, ["http://b", "http://c", "http://a"]);
    }

    #[test]
    fn a_leader_is_followed_to_where_it_was_given() {
        let addresses = addresses("http://a,http://b,http://C:80/x/", Ways::default());
        let mut trip = addresses.trip();
        assert!(trip.is_direct() && trip.does_not_lead(Some("http://c/x")));
        assert_eq!((trip.url(), trip.given()), ("http://c/x", "http://C:80/x"));
        trip.was_answered();
        drop(trip);
        assert_eq!(addresses.trip().url(), "http://c/x");
    }

    #[test]
    fn a_leader_that_was_not_given_is_left_to_those_that_know_it() {
        for leader in ["http://evil", "unix:/run/a.sock", "b", "https://a", "http://a/other", ""] {
            let addresses = two();
            let mut trip = addresses.trip();
            assert!(trip.does_not_lead(Some(leader)));
            assert_eq!((trip.url(), trip.is_direct()), ("http://b", true), "{leader}");
            assert!(trip.does_not_lead(Some(leader)));
            assert_eq!((trip.url(), trip.is_direct()), ("http://b", false), "it passes it on");
            trip.was_answered();
            let trip = addresses.trip();
            assert_eq!((trip.url(), trip.is_direct()), ("http://b", false), "and so for a while");
        }
    }

    #[test]
    fn a_leader_that_is_gone_is_not_asked_twice() {
        let addresses = two();
        let mut trip = addresses.trip();
        assert!(trip.was_unreachable() && trip.url() == "http://b");
        assert!(trip.does_not_lead(Some("http://a")));
        assert_eq!((trip.url(), trip.is_direct()), ("http://b", false));
        assert!(!trip.was_unreachable());
    }

    #[test]
    fn one_address_is_not_asked_who_leads() {
        let one = addresses("http://a", Ways::default());
        let mut trip = one.trip();
        assert!(!trip.is_direct());
        assert!(!trip.does_not_lead(Some("http://b")));
        let direct = addresses("http://a", Ways { direct: Some(true), follows_any: false });
        assert!(direct.trip().is_direct());
    }

    #[test]
    fn any_leader_is_followed_if_that_is_meant_and_never_to_less_safety() {
        let ways = Ways { direct: None, follows_any: true };
        let any = addresses("http://a", ways);
        let mut trip = any.trip();
        assert!(trip.is_direct() && trip.does_not_lead(Some("http://n7:81/")));
        assert_eq!(trip.url(), "http://n7:81");
        trip.was_answered();
        drop(trip);
        let mut trip = any.trip();
        assert_eq!(trip.url(), "http://n7:81");
        assert!(trip.was_unreachable() && trip.url() == "http://a", "back to what was given");
        let safe = addresses("https://a,https://b", ways);
        let mut trip = safe.trip();
        assert!(trip.does_not_lead(Some("http://c")));
        assert_eq!(trip.url(), "https://b");
    }

    #[test]
    fn lists_that_make_no_sense_are_refused_and_why() {
        let said = |list: &str| match Addresses::new(&[list.into()], Ways::default()) {
            Ok(_) => panic!("{list} is taken"),
            Err(error) => error.to_string(),
        };
        assert!(Addresses::new(&[], Ways::default()).is_err());
        for list in ["", ",", "http://a,", "http://a,,http://b", ",http://a"] {
            assert!(said(list).contains("a URL is empty; several are written"), "{list}");
        }
        for url in
            ["b", "unix:", "ftp://a", "https://a?x", "http://", "http://a b", "http://c;http://d"]
        {
            assert!(said(&format!("http://a,{url}")).contains(&format!("{url:?} ")), "{url}");
        }
        for list in ["http://a,http://A:80/", "unix:/a,unix:///a", "https://a:443,https://a"] {
            assert!(said(list).contains("is given twice"), "{list}");
        }
        let said = said("http://a,http://me:secret@b");
        assert!(said.contains("no user and no password") && !said.contains("secret"), "{said}");
    }

    #[test]
    fn a_unix_socket_is_an_address_like_any_other() {
        let addresses =
            addresses("https://a/, unix:/run/a.sock ,unix:///run/b.sock", Ways::default());
        assert!(addresses.has_tls() && !two().has_tls());
        assert_eq!(**addresses.unix_paths(), ["/run/a.sock", "/run/b.sock"].map(PathBuf::from));
        let shown = [(); 3].map(|()| addresses.trip().given().to_owned());
        assert_eq!(shown, ["https://a", "unix:/run/a.sock", "unix:///run/b.sock"]);
    }
}
