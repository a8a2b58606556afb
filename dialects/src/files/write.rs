//! Writes and removes files. The lock is acquired first, and changes are published while it is held.

use axum::body::{Body, HttpBody};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use leasehold_auth::Permitted;

use super::condition::{self, Precondition};
use super::error::Refusal;
use super::hold::{Change, Hold};
use super::session::Session;
use super::upload;
use super::wire::{self, Written};
use super::{Files, to_completion};
use crate::content::{self, Content, FilePath, Found, Reach, ToWrite, Upload};
use leasehold_auth::shares::Client;

type Answer = Result<Response, Refusal>;

pub(super) async fn put(
    files: &Files,
    (session, client): (&Session, &Client),
    path: FilePath,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    if path.is_folder() {
        return Err(Refusal::invalid("a path that ends with / is a folder; POST makes one"));
    }
    if headers.contains_key(header::CONTENT_RANGE) {
        return Err(Refusal::invalid("Content-Range is not supported: send the whole file"));
    }
    upload::check_coding(&headers).map_err(Refusal::invalid)?;
    let path = session.caller.permit(ToWrite::new(&files.app, path))?;
    let kind = upload::kind(&headers)?;
    let is_new = upload::check_size(files, &path, body.size_hint().lower()).await?;
    let change = if is_new { Change::Member } else { Change::Content };
    let hold = Hold::take(files, session, &path, Reach::Itself, change).await?;
    match receive(files, client, &path, &headers, (body, kind)).await {
        Ok(upload) => {
            let publish = publish(files.clone(), hold, path, (headers, change), upload);
            to_completion(publish).await
        }
        Err(refusal) => {
            hold.leave().await?;
            Err(refusal)
        }
    }
}

async fn receive(
    files: &Files,
    client: &Client,
    path: &Permitted<ToWrite>,
    headers: &HeaderMap,
    (body, kind): (Body, Option<String>),
) -> Result<Upload, Refusal> {
    // A request that would be rejected anyway is rejected before the upload.
    check(files, path, headers).await?;
    let (bytes_max, patience) = (files.app.dialect.files.bytes_max, files.app.http.body_timeout);
    Ok(content::receive(&files.store, client, body, kind, bytes_max, patience).await?)
}

/// Publishes the content and releases the lock. If the content cannot be published, a lock that the session held before
/// stays held.
async fn publish(
    files: Files,
    mut hold: Hold,
    path: Permitted<ToWrite>,
    (headers, change): (HeaderMap, Change),
    upload: Upload,
) -> Answer {
    let Upload { draft, hash, size, .. } = upload;
    let target = path.clone();
    let published =
        under_lock(&files, &mut hold, &path, (&headers, change), move |_| draft.publish(&target));
    let published = published.await;
    let (facts, is_new) = match published {
        Ok(published) => published,
        Err(refusal) => {
            hold.leave().await?;
            return Err(refusal);
        }
    };
    hold.note("put", &path, |act| act.detail("bytes", size));
    hold.give_back().await?;
    let body = Written {
        path: path.as_str(),
        size,
        content_type: &facts.kind,
        hash: &hash,
        timestamp: facts.modified_ms,
        created: is_new,
    };
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    let headers = [
        (header::ETAG, condition::tag(&facts)),
        (header::LAST_MODIFIED, condition::date(facts.modified_ms)),
        (header::LOCATION, crate::file_url::location(&path)),
    ];
    Ok((headers, wire::answer(status, body)).into_response())
}

pub(super) async fn delete(
    files: &Files,
    session: &Session,
    path: FilePath,
    headers: HeaderMap,
) -> Answer {
    session.look(files).await?;
    let path = session.caller.permit(ToWrite::new(&files.app, path))?;
    let is_folder = files.is_folder(&path.to_read()).await?;
    let reach = if is_folder { Reach::Tree } else { Reach::Itself };
    let hold = Hold::take(files, session, &path, reach, Change::Member).await?;
    to_completion(remove(files.clone(), hold, path, headers, is_folder)).await
}

async fn remove(
    files: Files,
    mut hold: Hold,
    path: Permitted<ToWrite>,
    headers: HeaderMap,
    is_folder: bool,
) -> Answer {
    let target = path.clone();
    let remove = move |content: &dyn Content| content.remove(&target);
    let gone = if is_folder {
        let _turn = files.turn(&path).await;
        locked(&files, &mut hold, remove).await
    } else {
        under_lock(&files, &mut hold, &path, (&headers, Change::Member), remove).await
    };
    if gone.is_ok() {
        hold.note("delete", &path, |act| act);
    }
    hold.leave().await?;
    gone.map(|()| removed())
}

/// Changes a file if the lock is still held. The body has been received, so the lock does not depend on the client's
/// speed any more.
async fn under_lock<T: Send + 'static>(
    files: &Files,
    hold: &mut Hold,
    path: &Permitted<ToWrite>,
    (headers, change): (&HeaderMap, Change),
    work: impl FnOnce(&dyn Content) -> Result<T, content::Error> + Send + 'static,
) -> Result<T, Refusal> {
    // The next holder of the lock must not publish before this change does, and a rename can take any time.
    let _turn = files.turn(path).await;
    hold.secure().await?;
    if check(files, path, headers).await? && change == Change::Content {
        // The change would add the file to its folder again, and the lock for that was not acquired.
        return Err(Refusal::removed_in_the_meantime());
    }
    commit(files, hold, work).await
}

/// Changes the files after checking once more that the lock is held.
pub(super) async fn locked<T: Send + 'static>(
    files: &Files,
    hold: &mut Hold,
    work: impl FnOnce(&dyn Content) -> Result<T, content::Error> + Send + 'static,
) -> Result<T, Refusal> {
    hold.secure().await?;
    commit(files, hold, work).await
}

async fn commit<T: Send + 'static>(
    files: &Files,
    hold: &mut Hold,
    work: impl FnOnce(&dyn Content) -> Result<T, content::Error> + Send + 'static,
) -> Result<T, Refusal> {
    let is_safe = hold.watch();
    // The lock lasts for a while, but this thread might be suspended for longer.
    let changed = files.blocking(move |content| is_safe().then(|| work(content)).transpose());
    match changed.await? {
        Some(changed) => Ok(changed),
        None => Err(hold.lost().await),
    }
}

fn removed() -> Response {
    (StatusCode::NO_CONTENT, [(header::CACHE_CONTROL, "no-store")]).into_response()
}

/// Checks the conditions of the request, and that the path is not a folder. Returns whether nothing exists at the path.
async fn check(
    files: &Files,
    path: &Permitted<ToWrite>,
    headers: &HeaderMap,
) -> Result<bool, Refusal> {
    let facts = match files.find(&path.to_read()).await? {
        Some(Found::File(facts, _)) => Some(facts),
        Some(Found::Folder) => return Err(content::Error::IsFolder.into()),
        None => None,
    };
    match condition::of_write(headers, facts.as_ref()) {
        Precondition::Holds => Ok(facts.is_none()),
        Precondition::NotModified | Precondition::Fails => Err(Refusal::precondition()),
    }
}
