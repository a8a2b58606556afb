//! The files page: lists a folder and shows which files are locked, and by whom.

use axum::response::Response;
use leasehold_auth::Right;
use leasehold_core::{LockKey, LockView, Timestamp};
use maud::{Markup, html};
use serde::Deserialize;

use super::locks::{self, owner, standing, time_left};
use super::visit::{Trouble, Visit, address};
use crate::content::{Entry, Error, FilePath, Found, Listing, ToRead};
use crate::http::page::{Page, Place, Text, bytes, day, name, title};

const PAGE: usize = 100;

#[derive(Deserialize, Default)]
#[serde(default)]
struct Params {
    path: String,
    after: String,
}

type Locked = Option<(LockKey, Box<LockView>)>;

pub(super) async fn show(mut visit: Visit) -> Response {
    // The rights to files apply here.
    visit.caller = visit.caller.clone().of_files();
    visit.answer(page(&visit).await)
}

async fn page(visit: &Visit) -> Result<Page, Trouble> {
    visit.check_known()?;
    let params: Params = visit.params()?;
    let (folder, listing) = list(visit, &params).await?;
    let now = visit.app.engine.now();
    let entries = locked(visit, &folder, listing.entries).await?;
    let next = entries.last().map(|(entry, _)| entry.name.clone()).filter(|_| listing.has_more);
    let here = folder.as_str();
    let body = html! {
        (trail(here))
        (title(html! { "Files" }, html! { (entries.len()) " in this folder" @if next.is_some() { " and more" } }))
        div data-part="files" {
            @if entries.is_empty() {
                div.card.empty { "This folder contains nothing that you may read." }
            } @else {
                div.table {
                    table {
                        caption.unseen { "Files" }
                        thead {
                            tr {
                                th scope="col" { "Name" } th scope="col" { "Lock" } th scope="col" { "Holder" }
                                th scope="col" { "Time left" } th scope="col" { "Size" }
                                th scope="col" { "Written (UTC)" }
                            }
                        }
                        tbody { @for (entry, lock) in &entries { (row(here, entry, lock, now)) } }
                    }
                }
            }
            @if let Some(next) = next {
                p.pages {
                    a rel="next" href=(Text(&address("/console/files", &[("path", here), ("after", &next)]))) {
                        "Next page"
                    }
                }
            }
        }
    };
    Ok(Page::new("Files", body).at(Place::Files).live("/console/live"))
}

/// Lists the entries of the folder that the user can see.
async fn list(visit: &Visit, params: &Params) -> Result<(FilePath, Listing), Trouble> {
    let nothing = || Trouble::Missing("there is no such folder".into());
    let content = visit.app.content.clone();
    let content = content.ok_or_else(|| Trouble::Missing("this server stores no files".into()))?;
    // Without authentication, files can still be restricted to clients with a session.
    if !visit.caller.is_asked() && !visit.app.dialect.files.is_public {
        let why = "files need a session on this server (files-public)";
        return Err(Trouble::Denied(leasehold_auth::Denied::Forbidden(why.into())));
    }
    let path = format!("/{}", params.path.trim_matches('/'));
    let path = FilePath::plain(&path).ok_or_else(nothing)?;
    let asked = visit.caller.permit(ToRead::new(&**visit.app, path.clone()))?;
    let after = Some(params.after.clone()).filter(|after| !after.is_empty());
    let listed = content.blocking(move |content| match content.find(&asked)? {
        Some(Found::Folder) => content.list(&asked, after.as_deref(), PAGE),
        _ => Err(Error::Missing),
    });
    match listed.await {
        Ok(listing) => Ok((path.into_folder(), listing)),
        Err(Error::Missing | Error::NotFolder) => Err(nothing()),
        Err(error) => Err(Trouble::Failed(error.to_string())),
    }
}

/// Returns each entry with its lock. Folders are listed without locks.
async fn locked(
    visit: &Visit,
    folder: &FilePath,
    entries: Vec<Entry>,
) -> Result<Vec<(Entry, Locked)>, Trouble> {
    let of = |entry: &Entry| {
        let path = FilePath::plain(&format!("{}{}", folder.as_str(), entry.name))?;
        let lock = path.lock(&**visit.app);
        let is_file = entry.facts.is_some();
        // The lock name of a very long path contains a hash, so a different rule can apply to it.
        (is_file && visit.caller.check(Right::FilesRead, &lock).is_ok()).then_some(lock)
    };
    let keys: Vec<_> = entries.iter().map(of).collect();
    let mut locks = locks::read(visit, keys.iter().flatten().cloned()).await?.into_iter();
    let with = |(entry, key): (Entry, Option<LockKey>)| (entry, key.and_then(|_| locks.next()));
    Ok(entries.into_iter().zip(keys).map(with).collect())
}

fn row(folder: &str, entry: &Entry, lock: &Locked, now: Timestamp) -> Markup {
    let path = format!("{folder}{}", entry.name);
    let holder = lock.as_ref().and_then(|(_, view)| view.holders.first());
    html! {
        tr data-key=(Text(&path)) {
            th scope="row" {
                @match &entry.facts {
                    Some(_) => (name(&entry.name)),
                    None => a href=(Text(&address("/console/files", &[("path", &path)]))) { (name(&entry.name)) "/" },
                }
            }
            td { @if let Some((_, view)) = lock { (standing(view, now)) } @else { span.dim { "folder" } } }
            td { @if let Some(lease) = holder { (owner(lease.dialect, &lease.owner)) } }
            td.keep { @if let Some((_, view)) = lock { (time_left(view.holders.first(), None, now)) } }
            td { @if let Some(facts) = &entry.facts { (bytes(facts.size)) } }
            td.keep { (day(entry.modified_ms)) }
        }
    }
}

/// Renders links to the folder and to the folders around it.
fn trail(folder: &str) -> Markup {
    let names: Vec<_> = folder.split('/').filter(|name| !name.is_empty()).collect();
    html! {
        nav.crumb aria-label="Folder" {
            a href="/console/files" { "Files" }
            @for n in 0..names.len() {
                @let path = format!("/{}", names[..=n].join("/"));
                " / " a href=(Text(&address("/console/files", &[("path", &path)]))) { (name(names[n])) }
            }
        }
    }
}
