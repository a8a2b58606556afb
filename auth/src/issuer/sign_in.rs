//! The authorization code flow (RFC 6749, 7636, 9207; OpenID Connect Core): the URL users are sent to for signing in,
//! and the check of the code they return with.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{StatusCode, Uri};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::claims::Claims;
use super::token::Token;
use super::{Asked, Doubt, Issuer, encode, fetch};
use crate::Principal;
use crate::policy::Login;

/// The parameters with which a user returns from the issuer.
pub struct Code<'a> {
    /// The authorization code.
    pub code: &'a str,
    /// The issuer's identifier (`iss`), if the issuer sent it.
    pub issuer: Option<&'a str>,
    /// The nonce sent with the authorization request; the ID token must contain it.
    pub nonce: &'a str,
    /// The PKCE code verifier, known only to the browser that started the sign-in.
    pub verifier: &'a str,
}

impl Issuer {
    /// Returns the URL to which a user who wants to sign in is redirected.
    pub async fn entrance(
        &self,
        login: &Login,
        state: &str,
        nonce: &str,
        verifier: &str,
    ) -> Result<String, String> {
        let document = self.keys.document(&self.config).await?;
        let at = document.authorization.as_ref();
        let at = at.ok_or("the issuer has no authorization_endpoint")?;
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier));
        let query = encode(&[
            ("response_type", "code"),
            ("client_id", &login.client_id),
            ("redirect_uri", &login.redirect_uri),
            ("scope", "openid profile email"),
            ("state", state),
            ("nonce", nonce),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ]);
        let separator = if at.query().is_some() { '&' } else { '?' };
        Ok(format!("{at}{separator}{query}"))
    }

    /// Redeems the code of a user who returns from the issuer, and returns the user's principal.
    pub(crate) async fn admit(
        self: &Arc<Self>,
        login: &Login,
        code: &Code<'_>,
        asked: &Asked<'_>,
    ) -> Result<Principal, Doubt> {
        let unknown = |why: String| {
            self.complain(&why, asked.now);
            Doubt::Unknown("sign-in is unavailable: the issuer does not respond correctly".into())
        };
        let document = self.keys.document(&self.config).await.map_err(unknown)?;
        // Otherwise one issuer could make the server redeem the code of another (RFC 9207).
        match code.issuer {
            Some(issuer) if issuer != self.config.issuer => {
                return Err(Doubt::Bad("the response is from another issuer".into()));
            }
            None if document.names_itself => {
                return Err(Doubt::Bad("the issuer did not identify itself (iss)".into()));
            }
            Some(_) | None => {}
        }
        let at = document.token.as_ref();
        let at = at.ok_or_else(|| unknown("there is no token_endpoint".into()))?;
        let text = self.redeem(at, login, code).await.map_err(unknown)?;
        let token = Token::parse(&text).map_err(|why| Doubt::Bad(why.into()))?;
        self.check_id_token(login, code, &token, asked).await
    }

    /// Exchanges a code for an ID token.
    async fn redeem(&self, at: &Uri, login: &Login, code: &Code<'_>) -> Result<String, String> {
        let form = [
            ("grant_type", "authorization_code"),
            ("code", code.code),
            ("redirect_uri", login.redirect_uri.as_str()),
            ("code_verifier", code.verifier),
        ];
        let client = (login.client_id.as_str(), login.secret.as_ref());
        let fetched = fetch::post(at, client, &form).await?;
        let body: Value = serde_json::from_slice(&fetched.body).unwrap_or_default();
        let id_token = body["id_token"].as_str().filter(|_| fetched.status == StatusCode::OK);
        id_token.map(str::to_owned).ok_or_else(|| {
            let error: String =
                body["error"].as_str().unwrap_or("no id_token").chars().take(100).collect();
            format!("the token endpoint returned {}: {error:?}", fetched.status)
        })
    }

    async fn check_id_token(
        self: &Arc<Self>,
        login: &Login,
        code: &Code<'_>,
        token: &Token<'_>,
        asked: &Asked<'_>,
    ) -> Result<Principal, Doubt> {
        let bad = |why: &str| Doubt::Bad(why.into());
        let text = |name: &str| token.claims.get(name).and_then(Value::as_str);
        if !self.config.algorithms.contains(&token.algorithm) {
            return Err(bad("the ID token's algorithm is not allowed (algorithms)"));
        }
        let claims = Claims { members: &token.claims, config: &self.config };
        let client = std::slice::from_ref(&login.client_id);
        claims.check(client, asked.wall_ms).map_err(bad)?;
        let is_shared =
            token.claims.get("aud").and_then(Value::as_array).is_some_and(|all| all.len() > 1);
        let is_others = text("azp").is_some_and(|party| party != login.client_id);
        if is_others || (is_shared && text("azp").is_none()) {
            return Err(bad("the ID token was made for another client (azp)"));
        }
        if text("nonce") != Some(code.nonce) {
            return Err(bad("the ID token is not for this sign-in (nonce)"));
        }
        let ring = self.keys.with(self, token.key_id.as_deref(), asked).await?;
        let Token { algorithm, key_id, message, signature, .. } = token;
        if ring.verify(key_id.as_deref(), *algorithm, message, signature).is_none() {
            return Err(bad("the ID token's signature is wrong"));
        }
        let ends = asked.wall_ms.saturating_add(login.session.as_millis() as i64);
        let digest = super::digest(&String::from_utf8_lossy(message));
        claims.principal(self.credential(&digest), Some(ends)).map_err(bad)
    }
}
