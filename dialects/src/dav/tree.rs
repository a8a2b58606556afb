//! `DELETE`, `COPY` and `MOVE`: each handles a file, or a folder with everything in it, as one operation.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use leasehold_auth::{Caller, Permitted, Right};

use super::error::Refusal;
use super::hold::{Hold, Target};
use super::{Answer, Asked, Dav, Depth, place, to_completion};
use crate::app::App;
use crate::content::{self, Bounds, FilePath, Found, Reach, Source, ToRead, ToWrite};
use crate::files::condition::{self, Precondition};
use crate::http::answers::Sending;
use crate::http::client;

/// Maximum number of entries that are read from a folder at a time.
const PAGE: usize = 1000;

pub(super) async fn delete(dav: &Dav, asked: Asked) -> Answer {
    let path = asked.caller.permit(ToWrite::new(&dav.app, asked.path.clone()))?;
    let found = dav.find(&path.to_read()).await?.ok_or_else(Refusal::missing)?;
    asked.check_kind(&found)?;
    check(&asked, &found)?;
    let is_folder = matches!(found, Found::Folder);
    if is_folder && !matches!(Depth::of(&asked.parts.headers)?, None | Some(Depth::Infinity)) {
        return Err(Refusal::invalid("Depth of DELETE of a folder must be infinity"));
    }
    not_root(&asked.path)?;
    let admitted = is_folder.then(|| admit(dav, &asked)).transpose()?;
    if is_folder {
        check_members(dav, &asked.caller, Right::FilesWrite, &asked.path).await?;
    }
    let mut hold = Hold::take(dav, &asked, &[whole(&asked.path, is_folder)]).await?;
    still(dav, &asked, &path.to_read(), Some(is_folder)).await?;
    let (dav, gone) = (dav.clone(), asked.path.clone());
    to_completion(async move {
        let _admitted = admitted;
        let _turns = dav.store.turns().await;
        if hold.is_shared() {
            still(&dav, &asked, &path.to_read(), Some(is_folder)).await?;
        }
        hold.commit(move |content| content.remove_tree(&path)).await?;
        hold.note("delete", &gone, |act| act);
        hold.forget(&gone).await?;
        hold.give_back().await?;
        Ok(StatusCode::NO_CONTENT.into_response())
    })
    .await
}

/// Source and target of `COPY` and `MOVE`.
struct Transfer {
    to: FilePath,
    is_folder: bool,
    /// Whether the target exists and is a folder: `None` if it does not exist.
    replaces_folder: Option<bool>,
    /// Counts the operation, if it can take long.
    _admitted: Option<Sending>,
}

impl Transfer {
    async fn of(dav: &Dav, asked: &Asked, is_copy: bool) -> Result<Self, Refusal> {
        let (to, says_folder) = place::destination(&asked.parts)?;
        let from = asked.caller.permit(ToRead::new(&dav.app, asked.path.clone()))?;
        let found = dav.find(&from).await?.ok_or_else(Refusal::missing)?;
        if matches!(found, Found::File(..)) {
            from.check_file()?;
        }
        asked.check_kind(&found)?;
        check(asked, &found)?;
        if to == asked.path {
            return Err(Refusal::forbidden("source and Destination are the same"));
        }
        if asked.path.contains(&to) || to.contains(&asked.path) {
            return Err(Refusal::forbidden("source and Destination cannot contain each other"));
        }
        not_root(&to)?;
        let target = asked.caller.permit(ToWrite::new(&dav.app, to.clone()))?;
        let there = dav.find(&target.to_read()).await?;
        if there.is_some() && !overwrites(asked)? {
            let why = "the Destination exists, and Overwrite is F; nothing was changed";
            return Err(Refusal::precondition(why));
        }
        let is_folder = matches!(found, Found::Folder);
        // The protocol permits replacing an existing folder by a file.
        if says_folder && !is_folder && !matches!(there, Some(Found::Folder)) {
            let why = "Destination ends with / like a folder, but the source is a file";
            return Err(Refusal::conflict(why));
        }
        let replaces_folder = there.map(|there| matches!(there, Found::Folder));
        dav.check_parent_of(&asked.caller, &to).await?;
        let is_long = is_copy || is_folder || replaces_folder == Some(true);
        let _admitted = is_long.then(|| admit(dav, asked)).transpose()?;
        if replaces_folder == Some(true) {
            check_members(dav, &asked.caller, Right::FilesWrite, &to).await?;
        }
        Ok(Self { to, is_folder, replaces_folder, _admitted })
    }

    /// Checks that the target did not change before it was locked, and checks the rights to its content again. From
    /// here on, nothing can be added to it.
    async fn check_held(&self, dav: &Dav, asked: &Asked) -> Result<(), Refusal> {
        let target = asked.caller.permit(ToWrite::new(&dav.app, self.to.clone()))?;
        dav.check_parent_of(&asked.caller, &self.to).await?;
        still(dav, asked, &target.to_read(), self.replaces_folder).await
    }

    fn target(&self) -> Target {
        let is_tree = self.is_folder || self.replaces_folder == Some(true);
        Target { is_member: self.replaces_folder.is_none(), ..whole(&self.to, is_tree) }
    }
}

pub(super) async fn copy(dav: &Dav, asked: Asked) -> Answer {
    let is_deep = match Depth::of(&asked.parts.headers)? {
        None | Some(Depth::Infinity) => true,
        Some(Depth::Zero) => false,
        Some(Depth::One) => return Err(Refusal::invalid("Depth of COPY must be 0 or infinity")),
    };
    let way = Transfer::of(dav, &asked, true).await?;
    if way.is_folder && is_deep {
        check_members(dav, &asked.caller, Right::FilesRead, &asked.path).await?;
    }
    let mut hold = Hold::take(dav, &asked, &[way.target()]).await?;
    way.check_held(dav, &asked).await?;
    let from = asked.caller.permit(ToRead::new(&dav.app, asked.path.clone()))?;
    let to = asked.caller.permit(ToWrite::new(&dav.app, way.to.clone()))?;
    let (dav, bounds, place, source) = (dav.clone(), bounds(dav), to.clone(), asked.path.clone());
    to_completion(async move {
        let (app, caller) = (dav.app.clone(), asked.caller.clone());
        let copied = dav.store.blocking(move |content| {
            // Other users might own files that were added after the first check.
            let may = |path: &FilePath| may(&app, &caller, Right::FilesRead, path);
            content.copy(Source { from: &from, may: &may }, &place, is_deep, bounds)
        });
        let draft = copied.await.map_err(|error| too_many(error, bounds.n_max))?;
        let _turns = dav.store.turns().await;
        if hold.is_shared() {
            way.check_held(&dav, &asked).await?;
        }
        let target = FilePath::clone(&to);
        let is_new = hold.commit(move |_| draft.replace(&to)).await?;
        hold.note("copy", &source, |act| act.detail("to", target.as_str()));
        hold.give_back().await?;
        Ok(done(is_new))
    })
    .await
}

pub(super) async fn rename(dav: &Dav, asked: Asked) -> Answer {
    if !matches!(Depth::of(&asked.parts.headers)?, None | Some(Depth::Infinity)) {
        return Err(Refusal::invalid("Depth of MOVE must be infinity"));
    }
    not_root(&asked.path)?;
    let from = asked.caller.permit(ToWrite::new(&dav.app, asked.path.clone()))?;
    let way = Transfer::of(dav, &asked, false).await?;
    if way.is_folder {
        check_members(dav, &asked.caller, Right::FilesWrite, &asked.path).await?;
    }
    let targets = [whole(&asked.path, way.is_folder), way.target()];
    let mut hold = Hold::take(dav, &asked, &targets).await?;
    still(dav, &asked, &from.to_read(), Some(way.is_folder)).await?;
    way.check_held(dav, &asked).await?;
    let to = asked.caller.permit(ToWrite::new(&dav.app, way.to.clone()))?;
    let (dav, gone, bounds) = (dav.clone(), asked.path.clone(), bounds(dav));
    to_completion(async move {
        let _turns = dav.store.turns().await;
        if hold.is_shared() {
            still(&dav, &asked, &from.to_read(), Some(way.is_folder)).await?;
            way.check_held(&dav, &asked).await?;
        }
        let target = FilePath::clone(&to);
        let is_new = hold.commit(move |content| content.rename(&from, &to, bounds)).await?;
        hold.note("move", &gone, |act| act.detail("to", target.as_str()));
        hold.forget(&gone).await?;
        hold.give_back().await?;
        Ok(done(is_new))
    })
    .await
}

/// Counts an operation that can use a thread for a long time.
fn admit(dav: &Dav, asked: &Asked) -> Result<Sending, Refusal> {
    Ok(dav.app.answers.tree(&client::of_request(&dav.app.http, &asked.parts))?)
}

/// Returns the limits for a copied or moved folder. Within them, each file in it can still be changed and removed.
fn bounds(dav: &Dav) -> Bounds {
    let (n_max, depth_max) = (dav.app.dialect.dav.tree_max, content::depth_max(&dav.app));
    Bounds { n_max, depth_max }
}

fn whole(path: &FilePath, is_folder: bool) -> Target {
    let reach = if is_folder { Reach::Tree } else { Reach::Itself };
    Target { path: path.clone(), reach, is_member: true }
}

fn done(is_new: bool) -> Response {
    if is_new { StatusCode::CREATED } else { StatusCode::NO_CONTENT }.into_response()
}

fn not_root(path: &FilePath) -> Result<(), Refusal> {
    match path.segments().next() {
        Some(_) => Ok(()),
        None => Err(Refusal::forbidden("the root folder cannot be removed or replaced")),
    }
}

fn overwrites(asked: &Asked) -> Result<bool, Refusal> {
    let value = asked.parts.headers.get("overwrite").map(|value| value.as_bytes());
    match value {
        None | Some(b"T" | b"t") => Ok(true),
        Some(b"F" | b"f") => Ok(false),
        Some(_) => Err(Refusal::invalid("Overwrite must be T or F")),
    }
}

/// Checks the conditions of the request if there is a file.
fn check(asked: &Asked, found: &Found) -> Result<(), Refusal> {
    let Found::File(facts, _) = found else { return Ok(()) };
    match condition::of_write(&asked.parts.headers, Some(facts)) {
        Precondition::Holds => Ok(()),
        Precondition::NotModified | Precondition::Fails => {
            let why = condition::UNMET;
            Err(Refusal::precondition(why))
        }
    }
}

fn too_many(error: content::Error, n_max: usize) -> Refusal {
    match error {
        content::Error::TooMany => {
            let why = format!(
                "there are more than {n_max} files and folders (dav-tree-max); nothing was changed"
            );
            Refusal::new(StatusCode::INSUFFICIENT_STORAGE, why)
        }
        content::Error::Denied => Refusal::forbidden(hidden(Right::FilesRead)),
        error => error.into(),
    }
}

fn hidden(right: Right) -> String {
    format!(
        "the folder contains files or folders that you have no right to ({right}); nothing was changed"
    )
}

/// Checks a path once it is locked: that it still is a file, a folder or missing as before, that the conditions of the
/// request still hold, and the rights to its content. From here on, no other request can change it, unless the lock is
/// shared: then only while it is this request's turn.
async fn still(
    dav: &Dav,
    asked: &Asked,
    path: &Permitted<ToRead>,
    was_folder: Option<bool>,
) -> Result<(), Refusal> {
    let found = dav.find(path).await?;
    let is_asked = asked.path == ***path;
    if found.is_none() && is_asked {
        return Err(Refusal::missing());
    }
    if found.as_ref().map(|found| matches!(found, Found::Folder)) != was_folder {
        return Err(content::Error::Changed.into());
    }
    if let Some(found) = found.filter(|_| is_asked) {
        check(asked, &found)?;
    }
    if was_folder == Some(true) {
        check_members(dav, &asked.caller, Right::FilesWrite, path).await?;
    }
    Ok(())
}

fn may(app: &App, caller: &Caller, right: Right, path: &FilePath) -> bool {
    let locks = super::active::governing(app, path, Reach::Itself);
    locks.iter().all(|lock| caller.check(right, lock).is_ok())
}

/// Checks that the caller has this right to everything in a folder. Rules can apply to single files, so each entry is
/// checked.
async fn check_members(
    dav: &Dav,
    caller: &Caller,
    right: Right,
    folder: &FilePath,
) -> Result<(), Refusal> {
    if !caller.is_asked() {
        return Ok(());
    }
    let n_max = dav.app.dialect.dav.tree_max;
    let (mut folders, mut n_seen) = (vec![folder.clone()], 0);
    while let Some(folder) = folders.pop() {
        let mut after: Option<String> = None;
        loop {
            let asked = caller.permit(ToRead::new(&dav.app, folder.clone()).with_all())?;
            let from = after.take();
            let page =
                dav.store.blocking(move |content| content.list(&asked, from.as_deref(), PAGE));
            let page = page.await?;
            n_seen += page.entries.len();
            if n_seen > n_max {
                return Err(too_many(content::Error::TooMany, n_max));
            }
            for entry in &page.entries {
                let Some(path) = folder.child(&entry.name) else { continue };
                // The message must not contain a name that the caller cannot see.
                if !may(&dav.app, caller, right, &path) {
                    return Err(Refusal::forbidden(hidden(right)));
                }
                if entry.facts.is_none() {
                    folders.push(path);
                }
            }
            after = page.entries.last().map(|entry| entry.name.clone());
            if !page.has_more {
                break;
            }
        }
    }
    Ok(())
}
