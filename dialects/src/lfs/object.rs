//! Object transfers. A request with a ticket from a batch acts as the caller that requested the batch.

use axum::body::HttpBody;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use leasehold_auth::{Caller, ticket};
use leasehold_engine as engine;

use super::batch::Way;
use super::error::Refusal;
use super::repository::{Oid, Repository};
use super::wire::{self, Object};
use super::{Answer, Asked, Lfs};
use crate::audit::Kind;
use crate::content::{self, Found, Upload};
use crate::files::read::{self, Unserved};
use crate::http::client;
use crate::http::forwarded;
use crate::http::request::Arrival;

/// Handles `GET objects/OID` and `PUT objects/OID`.
pub(super) async fn transfer(lfs: &Lfs, asked: Asked, oid: &str) -> Answer {
    let oid = parse(oid)?;
    let way = if asked.parts.method == Method::PUT { Way::Up } else { Way::Down };
    let asked = known(lfs, asked, way, &oid)?;
    match way {
        Way::Up => upload(lfs, asked, oid).await,
        Way::Down => download(lfs, asked, oid).await,
    }
}

fn parse(oid: &str) -> Result<Oid, Refusal> {
    let why =
        "an object's name must be 64 lower-case hexadecimal digits, the SHA-256 of its content";
    Oid::parse(oid).ok_or_else(|| Refusal::unprocessable(why))
}

/// Sets the caller to the one that the ticket was issued to, if the request has a ticket.
fn known(lfs: &Lfs, asked: Asked, way: Way, oid: &Oid) -> Result<Asked, Refusal> {
    let Some(ticket) = asked.parts.headers.get(ticket::HEADER) else { return Ok(asked) };
    let scope = way.scope(&asked.repository, oid);
    let shown = ticket.to_str().unwrap_or_default();
    let caller = asked.caller.with_ticket(shown, &scope, lfs.app.engine.clock());
    let arrival = Arrival::of(&asked.parts);
    let (auth, at) = (&lfs.app.auth, lfs.app.engine.at(arrival.received));
    let trusted = &lfs.app.http.trusted_proxies;
    let from = || forwarded::client(&asked.parts.headers, arrival.peer, trusted);
    // An invalid ticket might be a guess, so failed attempts are limited.
    let caller = caller.map_err(|denied| auth.take_failure(from(), at).err().unwrap_or(denied))?;
    // Counts the request for this caller, which was not known when the request arrived.
    auth.take_request(&caller, from, at)?;
    Ok(Asked { caller, ..asked })
}

async fn download(lfs: &Lfs, asked: Asked, oid: Oid) -> Answer {
    let path = asked.caller.permit(asked.repository.to_read(&oid))?;
    let headers = &asked.parts.headers;
    let client = client::of_caller(&lfs.app.http, &asked.caller, &asked.parts);
    let sending = lfs.app.answers.download(&client)?;
    let found = lfs.store.blocking(move |content| content.find(&path)).await?;
    let Some(Found::File(facts, content)) = found else { return Err(Refusal::no_object()) };
    let is_head = asked.parts.method == Method::HEAD;
    match read::answer(headers, &facts, content, sending, is_head) {
        Ok(response) => Ok(response),
        Err(Unserved::Precondition) => {
            let why = "a condition of the request does not hold for this object";
            Err(Refusal::new(StatusCode::PRECONDITION_FAILED, why))
        }
        Err(Unserved::Beyond(size)) => {
            let why = format!("the object has {size} bytes");
            let refusal = Refusal::new(StatusCode::RANGE_NOT_SATISFIABLE, why);
            Ok((read::content_range(size), refusal).into_response())
        }
    }
}

async fn upload(lfs: &Lfs, asked: Asked, oid: Oid) -> Answer {
    let Asked { repository, caller, parts, body } = asked;
    let client = client::of_caller(&lfs.app.http, &caller, &parts);
    // A request that would be rejected anyway is rejected before the upload.
    caller.permit(repository.to_write(&oid))?;
    let bytes_max = lfs.app.dialect.lfs.object_bytes_max;
    let n_bytes = body.size_hint().lower();
    if n_bytes > bytes_max {
        return Err(Refusal::too_large(bytes_max));
    }
    lfs.store.blocking(move |content| content.check_room(n_bytes)).await?;
    let timeout = lfs.app.http.body_timeout;
    let upload = content::receive(&lfs.store, &client, body, None, bytes_max, timeout).await?;
    if upload.hash != oid.as_str() {
        let why = format!(
            "the content has the SHA-256 {}, not {}; nothing was stored",
            upload.hash,
            oid.as_str()
        );
        return Err(Refusal::unprocessable(why));
    }
    // Runs to its end even if the client disconnects, because the whole body has arrived.
    let publishing = publish(lfs.clone(), repository, caller, oid, upload);
    tokio::spawn(publishing).await.unwrap_or_else(|_| Err(engine::Error::Unknown.into()))
}

async fn publish(
    lfs: Lfs,
    repository: Repository,
    caller: Caller,
    oid: Oid,
    upload: Upload,
) -> Answer {
    // The upload can take long, so the caller's rights are checked again.
    let path = caller.still(lfs.app.engine.clock())?.permit(repository.to_write(&oid))?;
    // Two concurrent uploads of one object must count as one.
    let _turn = lfs.store.turn(&path).await;
    let Upload { draft, size, .. } = upload;
    lfs.store.blocking(move |_| draft.publish(&path)).await?;
    lfs.app.note_of(Kind::Content, &caller, "upload-object", |act| {
        act.on(&repository.whole()).detail("oid", oid.as_str()).detail("bytes", size)
    });
    Ok(done())
}

/// Handles `POST objects/OID/verify`: checks that the object is stored with this size.
pub(super) async fn verify(lfs: &Lfs, asked: Asked, oid: &str) -> Answer {
    let oid = parse(oid)?;
    let asked = known(lfs, asked, Way::Up, &oid)?;
    let path = asked.caller.permit(asked.repository.to_read(&oid))?;
    let object: Object = asked.json(lfs).await?;
    let found = lfs.store.blocking(move |content| content.find(&path)).await?;
    let Some(Found::File(facts, _)) = found else { return Err(Refusal::no_object()) };
    if object.oid != oid.as_str() {
        let why = format!("the object in the body is not the object in the path, {}", oid.as_str());
        return Err(Refusal::unprocessable(why));
    }
    if u64::try_from(object.size) != Ok(facts.size) {
        let why = format!("the object {} has {} bytes", oid.as_str(), facts.size);
        return Err(Refusal::unprocessable(why));
    }
    Ok(done())
}

fn done() -> Response {
    wire::answer(StatusCode::OK, serde_json::json!({}))
}
