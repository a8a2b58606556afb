//! Who asks: all that a request shows is looked at, and everything has to name the same.

use std::net::IpAddr;
use std::sync::Arc;

use axum::http::{HeaderMap, header};
use leasehold_core::Timestamp;

use super::credential::{self, Credential};
use super::gate::Authority;
use super::issuer::{self, Asked, Code, Digest, Doubt, Issuer};
use super::policy::Login;
use super::remembered::Term;
use super::standing::Standing;
use super::{Caller, Denied, Principal, Way, proxy};

/// A token nobody knows yet: its issuer may have to be asked.
pub(crate) struct Inquiry {
    authority: Arc<Authority>,
    token: String,
    digest: Digest,
    /// Who asks by what was shown beside it.
    beside: Option<Principal>,
    /// Who let its connection in by a certificate.
    certified_by: Option<Arc<str>>,
}

impl Caller {
    /// Whoever the headers prove it to be, or what there is to find out first. `epoch` is the policy's.
    pub(crate) fn identify(
        authority: Arc<Authority>,
        epoch: u64,
        headers: &HeaderMap,
        way: &Way<'_>,
        wall_ms: i64,
    ) -> Result<Result<Self, Inquiry>, Denied> {
        let bad = |why: &str| Denied::Unauthenticated(why.into());
        // First of all: nobody is believed by a certificate that is not trusted any more, the proxy neither.
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
            // What somebody typed for the proxy, which has looked at it.
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
        // What a cookie or the proxy says is said anew with every request.
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

    /// Whoever shows what only a dialect can tell the meaning of.
    fn unknown(
        authority: Arc<Authority>,
        beside: Option<Principal>,
        certified_by: Option<Arc<str>>,
    ) -> Self {
        let principal = beside.unwrap_or_else(Principal::anonymous);
        Self::foreign(Standing::new(authority, principal, certified_by))
    }
}

/// Two credentials are one if they name the same. The first of them counts.
fn same(one: Option<Principal>, other: Option<Principal>) -> Result<Option<Principal>, Denied> {
    match (one, other) {
        (Some(one), Some(other)) if one.name() != other.name() => {
            let (one, other) = (one.name().escape_debug(), other.name().escape_debug());
            Err(Denied::Unauthenticated(format!(
                "two credentials were sent, of {one} and of {other}; send one"
            )))
        }
        (one, other) => Ok(one.or(other)),
    }
}

impl Inquiry {
    /// The policy it is asked by.
    pub(crate) fn authority(&self) -> Option<&Authority> {
        Some(&self.authority)
    }

    /// Finds out who asks from there.
    pub(crate) async fn settle(
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

/// Whoever comes back from an issuer with this code.
pub(crate) async fn admit(
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

/// May one more question be put to an issuer for whoever asks from there?
pub(crate) fn may_look_up(
    authority: &Authority,
    from: IpAddr,
    now: Timestamp,
) -> Result<(), Doubt> {
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
