//! Tickets: short-lived credentials for clients that do not send their own credential twice.
//!
//! A ticket contains the principal, a scope and an expiry time, signed with a secret of this process. A request with a
//! ticket has the rights that its principal has at that time, and none if the original credential is no longer valid.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use leasehold_base::clock::LockClock;
use leasehold_core::{Span, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use super::{Caller, Denied, Principal, mac};

/// The request header that carries a ticket. Not `Authorization`, which the client might use for its own credential.
pub const HEADER: &str = "x-leasehold-ticket";

const UNKNOWN: &str = "the ticket of this transfer is from another server, or from before the last restart; request \
    the transfer again";
const OVER: &str = "the ticket of this transfer has expired; request the transfer again";
const OTHERS: &str = "the ticket of this transfer is for another client or another transfer";

/// The key that signs tickets. Every process generates its own, so a restart invalidates all tickets.
pub(super) struct Seal([u8; 32]);

impl Seal {
    pub(super) fn draw() -> Self {
        Self(leasehold_base::random::bytes())
    }

    fn of(&self, claims: &str) -> Hmac<Sha256> {
        let mut mac = mac::keyed(&self.0);
        mac.update(claims.as_bytes());
        mac
    }

    fn sign(&self, claims: &TicketClaims) -> Option<String> {
        let claims = URL_SAFE_NO_PAD.encode(serde_json::to_vec(claims).ok()?);
        let signature = URL_SAFE_NO_PAD.encode(self.of(&claims).finalize().into_bytes());
        Some(format!("{claims}.{signature}"))
    }

    fn open(&self, ticket: &str) -> Option<TicketClaims> {
        let (claims, signature) = ticket.split_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        self.of(claims).verify_slice(&signature).ok()?;
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()
    }
}

/// The content of a ticket.
#[derive(Serialize, Deserialize)]
struct TicketClaims {
    /// The operation the ticket is for.
    scope: String,
    /// Expiry, in nanoseconds of lock time.
    until: u64,
    name: String,
    groups: Vec<String>,
    credential: String,
    ends_ms: Option<i64>,
}

impl Caller {
    /// Returns a ticket for this scope only, or `None` if the caller needs no ticket because it is anonymous.
    pub fn ticket(&self, scope: &str, ttl: Span, clock: &LockClock) -> Option<String> {
        let who = self.principal();
        let gate = self.authority().filter(|_| !who.is_anonymous())?.gate()?;
        gate.seal()?.sign(&TicketClaims {
            scope: scope.to_owned(),
            until: (clock.now() + ttl).as_nanos(),
            name: who.name().to_string(),
            groups: who.groups().iter().map(ToString::to_string).collect(),
            credential: who.credential().to_string(),
            ends_ms: who.ends_ms(),
        })
    }

    /// Returns this caller as the principal of the ticket.
    pub fn with_ticket(
        &self,
        ticket: &str,
        scope: &str,
        clock: &LockClock,
    ) -> Result<Self, Denied> {
        let denied = |why: &str| Denied::Unauthenticated(why.into());
        let Some(gate) = self.authority().and_then(|authority| authority.gate()) else {
            return Ok(self.clone());
        };
        let claims = gate.seal().and_then(|seal| seal.open(ticket)).ok_or(denied(UNKNOWN))?;
        if clock.now() >= Timestamp::from_nanos(claims.until) {
            return Err(denied(OVER));
        }
        let TicketClaims { name, groups, credential, ends_ms, .. } = claims;
        let groups = groups.into_iter().map(Into::into).collect();
        let principal = Principal::until(name.into(), groups, credential.into(), ends_ms);
        let caller = self.as_principal(principal, clock.wall_ms());
        caller.filter(|_| claims.scope == scope).ok_or(denied(OTHERS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims() -> TicketClaims {
        TicketClaims {
            scope: "upload a".into(),
            until: 7,
            name: "key:ci".into(),
            groups: vec!["oidc:x:staff".into()],
            credential: "k1".into(),
            ends_ms: None,
        }
    }

    #[test]
    fn a_ticket_is_what_its_server_said_and_nothing_else() {
        let (seal, other) = (Seal::draw(), Seal::draw());
        let ticket = seal.sign(&claims()).unwrap();
        let opened = seal.open(&ticket).unwrap();
        assert_eq!((&*opened.scope, &*opened.name, opened.until), ("upload a", "key:ci", 7));
        assert!(other.open(&ticket).is_none(), "another server's");
        let forged = seal.sign(&TicketClaims { name: "key:admin".into(), ..claims() }).unwrap();
        let (said, _) = forged.split_once('.').unwrap();
        let (_, signature) = ticket.split_once('.').unwrap();
        for wrong in ["", ".", "x", &format!("{said}.{signature}"), &format!("{ticket}x"), said] {
            assert!(seal.open(wrong).is_none(), "{wrong}");
        }
    }
}
