//! `PUT` and `MKCOL`: write a file, create a folder.

use axum::body::{Body, HttpBody};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use leasehold_auth::Permitted;

use super::error::Refusal;
use super::hold::{Hold, Target};
use super::{Answer, Asked, Dav, to_completion};
use crate::content::{self, FilePath, Found, Reach, ToWrite, Upload};
use crate::files::condition::{self, Precondition};
use crate::files::upload;
use crate::http::client;

pub(super) async fn put(dav: &Dav, asked: Asked, body: Body) -> Answer {
    let headers = &asked.parts.headers;
    if headers.contains_key(header::CONTENT_RANGE) {
        return Err(Refusal::invalid("Content-Range is not supported: send the whole file"));
    }
    if asked.says_folder {
        let why = "a path that ends with / is a folder, and only files have content; MKCOL creates a folder";
        return Err(Refusal::conflict(why));
    }
    upload::check_coding(headers)
        .map_err(|why| Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, why))?;
    let kind = upload::said_kind(headers).map_err(Refusal::invalid)?;
    let bytes_max = dav.app.dialect.files.bytes_max;
    let n_bytes = body.size_hint().lower();
    if n_bytes > bytes_max {
        return Err(Refusal::too_large(bytes_max));
    }
    let path = asked.caller.permit(ToWrite::new(&dav.app, asked.path.clone()))?;
    let is_new = check(dav, &path, headers).await?;
    if is_new {
        dav.check_parent(&asked).await?;
    }
    dav.store.blocking(move |content| content.check_room(n_bytes)).await?;
    let target = Target { path: asked.path.clone(), reach: Reach::Itself, is_member: is_new };
    let hold = Hold::take(dav, &asked, &[target]).await?;
    let timeout = dav.app.http.body_timeout;
    let client = client::of_request(&dav.app.http, &asked.parts);
    let upload = content::receive(&dav.store, &client, body, kind, bytes_max, timeout).await?;
    to_completion(publish(dav.clone(), hold, path, (asked, is_new), upload)).await
}

/// Publishes the content after checking the conditions and the locks once more.
async fn publish(
    dav: Dav,
    mut hold: Hold,
    path: Permitted<ToWrite>,
    (asked, was_new): (Asked, bool),
    upload: Upload,
) -> Answer {
    let Upload { draft, size, .. } = upload;
    let place = FilePath::clone(&path);
    let _turn = dav.store.turn(&path).await;
    let is_new = check(&dav, &path, &asked.parts.headers).await?;
    if is_new && !was_new {
        let why = "the file was removed in the meantime; nothing was changed, repeat the request";
        return Err(Refusal::conflict(why));
    }
    if is_new {
        // The parent might have been moved or removed before the lock was acquired. It must not be created again.
        dav.check_parent(&asked).await?;
    }
    let (facts, is_new) = hold.commit(move |_| draft.publish(&path)).await?;
    hold.note("put", &place, |act| act.detail("bytes", size));
    hold.give_back().await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::NO_CONTENT };
    let headers = [
        (header::ETAG, condition::tag(&facts)),
        (header::LAST_MODIFIED, condition::date(facts.modified_ms)),
    ];
    Ok((status, headers).into_response())
}

/// Checks that the path is not a folder and that the conditions of the request hold. Returns whether the path is free.
async fn check(dav: &Dav, path: &Permitted<ToWrite>, headers: &HeaderMap) -> Result<bool, Refusal> {
    let facts = match dav.find(&path.to_read()).await? {
        Some(Found::File(facts, _)) => Some(facts),
        Some(Found::Folder) => {
            let why = "a folder has this name, and only files have content";
            return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, why));
        }
        None => None,
    };
    match condition::of_write(headers, facts.as_ref()) {
        Precondition::Holds => Ok(facts.is_none()),
        Precondition::NotModified | Precondition::Fails => {
            let why = condition::UNMET;
            Err(Refusal::precondition(why))
        }
    }
}

pub(super) async fn make_folder(dav: &Dav, asked: Asked, body: Body) -> Answer {
    // Writing into a folder needs the same right as creating it.
    let folder = asked.path.clone().into_folder();
    let path = asked.caller.permit(ToWrite::new(&dav.app, folder))?;
    if !dav.read(body).await?.is_empty() {
        let why = "MKCOL with a body is not supported";
        return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
    }
    if dav.find(&path.to_read()).await?.is_some() {
        let why = "a file or folder with this name exists already";
        return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, why));
    }
    dav.check_parent(&asked).await?;
    let target = Target { path: asked.path.clone(), reach: Reach::Itself, is_member: true };
    let mut hold = Hold::take(dav, &asked, &[target]).await?;
    let dav = dav.clone();
    let made = to_completion(async move {
        let _turn = dav.store.turn(&path).await;
        // The parent might have been moved or removed before the lock was acquired. It must not be created again.
        dav.check_parent(&asked).await?;
        let place = FilePath::clone(&path);
        let made = hold.commit(move |content| content.make_folder(&path)).await?;
        if made {
            hold.note("make-folder", &place, |act| act);
        }
        hold.give_back().await?;
        Ok(made)
    });
    match made.await? {
        true => Ok(created()),
        false => Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "the folder exists already")),
    }
}

pub(super) fn created() -> Response {
    StatusCode::CREATED.into_response()
}
