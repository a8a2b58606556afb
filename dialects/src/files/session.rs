//! Sessions. Clients write files in a session, and the session's locks end with it.

use std::fmt::Write;
use std::sync::Arc;

use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use leasehold_auth::{Caller, Right};
use leasehold_core::{
    CloseSession, Credential, OpenSession, Owner, SessionDigest, SessionRecord, Span, Timestamp,
};
use leasehold_engine::ReadSession;
use sha2::{Digest, Sha256};

use super::Files;
use super::error::Refusal;
use super::wire::{self, SessionShown, Sessions};
use crate::audit::Kind;
use crate::counted::Counted;
use crate::http::forwarded;
use crate::http::request::Arrival;
use crate::{Dialect, owner};

const COOKIE: &str = "hengdang_session";
/// The cookie's name over TLS: browsers accept it from this host only, so no other host of the domain can set it.
const HOST_COOKIE: &str = "__Host-hengdang_session";
/// Length of the part of an id that other clients can see, and of the part that proves it.
const SHOWN_BYTES: usize = 10;
const SECRET_BYTES: usize = 32;

/// Maximum lifetime of a session opened with an API key or by a signed-in user.
const WITH_KEY: Span = Span::from_secs(7 * 24 * 3600);
/// Maximum lifetime of a session opened with a token or through an authenticating proxy.
const WITH_TOKEN: Span = Span::from_secs(12 * 3600);

type Answer = Result<Response, Refusal>;

/// The session that a request names. Only the engine knows whether it still exists.
#[derive(Clone, Debug)]
pub(super) struct Session {
    /// Hash of the whole id.
    pub(super) digest: SessionDigest,
    /// The part of the id that other clients can see. It names the owner.
    pub(super) shown: String,
    /// The caller that uses the session.
    pub(super) caller: Caller,
}

impl Session {
    /// Returns the session that a request names. Without authentication, an `Authorization` header takes precedence,
    /// because a cookie may be left over. With authentication, two different sessions are an error, and a cookie counts
    /// only where it cannot be intercepted.
    fn of(parts: &Parts, files: &Files, caller: &Caller) -> Result<Option<Self>, Refusal> {
        let headers = &parts.headers;
        let cookie = || match caller.is_asked() && !Arrival::of(parts).is_private {
            true => Ok(None),
            false => only_cookie(headers, is_tls(files, parts)),
        };
        let id = match headers.get(header::AUTHORIZATION) {
            // The header contains a credential such as an API key, not a session.
            Some(_) if caller.is_asked() && !caller.is_foreign() => cookie()?,
            Some(value) => {
                let id = bearer(value).ok_or_else(Refusal::bad_session)?;
                if caller.is_asked() && cookie()?.is_some_and(|other| other != id) {
                    return Err(Refusal::bad_session());
                }
                Some(id)
            }
            None => cookie()?,
        };
        id.map(|id| Self::parse(id, caller).ok_or_else(Refusal::bad_session)).transpose()
    }

    fn parse(id: &str, caller: &Caller) -> Option<Self> {
        let is_id = id.len() == 2 * (SHOWN_BYTES + SECRET_BYTES)
            && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let digest = SessionDigest(Sha256::digest(id).into());
        let caller = caller.clone();
        is_id.then(|| Self { digest, shown: id[..2 * SHOWN_BYTES].into(), caller })
    }

    /// Returns the owner of the session's locks. Every session is a separate owner.
    pub(super) fn owner(&self) -> Owner {
        owner::of(&self.caller, &self.shown)
    }

    /// Returns the id as other clients see it.
    pub(super) fn short(&self) -> String {
        format!("{}...", self.shown)
    }

    /// Sets the caller to the one that opened the session, so that every request in it has that caller's rights.
    async fn known(self, files: &Files, parts: &Parts) -> Result<Self, Refusal> {
        if !self.caller.is_asked() {
            return Ok(self);
        }
        let engine = &files.app.engine;
        let (digest, dialect) = (self.digest, Dialect::Files.number());
        let read = self.caller.look_up(ReadSession { digest, dialect, principal: None });
        let record = engine.ask(read).await?.ok_or_else(Refusal::bad_session)?;
        let caller = self.caller.of_session(&record, engine.wall_ms_of(engine.now()));
        let caller = caller.ok_or_else(Refusal::bad_session)?;
        if self.caller.principal().is_anonymous() && !caller.principal().is_anonymous() {
            count(files, parts, &caller)?;
        }
        Ok(Self { caller, ..self })
    }

    /// Reads the session. Fails if it no longer exists.
    pub(super) async fn look(&self, files: &Files) -> Result<SessionRecord, Refusal> {
        let (digest, dialect) = (self.digest, Dialect::Files.number());
        let read = self.caller.own(ReadSession { digest, dialect, principal: None });
        let record = files.app.engine.ask(read).await?;
        record.map(|record| *record).ok_or_else(Refusal::bad_session)
    }
}

/// Counts a request against the rate quota of the caller that opened its session. Before, the request was counted only
/// by its address. Requests that renew or release are never rejected.
fn count(files: &Files, parts: &Parts, caller: &Caller) -> Result<(), Refusal> {
    let app = &files.app;
    let Arrival { peer, received, .. } = *Arrival::of(parts);
    let from = || forwarded::client(&parts.headers, peer, &app.http.trusted_proxies);
    match app.auth.take_request(caller, from, app.engine.at(received)) {
        Err(denied) if !crate::vital::is_vital(parts) => Err(denied.into()),
        Ok(()) | Err(_) => Ok(()),
    }
}

impl Session {
    /// Returns the session of a request, if it names one. An unknown id might be a guess, so failed attempts are
    /// limited.
    pub(super) async fn in_request(
        parts: &Parts,
        files: &Files,
        caller: &Caller,
    ) -> Result<Option<Self>, Refusal> {
        let session = match Self::of(parts, files, caller) {
            Ok(None) => return Ok(None),
            Ok(Some(session)) => session.known(files, parts).await,
            Err(refusal) => Err(refusal),
        };
        session.map(Some).map_err(|refusal| {
            let Arrival { peer, received, .. } = *Arrival::of(parts);
            let trusted = &files.app.http.trusted_proxies;
            let from = forwarded::client(&parts.headers, peer, trusted);
            match refusal
                .is_bad_session()
                .then(|| files.app.auth.take_failure(from, files.app.engine.at(received)))
            {
                Some(Err(too_many)) => too_many.into(),
                _ => refusal,
            }
        })
    }
}

impl FromRequestParts<Files> for Session {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, files: &Files) -> Result<Self, Refusal> {
        let caller = Arrival::of(parts).caller.clone().of_files();
        let session = Self::in_request(parts, files, &caller).await?;
        session.ok_or_else(Refusal::no_session)
    }
}

fn bearer(value: &HeaderValue) -> Option<&str> {
    let (scheme, id) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| id.trim())
}

/// Returns the session's cookie. HTTP/2 can send cookies one by one; two with the same name are refused. The cookie
/// that only this host can set takes precedence; from browsers over TLS, it is the only one accepted.
fn only_cookie(headers: &HeaderMap, is_tls: bool) -> Result<Option<&str>, Refusal> {
    if let Some(id) = cookie_of(headers, HOST_COOKIE)? {
        return Ok(Some(id));
    }
    let is_browsers = is_tls && headers.contains_key("sec-fetch-site");
    if is_browsers { Ok(None) } else { cookie_of(headers, COOKIE) }
}

fn cookie_of<'a>(headers: &'a HeaderMap, wanted: &str) -> Result<Option<&'a str>, Refusal> {
    let values = headers.get_all(header::COOKIE).iter();
    let pairs = values.flat_map(|value| value.to_str().unwrap_or_default().split(';'));
    let pairs = pairs.filter_map(|pair| pair.split_once('='));
    let mut found = pairs.filter(|(name, _)| name.trim() == wanted).map(|(_, id)| id.trim());
    match (found.next(), found.next()) {
        (Some(_), Some(_)) => Err(Refusal::bad_session()),
        (id, _) => Ok(id),
    }
}

pub(super) async fn open(State(files): State<Files>, parts: Parts) -> Answer {
    let Counted(peer) = Counted::of(&files.app, &parts);
    let now = files.app.engine.now();
    let id = new_id();
    let ttl = files.app.dialect.files.session_ttl;
    let caller = Arrival::of(&parts).caller.clone().of_files();
    let Some(session) = Session::parse(&id, &caller) else { return Err(Refusal::bad_session()) };
    let open = OpenSession {
        digest: session.digest,
        owner: session.owner(),
        dialect: Dialect::Files.number(),
        ttl,
        peer,
        credential: credential(&files, &caller),
    };
    let opened = files.app.engine.ask(caller.permit(open)?).await??;
    let (number, deadline) = (opened.number.0, opened.deadline);
    files.app.note_of(Kind::Session, &caller, "open-session", |act| {
        act.detail("session", number).detail("owner_id", session.shown.as_str())
    });
    let cookie = set_cookie(&files, &parts, &id, deadline.since(now).as_millis() / 1000);
    let body = shown(&files, &caller, id, deadline);
    let mut answer = wire::answer(StatusCode::CREATED, body);
    // With authentication, the cookie is set only over protected connections. The body always contains the id.
    if !caller.is_asked() || Arrival::of(&parts).is_private {
        answer.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    Ok(answer)
}

/// Shows the session, without its whole id: a page that makes a browser send this request must not learn the id.
pub(super) async fn look(State(files): State<Files>, session: Session) -> Answer {
    let record = session.look(&files).await?;
    Ok(wire::answer(
        StatusCode::OK,
        shown(&files, &session.caller, session.short(), record.deadline),
    ))
}

/// Lists only the session of the request. Without authentication, the server cannot know which other sessions belong to
/// the same client.
pub(super) async fn list(State(files): State<Files>, session: Session) -> Answer {
    let record = session.look(&files).await?;
    let sessions = vec![shown(&files, &session.caller, session.short(), record.deadline)];
    Ok(wire::answer(StatusCode::OK, Sessions { sessions }))
}

pub(super) async fn close(State(files): State<Files>, parts: Parts, session: Session) -> Answer {
    let dialect = Dialect::Files.number();
    let close = CloseSession { session: session.digest, principal: None, dialect };
    files.app.engine.ask(session.caller.own(close)).await??;
    files.app.note_of(Kind::Session, &session.caller, "close-session", |act| {
        act.detail("owner_id", session.shown.as_str())
    });
    let cookie = set_cookie(&files, &parts, "", 0);
    let headers = [
        (header::SET_COOKIE, cookie),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    Ok((StatusCode::NO_CONTENT, headers).into_response())
}

/// Returns the credential that opens the session, with the latest time at which the session ends, however often it is
/// used.
fn credential(files: &Files, caller: &Caller) -> Option<Arc<Credential>> {
    let principal = caller.principal();
    let id = principal.credential();
    let key_expires_ms = caller.authority()?.key_expiry(id);
    if principal.is_anonymous() {
        return None;
    }
    let engine = &files.app.engine;
    let now = engine.now();
    let left = |at: i64| at.saturating_sub(engine.wall_ms_of(now)).max(0) as u64;
    // A token can expire within minutes. The session lasts for hours anyway, because files would be unusable otherwise.
    let is_key = !id.contains(':') && principal.name().starts_with("key:");
    let is_signed_in = id.starts_with("console:");
    let longest = if is_key || is_signed_in { WITH_KEY } else { WITH_TOKEN };
    let ends_ms = key_expires_ms.or(principal.ends_ms().filter(|_| is_signed_in));
    let not_after = ends_ms.map_or(Timestamp::NEVER, |at| now + Span::from_millis(left(at)));
    let not_after = not_after.min(now + longest);
    let groups = principal.groups().to_vec();
    Some(Arc::new(Credential { id: id.clone(), groups, not_after }))
}

fn shown(files: &Files, caller: &Caller, session_id: String, deadline: Timestamp) -> SessionShown {
    let expires_at = files.app.engine.wall_ms_of(deadline);
    let namespace = &*files.app.dialect.files.namespace;
    let may = |right| caller.check_somewhere(right, Some(namespace)).is_ok();
    let permissions = [(Right::FilesRead, "read"), (Right::FilesWrite, "write")];
    let permissions = permissions.into_iter().filter(|(right, _)| may(*right));
    let permissions = permissions.map(|(_, word)| word).collect();
    SessionShown { session_id, permissions, expires_at }
}

fn new_id() -> String {
    let bytes: [u8; SHOWN_BYTES + SECRET_BYTES] = leasehold_base::random::bytes();
    bytes.iter().fold(String::new(), |mut id, byte| {
        let _ = write!(id, "{byte:02x}");
        id
    })
}

/// Returns whether the client connected over TLS, to this server or to the proxy in front of it.
fn is_tls(files: &Files, parts: &Parts) -> bool {
    let Arrival { peer, link, .. } = Arrival::of(parts);
    let trusted = &files.app.http.trusted_proxies;
    forwarded::reached_by(&parts.headers, &parts.uri, *peer, link.is_tls, trusted) == "https"
}

/// Returns the header that sets the cookie. If the request came over TLS, browsers send the cookie only over TLS.
fn set_cookie(files: &Files, parts: &Parts, id: &str, seconds: u64) -> HeaderValue {
    let (name, secure) = match is_tls(files, parts) {
        true => (HOST_COOKIE, "; Secure"),
        false => (COOKIE, ""),
    };
    let cookie =
        format!("{name}={id}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
    HeaderValue::try_from(cookie).unwrap_or_else(|_| HeaderValue::from_static(""))
}
