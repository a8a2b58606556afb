//! Identifies the caller of a request. Every credential in the request is checked, and all must name the same
//! principal.

use std::net::IpAddr;
use std::sync::Arc;

use http::{HeaderMap, header};
use leasehold_core::Timestamp;

use super::credential::{self, Credential};
use super::gate::Authority;
use super::issuer::{self, Asked, Code, Digest, Doubt, Issuer};
use super::policy::Login;
use super::remembered::Term;
use super::standing::Standing;
use super::{Caller, Denied, Principal, Way, proxy};

/// A token that is not cached; checking it can require a request to its issuer.
pub struct Inquiry {
    authority: Arc<Authority>,
    token: String,
    digest: Digest,
    /// The principal that the request's other credentials prove.
    beside: Option<Principal>,
    /// The `[mtls]` settings (by id) under which the connection's certificate was accepted.
    certified_by: Option<Arc<str>>,
}

impl Caller {
    /// Identifies the caller from the headers and the connection. Returns an [`Inquiry`] if a token must be checked
    /// first.
    ///
    /// `epoch` is the policy's; a cached result is valid only for that epoch.
    pub fn identify(
        authority: Arc<Authority>,
        epoch: u64,
        headers: &HeaderMap,
        way: &Way<'_>,
        wall_ms: i64,
    ) -> Result<Result<Self, Inquiry>, Denied> {
        let bad = |why: &str| Denied::Unauthenticated(why.into());
        // The certificate is checked first: a connection with a certificate that is no longer trusted is rejected,
        // including one from the proxy.
        let certified = credential::of_certificate(&authority, way.certificate, wall_ms);
        let certified = certified.map_err(Denied::Unauthenticated)?;
        let certified_by = way.certificate.map(|names| names.mtls_id.clone());
        let proxied = match authority.proxy() {
            Some(proxy) => proxy::user(proxy, headers, way).map_err(bad)?,
            None => None,
        };
        let gate = authority.gate();
        let signed_in = match gate.as_ref().and_then(|gate| gate.sign_ins()) {
            Some(sign_ins) => sign_ins.of(headers, &authority, way, wall_ms).map_err(bad)?,
            None => None,
        };
        let is_proxied = proxied.is_some();
        let is_of_proxy = |proxy| is_proxied && proxy::is_by_certificate(proxy, way);
        let certified = certified.filter(|_| !authority.proxy().is_some_and(is_of_proxy));
        let beside = same(same(proxied, certified)?, signed_in)?;
        let mut term = Term::default();
        let certificate_ends = way.certificate.map(|names| names.ends_ms);
        let shown = match credential::of(headers).map_err(bad)? {
            Credential::Nothing => None,
            // A user name and password for the proxy, which has already checked them.
            Credential::Basic if is_proxied => None,
            Credential::Basic => return Err(bad(credential::NO_KEY)),
            Credential::Other => return Ok(Ok(Self::unknown(authority, beside, certified_by))),
            Credential::Key(key) => {
                let known = authority.by_key(&key, wall_ms);
                let known = known.ok_or_else(|| bad(credential::UNKNOWN_KEY))?;
                term.end(authority.key_expiry(known.credential()));
                Some(known)
            }
            Credential::Token(_) if authority.issuers().is_empty() => {
                return Ok(Ok(Self::unknown(authority, beside, certified_by)));
            }
            Credential::Token(token) => {
                let digest = issuer::digest(token);
                let known = |issuer: &Arc<Issuer>| issuer.known(&digest, wall_ms);
                let Some((known, counts)) = authority.issuers().iter().find_map(known) else {
                    let token = token.to_owned();
                    let inquiry = Inquiry { authority, token, digest, beside, certified_by };
                    return Ok(Err(inquiry));
                };
                term = counts;
                Some(known)
            }
        };
        term.end(beside.as_ref().and_then(Principal::ends_ms));
        term.end(certificate_ends);
        // Cookies and proxy headers can differ between the requests of a connection, so their result is not cached.
        let is_by_connection = !headers.contains_key(header::COOKIE)
            && !authority.proxy().is_some_and(|proxy| proxy::is_from(proxy, way));
        let caller = Self::one(authority, shown, beside, certified_by)?;
        if let Some(remembered) = way.remembered.filter(|_| is_by_connection) {
            remembered.keep(headers, &caller, epoch, term);
        }
        Ok(Ok(caller))
    }

    fn one(
        authority: Arc<Authority>,
        shown: Option<Principal>,
        beside: Option<Principal>,
        certified_by: Option<Arc<str>>,
    ) -> Result<Self, Denied> {
        let principal = same(shown, beside)?.unwrap_or_else(Principal::anonymous);
        Ok(Self::of(Standing::new(authority, principal, certified_by)))
    }

    /// Returns a caller whose credential only a dialect can interpret.
    fn unknown(
        authority: Arc<Authority>,
        beside: Option<Principal>,
        certified_by: Option<Arc<str>>,
    ) -> Self {
        let principal = beside.unwrap_or_else(Principal::anonymous);
        Self::foreign(Standing::new(authority, principal, certified_by))
    }
}

/// Combines two credentials, which must name the same principal. Returns the first one if both are present.
fn same(one: Option<Principal>, other: Option<Principal>) -> Result<Option<Principal>, Denied> {
    match (one, other) {
        (Some(one), Some(other)) if one.name() != other.name() => {
            let (one, other) = (one.name().escape_debug(), other.name().escape_debug());
            Err(Denied::Unauthenticated(format!(
                "two credentials were sent, of {one} and of {other}; send only one"
            )))
        }
        (one, other) => Ok(one.or(other)),
    }
}

impl Inquiry {
    /// Returns the policy under which the token is checked.
    pub fn authority(&self) -> Option<&Authority> {
        Some(&self.authority)
    }

    /// Checks the token, at its issuer if necessary, and returns the caller. `from` is the client's address.
    pub async fn settle(
        self,
        from: IpAddr,
        now: Timestamp,
        wall_ms: i64,
    ) -> Result<Caller, Denied> {
        let Self { authority, token, digest, beside, certified_by } = self;
        let may_look_up = || may_look_up(&authority, from, now);
        let asked = Asked { now, wall_ms, may_look_up: &may_look_up };
        let found = issuer::identify(authority.issuers(), &token, &digest, &asked).await;
        let found = found.map_err(Denied::from)?;
        Caller::one(authority, Some(found), beside, certified_by)
    }
}

/// Returns the principal of a user who comes back from the issuer with this authorization code.
pub async fn admit(
    authority: &Arc<Authority>,
    issuer: &Arc<Issuer>,
    login: &Login,
    code: &Code<'_>,
    from: IpAddr,
    (now, wall_ms): (Timestamp, i64),
) -> Result<Principal, Denied> {
    may_look_up(authority, from, now)?;
    let asked = Asked { now, wall_ms, may_look_up: &|| Ok(()) };
    Ok(issuer.admit(login, code, &asked).await?)
}

/// Counts a token lookup caused by this address. Fails if the address has reached its limit.
pub fn may_look_up(authority: &Authority, from: IpAddr, now: Timestamp) -> Result<(), Doubt> {
    authority.gate().map_or(Ok(()), |gate| gate.take_lookup(from, now))
}

impl From<Doubt> for Denied {
    fn from(doubt: Doubt) -> Self {
        match doubt {
            Doubt::Bad(why) => Denied::Unauthenticated(why),
            Doubt::Unknown(why) => Denied::Unavailable(why),
            Doubt::TooOften(why, wait) => Denied::TooOften(why, wait),
        }
    }
}
