//! `LOCK` and `UNLOCK`.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use leasehold_auth::Permitted;
use leasehold_core::{Extend, Limits, Span};
use leasehold_engine::Undelivered;
use roxmltree::Node;

use super::active::{Active, Note, covering, governing, new_secret, note_wrong_token, secrets};
use super::error::Refusal;
use super::hold::{self, Hold};
use super::place::href;
use super::{Answer, Asked, Dav, Depth, XML, xml};
use crate::content::{Extent, FilePath, Found, Reach, Scope, ToWrite};
use crate::files::condition::{Precondition, UNMET, of_write};
use crate::grip::{Grip, Terms};
use crate::http::request;
use crate::{Dialect, owner};

/// Maximum number of characters of the client's `owner` element that become the owner's name.
const OWNER_CHARS: usize = 64;

struct RequestedLock {
    scope: Scope,
    /// The `owner` element of the client, as XML and as text.
    owner: Option<(String, String)>,
}

pub(super) async fn lock(dav: &Dav, asked: Asked, body: Body) -> Answer {
    // Checked before the body is read: parsing costs more than the check.
    let path = asked.caller.permit(ToWrite::new(&dav.app, asked.path.clone()))?;
    let body = dav.read(body).await?;
    let ttl = ttl(dav, &asked.parts.headers);
    if body.is_empty() {
        return refresh(dav, &asked, ttl).await;
    }
    let is_deep = match Depth::of(&asked.parts.headers)? {
        None | Some(Depth::Infinity) => true,
        Some(Depth::Zero) => false,
        Some(Depth::One) => {
            return Err(Refusal::invalid("Depth of a lock must be 0 or infinity, got 1"));
        }
    };
    let Limits { metadata_bytes_max, metadata_depth_max, .. } = *dav.app.limits;
    let wanted = wanted(&xml::parse(&body, metadata_depth_max)?, metadata_bytes_max)?;
    let conditions = hold::conditions(&asked)?;
    hold::check(dav, &asked, &conditions).await?;
    let found = dav.find(&path.to_read()).await?;
    let facts = match &found {
        Some(Found::File(facts, _)) => Some(facts),
        Some(Found::Folder) | None => None,
    };
    found.as_ref().map_or(Ok(()), |found| asked.check_kind(found))?;
    let is_folder = matches!(found, Some(Found::Folder));
    if found.is_none() && asked.says_folder {
        let why = "there is no such folder, and a path that ends with / cannot be a file; MKCOL creates a folder";
        return Err(Refusal::conflict(why));
    }
    if !is_folder && of_write(&asked.parts.headers, facts) != Precondition::Holds {
        return Err(Refusal::precondition(UNMET));
    }
    let reach = if is_deep && is_folder { Reach::Tree } else { Reach::Itself };
    let is_new = found.is_none();
    if is_new {
        dav.check_parent(&asked).await?;
    }
    let parent = match is_new {
        true => Some(Hold::of_parent(dav, &asked, &path).await.map_err(Refusal::for_locker)?),
        false => None,
    };
    let extent = Extent::new(&dav.app, &asked.path, wanted.scope, reach);
    let extent = match is_folder && reach == Reach::Itself {
        true => extent.with_members(&asked.path, wanted.scope),
        false => extent,
    };
    let (grip, undelivered) = take(dav, &asked, &wanted, (reach, &extent), ttl).await?;
    let asked = Arc::new(asked);
    let is_made = match parent {
        // If creating the file fails, or the response cannot be delivered, the lock is released.
        Some(parent) => create(dav, asked.clone(), path, parent).await?,
        None => false,
    };
    let status = if is_made { StatusCode::CREATED } else { StatusCode::OK };
    let active = Active::granted(&asked.path, &grip);
    let active = active.ok_or_else(|| Refusal::conflict("the lock was lost"))?;
    let mut response = shown(dav, status, &active);
    if let Ok(token) = HeaderValue::try_from(format!("<{}>", active.token())) {
        response.headers_mut().insert("lock-token", token);
    }
    if is_folder && let Ok(place) = HeaderValue::try_from(href(&asked.path, true)) {
        response.headers_mut().insert(header::CONTENT_LOCATION, place);
    }
    Ok(request::Answer::new(response, undelivered).into_response())
}

async fn take(
    dav: &Dav,
    asked: &Asked,
    wanted: &RequestedLock,
    (reach, extent): (Reach, &Extent),
    ttl: Span,
) -> Result<(Grip, Option<Undelivered>), Refusal> {
    let app = &dav.app;
    let path = &asked.path;
    let note = Note {
        path: path.as_str().into(),
        deep: reach == Reach::Tree,
        owner: wanted.owner.as_ref().map(|(xml, _)| xml.clone()),
    };
    let note = serde_json::to_vec(&note).map_err(|why| Refusal::invalid(why.to_string()))?;
    let said = wanted.owner.as_ref().map_or("", |(_, text)| text.as_str());
    let terms = Terms {
        owner: owner::of(&asked.caller, if said.is_empty() { "webdav" } else { said }),
        dialect: Dialect::Dav,
        ttl,
        session: None,
        metadata: Some(note.into()),
        secret: new_secret(),
        peer: asked.counted.0,
    };
    let taken = Grip::take(app, &asked.caller, governing(app, path, reach), extent, terms).await;
    taken.map_err(|obstacle| Refusal::of_obstacle(app, obstacle).for_locker())
}

/// Creates an empty file for a lock on a path that does not exist. Returns `false` if another request created a file
/// before the path was locked.
async fn create(
    dav: &Dav,
    asked: Arc<Asked>,
    path: Permitted<ToWrite>,
    mut parent: Hold,
) -> Result<bool, Refusal> {
    let dav = dav.clone();
    super::to_completion(async move {
        let draft = dav.store.blocking(|content| {
            let mut draft = content.draft()?;
            draft.seal(None)?;
            Ok(draft)
        });
        let draft = draft.await?;
        let _turn = dav.store.turn(&path).await;
        let is_there = match dav.find(&path.to_read()).await? {
            None => false,
            Some(Found::File(facts, _)) => {
                if of_write(&asked.parts.headers, Some(&facts)) != Precondition::Holds {
                    return Err(Refusal::precondition(UNMET));
                }
                true
            }
            Some(Found::Folder) => {
                let why =
                    "a folder was created here in the meantime; nothing was locked, repeat the request";
                return Err(Refusal::conflict(why));
            }
        };
        if !is_there {
            // The parent might have been moved or removed before the lock was acquired. It must not be created again.
            dav.check_parent(&asked).await?;
            let place = FilePath::clone(&path);
            parent.commit(move |_| draft.publish(&path)).await?;
            parent.note("put", &place, |act| act.detail("bytes", 0));
        }
        parent.give_back().await?;
        Ok(!is_there)
    })
    .await
}

async fn refresh(dav: &Dav, asked: &Asked, ttl: Span) -> Answer {
    let conditions = hold::conditions(asked)?;
    let tokens: Vec<_> = conditions.tokens().collect();
    let [token] = tokens[..] else {
        let why = "LOCK without a body refreshes a lock and needs its token in the header If";
        return Err(Refusal::invalid(why));
    };
    let Some(mut active) = own(dav, asked, token).await? else {
        note_wrong_token(dav, &asked.caller, &asked.path, ("renew", token)).await;
        return Err(no_such_lock());
    };
    let grip = active.grip(&dav.app);
    let renewed = Grip::renew(&dav.app, &asked.caller, &[&grip], Extend::Exactly(ttl)).await;
    match renewed.map_err(|obstacle| Refusal::of_obstacle(&dav.app, obstacle))? {
        Ok(deadline) => active.lease.deadline = deadline,
        Err(_) => return Err(no_such_lock()),
    }
    Ok(shown(dav, StatusCode::OK, &active))
}

fn no_such_lock() -> Refusal {
    let why =
        "you hold no lock on this path with the token in the header If; it might have expired";
    Refusal::precondition(why).named("lock-token-matches-request-uri")
}

pub(super) async fn unlock(dav: &Dav, asked: Asked) -> Answer {
    let token = asked.parts.headers.get("lock-token");
    let token = token.ok_or_else(|| Refusal::invalid("the header Lock-Token is missing"))?;
    let token =
        token.to_str().ok().and_then(|text| text.trim().strip_prefix('<')?.strip_suffix('>'));
    let token = token.ok_or_else(|| Refusal::invalid("Lock-Token must be <TOKEN>"))?;
    let all = covering(dav, &asked.caller, &asked.path, &secrets([token])).await?;
    let found = all.into_iter().find(|active| active.token() == token);
    if !found.as_ref().is_some_and(|active| active.is_usable(&asked.caller)) {
        note_wrong_token(dav, &asked.caller, &asked.path, ("release", token)).await;
    }
    let Some(active) = found else {
        let why = "no lock on this path has this token; it might have expired";
        return Err(Refusal::conflict(why).named("lock-token-matches-request-uri"));
    };
    if !active.is_usable(&asked.caller) {
        return Err(Refusal::forbidden(
            "another principal holds the lock, or it was acquired through another protocol",
        ));
    }
    active.grip(&dav.app).release(&dav.app, &asked.caller).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Returns the caller's lock with this token, if it covers the requested path.
async fn own(dav: &Dav, asked: &Asked, token: &str) -> Result<Option<Active>, Refusal> {
    let all = covering(dav, &asked.caller, &asked.path, &secrets([token])).await?;
    let is_own = |active: &Active| active.token() == token && active.is_usable(&asked.caller);
    Ok(all.into_iter().find(is_own))
}

fn shown(dav: &Dav, status: StatusCode, active: &Active) -> Response {
    let body = format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:prop xmlns:D=\"DAV:\"><D:lockdiscovery>{}\
         </D:lockdiscovery></D:prop>\n",
        active.render(dav.app.engine.now())
    );
    let headers = [(header::CONTENT_TYPE, XML), (header::CACHE_CONTROL, "no-store")];
    (status, headers, body).into_response()
}

fn wanted(document: &roxmltree::Document<'_>, bytes_max: usize) -> Result<RequestedLock, Refusal> {
    let root = document.root_element();
    if !xml::is(&root, "lockinfo") {
        return Err(Refusal::invalid("the body of LOCK must be a lockinfo element of DAV:"));
    }
    let scope = xml::child(root, "lockscope").and_then(|scope| {
        let exclusive = xml::child(scope, "exclusive").map(|_| Scope::Exclusive);
        exclusive.or(xml::child(scope, "shared").map(|_| Scope::Shared))
    });
    let scope = scope
        .ok_or_else(|| Refusal::invalid("lockinfo needs lockscope with exclusive or shared"))?;
    let is_write =
        xml::child(root, "locktype").is_some_and(|kind| xml::child(kind, "write").is_some());
    if !is_write {
        return Err(Refusal::invalid("lockinfo needs locktype with write"));
    }
    let owner = xml::child(root, "owner").map(|owner| named(owner, bytes_max)).transpose()?;
    Ok(RequestedLock { scope, owner })
}

fn named(owner: Node<'_, '_>, bytes_max: usize) -> Result<(String, String), Refusal> {
    let too_long = || {
        Refusal::invalid(format!("owner must have at most {bytes_max} bytes (metadata-bytes-max)"))
    };
    let text = xml::text(owner);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let xml = xml::render(owner, bytes_max).ok_or_else(too_long)?;
    Ok((xml, words.chars().take(OWNER_CHARS).collect()))
}

/// Returns the TTL of a lock: the requested time, within limits. If the header lists several times, the first one that
/// the server understands counts.
fn ttl(dav: &Dav, headers: &HeaderMap) -> Span {
    let max = dav.app.limits.ttl_max;
    let text = headers.get("timeout").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let wanted = text.split(',').map(str::trim).find_map(|word| {
        if word.eq_ignore_ascii_case("infinite") {
            return Some(max);
        }
        let seconds = word.get(..7).filter(|unit| unit.eq_ignore_ascii_case("second-"));
        let digits = seconds.map(|_| &word[7..])?;
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        // A number that is too large for `u64` also exceeds the limit.
        let seconds: u64 = is_number.then(|| digits.parse().unwrap_or(u64::MAX))?;
        Some(Span::from_secs(seconds.min(max.as_millis() / 1000 + 1)))
    });
    let wanted = wanted.unwrap_or(dav.app.dialect.files.lock_ttl);
    wanted.max(dav.app.dialect.dav.lock_ttl_min).min(max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_asked_for_by_namespace_and_not_by_prefix() {
        let of = |text: &str| {
            let document = xml::parse(text.as_bytes(), 64).expect("XML");
            wanted(&document, 1000)
                .ok()
                .map(|wanted| (wanted.scope, wanted.owner.map(|(_, text)| text)))
        };
        let body = |prefix: &str, scope: &str| {
            let ns = if prefix.is_empty() { "xmlns" } else { "xmlns:X" };
            format!(
                "<{prefix}lockinfo {ns}='DAV:'><{prefix}lockscope><{prefix}{scope}/></{prefix}lockscope>\
                 <{prefix}locktype><{prefix}write/></{prefix}locktype>\
                 <{prefix}owner> a\n <{prefix}href>b</{prefix}href></{prefix}owner></{prefix}lockinfo>"
            )
        };
        for prefix in ["", "X:"] {
            assert_eq!(of(&body(prefix, "shared")), Some((Scope::Shared, Some("a b".into()))));
            assert_eq!(
                of(&body(prefix, "exclusive")),
                Some((Scope::Exclusive, Some("a b".into())))
            );
            assert_eq!(of(&body(prefix, "other")), None);
        }
        assert_eq!(of("<lockinfo/>"), None);
        assert_eq!(of(&body("", "shared").replace("write", "read")), None);
    }
}
