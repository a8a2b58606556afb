//! Resolves opaque tokens at their issuer's introspection endpoint (RFC 7662).

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Map, Value};

use super::cache::Digest;
use super::claims::Claims;
use super::{Asked, Doubt, Issuer, fetch, json};
use crate::Principal;

/// How long a positive result is cached. It is short because a token can be withdrawn before it expires.
const ACTIVE_FOR_MS: i64 = 60_000;
/// How long a negative result is cached.
const INACTIVE_FOR_MS: i64 = 10_000;

/// The result of an introspection, with the time until which it is valid, in epoch milliseconds.
#[derive(Clone)]
pub(super) enum Looked {
    Active(Principal, i64),
    Inactive(i64),
}

impl Issuer {
    /// Resolves an opaque token at the issuer, unless a cached negative result rejects it.
    pub(super) async fn look_up(
        self: &Arc<Self>,
        token: &str,
        digest: &Digest,
        asked: &Asked<'_>,
    ) -> Result<Principal, Doubt> {
        if let Some(Looked::Inactive(until_ms)) = self.looked.get(digest)
            && asked.wall_ms < until_ms
        {
            return Err(inactive());
        }
        (asked.may_look_up)()?;
        let _question = self.questions.acquire().await;
        let members = self.introspect(token).await.map_err(|why| {
            self.complain(&why, asked.now);
            Doubt::Unknown("the token cannot be checked now: its issuer does not respond".into())
        })?;
        let principal = self.believe(&members, digest, asked.wall_ms);
        self.looked.insert(
            *digest,
            match &principal {
                Ok(principal) => Looked::Active(principal.clone(), asked.wall_ms + ACTIVE_FOR_MS),
                Err(_) => Looked::Inactive(asked.wall_ms + INACTIVE_FOR_MS),
            },
        );
        principal
    }

    async fn introspect(&self, token: &str) -> Result<Map<String, Value>, String> {
        let Some(introspection) = &self.config.introspection else {
            return Err("the introspection endpoint is not configured".into());
        };
        let form = [("token", token), ("token_type_hint", "access_token")];
        let client = (introspection.client_id.as_str(), Some(&introspection.secret));
        let fetched = fetch::post(&introspection.url, client, &form).await?;
        match fetched.status {
            StatusCode::OK => json::object(&fetched.body)
                .ok_or_else(|| "the introspection response is not a JSON object".into()),
            status => Err(format!("the introspection response has status {status}")),
        }
    }

    /// Checks an introspection response: even an active token must have the right issuer and audience and not be
    /// expired.
    fn believe(
        &self,
        members: &Map<String, Value>,
        digest: &Digest,
        wall_ms: i64,
    ) -> Result<Principal, Doubt> {
        let bad = |why: &str| Doubt::Bad(why.into());
        if members.get("active") != Some(&Value::Bool(true)) {
            return Err(inactive());
        }
        let is_other = |name: &str| {
            let kind = members.get(name).map(|kind| kind.as_str().unwrap_or_default());
            kind.is_some_and(|kind| !kind.eq_ignore_ascii_case("bearer"))
        };
        if is_other("token_type") || is_other("typ") {
            return Err(bad("the token is not an access token"));
        }
        let mut members = members.clone();
        // A response can omit these. The issuer is known, because the response comes from it. A token without an
        // audience is for the client it was issued to.
        members.entry("iss").or_insert_with(|| self.config.issuer.as_str().into());
        if !members.contains_key("aud") {
            let client = members.get("client_id").cloned().unwrap_or_default();
            members.insert("aud".into(), client);
        }
        let claims = Claims { members: &members, config: &self.config };
        let ends = match members.contains_key("exp") {
            true => Some(claims.check(&self.config.audiences, wall_ms).map_err(bad)?),
            false => {
                claims.check_origin(&self.config.audiences).map_err(bad)?;
                None
            }
        };
        claims.principal(self.credential(digest), ends).map_err(bad)
    }
}

fn inactive() -> Doubt {
    Doubt::Bad("the token is invalid or has expired".into())
}
