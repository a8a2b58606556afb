//! Checks the claims of a token and derives the principal from them.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::Principal;
use crate::policy::{NAME_BYTES_MAX, Oidc};

/// Maximum groups in a token.
const GROUPS_MAX: usize = 1000;
/// Largest accepted time claim, in seconds (the year 9999). A larger number has the wrong unit.
const EPOCH_SECONDS_MAX: f64 = 253_402_300_799.0;

type InvalidClaim = &'static str;

/// The claims of a token, with the configuration of its issuer.
pub(super) struct Claims<'a> {
    pub(super) members: &'a Map<String, Value>,
    pub(super) config: &'a Oidc,
}

impl Claims<'_> {
    /// Checks issuer, audience and validity period. Returns when the token expires, in epoch milliseconds.
    pub(super) fn check(&self, audiences: &[String], wall_ms: i64) -> Result<i64, InvalidClaim> {
        self.check_origin(audiences)?;
        self.check_time(wall_ms)
    }

    /// Checks that the token is from this issuer and for one of these audiences.
    pub(super) fn check_origin(&self, audiences: &[String]) -> Result<(), InvalidClaim> {
        if self.members.get("iss").and_then(Value::as_str) != Some(&self.config.issuer) {
            return Err("the token is from another issuer");
        }
        self.check_audience(audiences)
    }

    fn check_audience(&self, audiences: &[String]) -> Result<(), InvalidClaim> {
        let is_ours = |named: &Value| {
            named.as_str().is_some_and(|named| audiences.iter().any(|own| own == named))
        };
        match self.members.get("aud") {
            Some(Value::Array(named)) if named.iter().all(Value::is_string) => {
                named.iter().any(is_ours).then_some(())
            }
            Some(named) => is_ours(named).then_some(()),
            None => None,
        }
        .ok_or(
            "the token is for another audience: its aud contains none of the configured audiences",
        )
    }

    /// Checks the validity period: `exp` is required and `nbf` is honored, both with the configured leeway.
    fn check_time(&self, wall_ms: i64) -> Result<i64, InvalidClaim> {
        let leeway = self.config.leeway_ms;
        let ends = self.instant("exp")?.ok_or("the token has no expiry time (exp)")?;
        let ends = ends.saturating_add(leeway);
        if wall_ms >= ends {
            return Err("the token has expired");
        }
        let begins = self.instant("nbf")?;
        if begins.is_some_and(|begins| wall_ms < begins.saturating_sub(leeway)) {
            return Err("the token is not valid yet");
        }
        Ok(ends)
    }

    /// Returns a time claim in milliseconds. The claim itself is in seconds.
    fn instant(&self, name: &str) -> Result<Option<i64>, InvalidClaim> {
        let Some(value) = self.members.get(name) else { return Ok(None) };
        let seconds = value.as_f64().filter(|seconds| (0.0..=EPOCH_SECONDS_MAX).contains(seconds));
        seconds
            .map(|seconds| Some((seconds * 1000.0) as i64))
            .ok_or("a time in the token is not a number of seconds since 1970")
    }

    /// Rejects ID tokens. They inform a client about a sign-in and are not credentials for an API.
    pub(super) fn refuse_id_token(&self) -> Result<(), InvalidClaim> {
        let has = |name: &str| self.members.contains_key(name);
        let is_id = self.members.get("typ").and_then(Value::as_str) == Some("ID");
        if is_id || has("at_hash") || has("c_hash") {
            return Err("an ID token is not an access token; send the access token");
        }
        Ok(())
    }

    /// Returns the principal that the claims name.
    pub(super) fn principal(
        &self,
        credential: Arc<str>,
        ends: Option<i64>,
    ) -> Result<Principal, InvalidClaim> {
        let Oidc { name, principal_claim, groups_claim, .. } = self.config;
        let text = |name: &str| self.members.get(name).and_then(Value::as_str);
        text("sub")
            .filter(|sub| is_name(sub))
            .ok_or("the token's sub is missing or not a valid name")?;
        let subject = self.find(principal_claim).and_then(Value::as_str);
        let subject = subject.filter(|subject| is_name(subject));
        let subject =
            subject.ok_or("the token's principal claim is missing or not a valid name")?;
        if principal_claim == "email"
            && self.members.get("email_verified") != Some(&Value::Bool(true))
        {
            return Err("the token's email is not verified (email_verified)");
        }
        let groups = match self.find(groups_claim) {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::String(group)) => vec![group.as_str()],
            Some(Value::Array(groups)) => groups
                .iter()
                .map(|group| group.as_str().ok_or("the token's groups are not strings"))
                .collect::<Result<_, _>>()?,
            Some(_) => return Err("the token's groups are not a list of strings"),
        };
        if groups.len() > GROUPS_MAX {
            return Err("the token names more than 1000 groups");
        }
        let groups = groups.into_iter().filter(|group| is_name(group));
        let groups = groups.map(|group| format!("{name}:{group}").into()).collect();
        Ok(Principal::until(format!("{name}:{subject}").into(), groups, credential, ends))
    }

    /// Returns a claim by its name or by its path through nested objects, such as `realm_access.roles`.
    fn find(&self, name: &str) -> Option<&Value> {
        if let Some(value) = self.members.get(name) {
            return Some(value);
        }
        let mut steps = name.split('.');
        let first = self.members.get(steps.next()?)?;
        let found = steps.try_fold(first, |value, step| value.as_object()?.get(step))?;
        name.contains('.').then_some(found)
    }
}

fn is_name(text: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&text.len()) && !text.contains(char::is_control)
}
