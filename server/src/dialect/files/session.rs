//! Sessions: who may write, and whose locks end together.

use std::fmt::Write;

use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use leasehold_core::{CloseSession, OpenSession, Owner, SessionDigest, SessionRecord, Timestamp};
use sha2::{Digest, Sha256};

use super::Files;
use super::error::Refusal;
use super::wire::{self, SessionShown, Sessions};
use crate::auth::Caller;
use crate::dialect::counted::Counted;
use crate::dialect::{Dialect, owner};
use crate::door::Arrival;
use crate::engine::ReadSession;

const COOKIE: &str = "hengdang_session";
/// Nobody can read without being able to write, for now.
const PERMISSIONS: [&str; 2] = ["read", "write"];
/// The bytes of an id that others may see, and those that prove it.
const SHOWN_BYTES: usize = 10;
const SECRET_BYTES: usize = 32;

type Answer = Result<Response, Refusal>;

/// The session a request comes with. Whether it is still there, the engine knows.
#[derive(Clone, Debug)]
pub(super) struct Session {
    /// Hash of the whole id.
    pub(super) digest: SessionDigest,
    /// The part of the id others may see: it names the owner.
    pub(super) shown: String,
    /// Who comes with it.
    pub(super) caller: Caller,
}

impl Session {
    /// What a request says. An `Authorization` header is meant; a cookie may be a leftover.
    pub(super) fn of(headers: &HeaderMap, caller: &Caller) -> Result<Option<Self>, Refusal> {
        let id = match headers.get(header::AUTHORIZATION) {
            Some(value) => Some(bearer(value).ok_or_else(Refusal::bad_session)?),
            None => headers.get_all(header::COOKIE).iter().find_map(cookie),
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

    /// Whose locks it takes. Every session is an owner of its own.
    pub(super) fn owner(&self) -> Owner {
        owner::of(&self.caller, &self.shown)
    }

    /// Its id as others see it.
    pub(super) fn short(&self) -> String {
        format!("{}...", self.shown)
    }

    /// All that is known of it, if it is still there.
    pub(super) async fn look(&self, files: &Files) -> Result<SessionRecord, Refusal> {
        let (digest, dialect) = (self.digest, Dialect::Files.number());
        let read = self.caller.own(ReadSession { digest, dialect });
        let record = files.app.engine.ask(read).await?;
        record.map(|record| *record).ok_or_else(Refusal::bad_session)
    }
}

impl FromRequestParts<Files> for Session {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &Files) -> Result<Self, Refusal> {
        let caller = Arrival::of(parts).caller.clone().of_files();
        Self::of(&parts.headers, &caller)?.ok_or_else(Refusal::no_session)
    }
}

fn bearer(value: &HeaderValue) -> Option<&str> {
    let (scheme, id) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| id.trim())
}

fn cookie(value: &HeaderValue) -> Option<&str> {
    let mut pairs = value.to_str().ok()?.split(';').filter_map(|pair| pair.split_once('='));
    pairs.find(|(name, _)| name.trim() == COOKIE).map(|(_, id)| id.trim())
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
    };
    files.app.engine.ask(caller.permit(open)?).await??;
    let cookie = set_cookie(&id, ttl.as_millis() / 1000);
    let body = shown(&files, id, now + ttl);
    let answer = wire::answer(StatusCode::CREATED, body);
    Ok(([(header::SET_COOKIE, cookie)], answer).into_response())
}

/// The id is not told again: whoever can make a browser ask this must not learn it.
pub(super) async fn look(State(files): State<Files>, session: Session) -> Answer {
    let record = session.look(&files).await?;
    Ok(wire::answer(StatusCode::OK, shown(&files, session.short(), record.deadline)))
}

/// Without authentication nobody is known to have another session than the one they came with.
pub(super) async fn list(State(files): State<Files>, session: Session) -> Answer {
    let record = session.look(&files).await?;
    let sessions = vec![shown(&files, session.short(), record.deadline)];
    Ok(wire::answer(StatusCode::OK, Sessions { sessions }))
}

pub(super) async fn close(State(files): State<Files>, session: Session) -> Answer {
    let dialect = Dialect::Files.number();
    let close = CloseSession { session: session.digest, dialect };
    files.app.engine.ask(session.caller.own(close)).await??;
    let headers =
        [(header::SET_COOKIE, set_cookie("", 0)), (header::CACHE_CONTROL, "no-store".into())];
    Ok((StatusCode::NO_CONTENT, headers).into_response())
}

fn shown(files: &Files, session_id: String, deadline: Timestamp) -> SessionShown {
    let expires_at = files.app.engine.wall_ms_of(deadline);
    SessionShown { session_id, permissions: PERMISSIONS, expires_at }
}

fn new_id() -> String {
    let bytes: [u8; SHOWN_BYTES + SECRET_BYTES] = crate::random::bytes();
    bytes.iter().fold(String::new(), |mut id, byte| {
        let _ = write!(id, "{byte:02x}");
        id
    })
}

fn set_cookie(id: &str, seconds: u64) -> String {
    format!("{COOKIE}={id}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict")
}
