//! Server addresses: one URL or several. The client uses one until it stops responding or another server is the
//! leader.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hyper::Uri;

use crate::Error;
use crate::socket::url_of_socket;

/// How long to let followers forward requests immediately, after the client could not reach the leader itself. In
/// this time, it does not ask followers to reject requests and name the leader.
const PASSED_ON_FOR: Duration = Duration::from_secs(30);

/// The URLs of one server or of one cluster.
#[derive(Debug)]
pub(crate) struct Addresses {
    /// The configured addresses, at least one.
    given: Vec<Arc<Base>>,
    /// The Unix socket paths among the URLs.
    unix_paths: Arc<[PathBuf]>,
    ways: Ways,
    state: Mutex<Preference>,
}

/// How to reach the leader.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ways {
    /// Whether followers reject requests and name the leader, instead of forwarding them. `None`: only if there are
    /// several URLs to choose from.
    pub(crate) direct: Option<bool>,
    /// Whether to follow a redirect to a leader whose URL was not configured.
    pub(crate) follows_any: bool,
}

#[derive(Debug)]
struct Preference {
    /// The address that the next request tries first.
    chosen: Arc<Base>,
    /// Until this time, followers forward requests instead of naming the leader.
    passed_on_until: Option<Instant>,
}

/// One address.
#[derive(Debug)]
struct Base {
    /// The URL as configured, without a trailing slash.
    given: String,
    /// The prefix of every request path.
    url: String,
}

impl Addresses {
    /// Each text can contain several URLs, separated by commas.
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
        let state = Mutex::new(Preference { chosen, passed_on_until: None });
        Ok(Self { given, unix_paths: unix_paths.into(), ways, state })
    }

    /// Returns whether any of the URLs uses TLS.
    pub(crate) fn has_tls(&self) -> bool {
        self.given.iter().any(|base| base.is_encrypted())
    }

    /// Returns the URLs as configured.
    pub(crate) fn given(&self) -> impl Iterator<Item = &str> {
        self.given.iter().map(|base| base.given.as_str())
    }

    pub(crate) fn unix_paths(&self) -> &Arc<[PathBuf]> {
        &self.unix_paths
    }

    /// Starts the route of a request, at the address that last responded.
    pub(crate) fn trip(&self) -> Trip<'_> {
        let Preference { chosen, passed_on_until } = &*self.state();
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

    fn state(&self) -> MutexGuard<'_, Preference> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes later requests start at the next address. If several requests to one address fail together, only the
    /// first moves on.
    fn leave(&self, base: &Base) {
        let mut state = self.state();
        if state.chosen.is_at(base) {
            state.chosen = self.after(base);
        }
    }

    /// Returns the address after this one in the configured order, or the first one if this one was not configured.
    fn after(&self, base: &Base) -> Arc<Base> {
        let number = self.given.iter().position(|given| given.is_at(base));
        let next = number.map_or(0, |number| (number + 1) % self.given.len());
        self.given[next].clone()
    }

    /// Returns the address of the leader that a server named, if the client is allowed to go there.
    fn leader(&self, url: &str) -> Option<Arc<Base>> {
        let found = base(url, &mut Vec::new()).ok().filter(|_| unix_path(url).is_none())?;
        let given = self.given.iter().find(|given| given.is_at(&found)).cloned();
        // If all configured URLs use TLS, never follow a leader to plain HTTP.
        let is_safe = found.is_encrypted() || self.given.iter().any(|given| !given.is_encrypted());
        given.or_else(|| (self.ways.follows_any && is_safe).then(|| Arc::new(found)))
    }
}

impl Clone for Addresses {
    fn clone(&self) -> Self {
        let (given, unix_paths) = (self.given.clone(), self.unix_paths.clone());
        let chosen = self.state().chosen.clone();
        let state = Mutex::new(Preference { chosen, passed_on_until: None });
        Self { given, unix_paths, ways: self.ways, state }
    }
}

impl Base {
    /// Returns whether both are the same address.
    fn is_at(&self, other: &Self) -> bool {
        self.url == other.url
    }

    fn is_encrypted(&self) -> bool {
        self.url.starts_with("https:")
    }
}

/// The route of a request from address to address. It moves on only while it is certain that no server processed the
/// request. It visits each address at most once, and a follower once more to have it forward the request.
///
/// If the route ends without a response, the next request starts at the next address. This includes a dropped route,
/// because that is how a renewal that takes too long ends. A dropped wait is the exception: no response was due yet.
#[derive(Debug)]
pub(crate) struct Trip<'a> {
    addresses: &'a Addresses,
    at: Arc<Base>,
    tried: Vec<Arc<Base>>,
    /// The last server that reported that it is not the leader.
    follower: Option<Arc<Base>>,
    is_direct: bool,
    is_answered: bool,
    /// The request waits in a queue, so no response is due for a while.
    pub(crate) is_wait: bool,
}

impl Trip<'_> {
    /// Returns the prefix of the request path.
    pub(crate) fn url(&self) -> &str {
        &self.at.url
    }

    /// Returns the URL as configured, for messages.
    pub(crate) fn given(&self) -> &str {
        &self.at.given
    }

    /// Returns whether a follower should reject the request and name the leader, instead of forwarding it.
    pub(crate) fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// Records that the current address responded. Later requests try it first.
    pub(crate) fn was_answered(&mut self) {
        self.is_answered = true;
        let is_passed_on = self.follower.is_some() && !self.is_direct;
        let mut state = self.addresses.state();
        state.chosen = self.at.clone();
        if is_passed_on {
            state.passed_on_until = Some(Instant::now() + PASSED_ON_FOR);
        }
    }

    /// Records that the current address should have responded but did not.
    pub(crate) fn was_silent(&mut self) {
        self.addresses.leave(&self.at);
    }

    /// Records that the connection failed. Moves to the next address, and returns whether there is one.
    pub(crate) fn was_unreachable(&mut self) -> bool {
        self.addresses.leave(&self.at);
        self.go_on(None)
    }

    /// Records that the current address is not the leader and which leader it named. Moves to the next address, and
    /// returns whether there is one.
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
        // No leader is reachable from here, so let a follower forward the request.
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
        let why = "a URL is empty; separate several with commas: http://a,http://b";
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
        // A password in a URL would end up in messages, so the URL is not printed here.
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
    // Normalizes the URL, so that equal addresses have equal texts.
    let host = uri.host().unwrap_or_default().to_ascii_lowercase();
    if host.is_empty() || !host.chars().all(|c| c.is_ascii_alphanumeric() || "-._[]:".contains(c)) {
        return Err(invalid("is not a URL; separate several with commas"));
    }
    let scheme = uri.scheme_str().unwrap_or_default();
    let at = match uri.port_u16().filter(|given| *given != port) {
        Some(port) => format!("{scheme}://{host}:{port}"),
        None => format!("{scheme}://{host}"),
    };
    let path = uri.path().trim_end_matches('/');
    Ok(Base { given: url.trim_end_matches('/').into(), url: format!("{at}{path}") })
}

/// Returns the socket path in `unix:/run/a.sock` or `unix:///run/a.sock`.
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
            assert!(said(list).contains("a URL is empty; separate several"), "{list}");
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
