//! `PROPFIND`: returns the properties of files and folders.

use std::collections::{HashMap, HashSet};

use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use leasehold_auth::{Caller, Permitted};
use leasehold_base::calendar;
use leasehold_engine::Secrets;

use super::active::{self, Active, covering};
use super::error::Refusal;
use super::place::href;
use super::property::{Dead, Name, Names, Properties};
use super::{Answer, Asked, Dav, Depth, XML, xml};
use crate::content::{Facts, FilePath, Found, Reach, ToRead};
use crate::files::condition;
use crate::http::answers::Sending;
use crate::http::client;
use crate::http::pieces::{BrokenOff, Outlet, PIECE_BYTES};

/// Maximum number of entries that are read from a folder at a time.
const PAGE: usize = 500;
/// Maximum properties that one request names.
const NAMES_MAX: usize = 256;
/// Approximate maximum bytes of the locks that are shown for one file or folder. There can be thousands of shared
/// locks, each with an `owner` of several kilobytes.
const LOCKS_BYTES_MAX: usize = 64 * 1024;
/// The properties that the server computes. Quota properties are not in this list: only requests that name them get
/// them.
const LIVE: [&str; 9] = [
    "creationdate",
    "displayname",
    "getcontentlength",
    "getcontenttype",
    "getetag",
    "getlastmodified",
    "lockdiscovery",
    "resourcetype",
    "supportedlock",
];
const SUPPORTED: &str = "<D:lockentry><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype>\
    </D:lockentry><D:lockentry><D:lockscope><D:shared/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockentry>";

/// The properties that a request wants.
#[derive(Clone, Debug)]
enum PropertyRequest {
    /// All properties, and in addition these.
    All(Vec<Name>),
    /// The names of all properties, without values.
    Names,
    /// Only these properties.
    These(Vec<Name>),
}

impl PropertyRequest {
    fn wants(&self, live: &str) -> bool {
        match self {
            PropertyRequest::All(_) => true,
            PropertyRequest::Names => false,
            PropertyRequest::These(names) => {
                names.iter().any(|name| name.is_dav() && name.name == live)
            }
        }
    }

    /// Returns whether the stored properties of clients have to be read.
    fn wants_dead(&self) -> bool {
        match self {
            PropertyRequest::All(_) | PropertyRequest::Names => true,
            PropertyRequest::These(names) => names.iter().any(|name| {
                !name.is_dav() || !LIVE.contains(&&*name.name) || name.name == "displayname"
            }),
        }
    }
}

/// A file or folder with the data that was read for the response.
struct ListedResource {
    path: FilePath,
    facts: Option<Facts>,
    modified_ms: i64,
    dead: Properties,
    locks: Vec<Active>,
}

pub(super) async fn find(dav: &Dav, asked: Asked, body: Body) -> Answer {
    let depth = Depth::of(&asked.parts.headers)?;
    let path = asked.caller.permit(ToRead::new(&dav.app, asked.path.clone()))?;
    let body = dav.read(body).await?;
    let wanted = match body.is_empty() {
        true => PropertyRequest::All(Vec::new()),
        false => wanted(&xml::parse(&body, dav.app.limits.metadata_depth_max)?)?,
    };
    let looked = path.clone();
    let found = dav.store.blocking(move |content| {
        let modified_ms = content.modified_ms(&looked);
        Ok(content.find(&looked)?.map(|found| (found, modified_ms)))
    });
    let (found, modified_ms) = found.await?.ok_or_else(Refusal::missing)?;
    let facts = match found {
        Found::File(facts, _) => {
            path.check_file()?;
            Some(facts)
        }
        Found::Folder => None,
    };
    let is_folder = facts.is_none();
    if is_folder && matches!(depth, None | Some(Depth::Infinity)) {
        let why =
            "PROPFIND of a folder needs the header Depth with 0 or 1; send one request per folder";
        return Err(Refusal::forbidden(why).named("propfind-finite-depth"));
    }
    let mut look = FolderListing { dav: dav.clone(), caller: asked.caller.clone(), wanted };
    let locks = match look.wanted.wants("lockdiscovery") {
        true => first(covering(dav, &asked.caller, &asked.path, &Secrets::default()).await?),
        false => Vec::new(),
    };
    let modified_ms = facts.as_ref().map_or(modified_ms.unwrap_or(0), |facts| facts.modified_ms);
    let seen = look.seen(asked.path.clone(), facts, modified_ms, locks.clone()).await?;
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:multistatus xmlns:D=\"DAV:\">\n{}",
        look.render(&seen)
    );
    let headers = [(header::CONTENT_TYPE, XML), (header::CACHE_CONTROL, "no-store")];
    let body = if is_folder && depth == Some(Depth::One) {
        let sending = dav.app.answers.long(&client::of_request(&dav.app.http, &asked.parts))?;
        look.members(sending, text, path, locks)
    } else {
        text.push_str(END);
        Body::from(text)
    };
    Ok((StatusCode::MULTI_STATUS, headers, body).into_response())
}

/// Returns the first locks, as many as a response shows for one file or folder, and at least one.
fn first(mut locks: Vec<Active>) -> Vec<Active> {
    let mut n_bytes = 0;
    let n_shown = locks.iter().take_while(|active| {
        let is_shown = n_bytes < LOCKS_BYTES_MAX;
        n_bytes += active.n_bytes();
        is_shown
    });
    locks.truncate(n_shown.count());
    locks
}

const END: &str = "</D:multistatus>\n";

struct FolderListing {
    dav: Dav,
    caller: Caller,
    wanted: PropertyRequest,
}

impl FolderListing {
    /// Returns the rest of the response: the entries of the folder, one page at a time, so that they are never in
    /// memory as a whole.
    fn members(
        self,
        sending: Sending,
        head: String,
        folder: Permitted<ToRead>,
        locks: Vec<Active>,
    ) -> Body {
        Outlet::body(sending, |outlet| self.send_members(outlet, head, folder, locks))
    }

    /// If an error occurs, the response ends early, so the client can see that it is incomplete.
    async fn send_members(
        mut self,
        mut outlet: Outlet,
        mut text: String,
        folder: Permitted<ToRead>,
        locks: Vec<Active>,
    ) -> Result<(), BrokenOff> {
        let mut after = None;
        loop {
            let (next, has_more) =
                self.page(&folder, after, &locks, (&mut text, &mut outlet)).await?;
            if !has_more {
                text.push_str(END);
                outlet.send(text.into()).await?;
                return outlet.room().await;
            }
            after = next;
        }
    }

    /// Appends the next entries to the text, and sends it each time it is long enough. Returns the name of the last
    /// entry, and whether there are more.
    async fn page(
        &mut self,
        folder: &Permitted<ToRead>,
        after: Option<String>,
        locks: &[Active],
        (text, outlet): (&mut String, &mut Outlet),
    ) -> Result<(Option<String>, bool), BrokenOff> {
        let asked = folder.clone();
        let listed =
            self.dav.store.blocking(move |content| content.list(&asked, after.as_deref(), PAGE));
        let listed = listed.await.map_err(|_| BrokenOff)?;
        let path: &FilePath = folder;
        let inherited: Vec<_> = locks.iter().filter(|active| active.is_deep()).cloned().collect();
        // In most folders nothing is locked. Then the locks of the entries need not be read one by one.
        let is_locked = self.wanted.wants("lockdiscovery")
            && active::is_any_inside(&self.dav, &self.caller, path).await.map_err(|_| BrokenOff)?;
        for entry in &listed.entries {
            let Some(child) = path.child(&entry.name) else { continue };
            let mut locks = inherited.clone();
            if is_locked {
                let of = active::governing(&self.dav.app, &child, Reach::Itself);
                let own =
                    active::on_node(&self.dav, &self.caller, &child, (&of, &Secrets::default()))
                        .await;
                locks.extend(own.map_err(|_| BrokenOff)?);
            }
            let locks = first(locks);
            let seen = self.seen(child, entry.facts.clone(), entry.modified_ms, locks).await;
            match seen {
                Ok(seen) => text.push_str(&self.render(&seen)),
                // The entry was removed in the meantime.
                Err(why) if why.status() == StatusCode::NOT_FOUND => {}
                Err(_) => return Err(BrokenOff),
            }
            if text.len() >= PIECE_BYTES {
                outlet.send(std::mem::take(text).into()).await?;
            }
        }
        Ok((listed.entries.last().map(|entry| entry.name.clone()), listed.has_more))
    }

    async fn seen(
        &mut self,
        path: FilePath,
        facts: Option<Facts>,
        modified_ms: i64,
        locks: Vec<Active>,
    ) -> Result<ListedResource, Refusal> {
        let mut dead = Properties::default();
        if self.wanted.wants_dead() {
            let asked = self.caller.permit(ToRead::new(&self.dav.app, path.clone()))?;
            let bytes = self.dav.store.blocking(move |content| content.properties(&asked)).await?;
            dead = Properties::parse(&bytes);
        }
        Ok(ListedResource { path, facts, modified_ms, dead, locks })
    }

    fn render(&self, seen: &ListedResource) -> String {
        let (mut there, mut missing) = (String::new(), String::new());
        let dead: HashMap<&Name, &Dead> =
            seen.dead.0.iter().map(|dead| (&dead.name, dead)).collect();
        match &self.wanted {
            PropertyRequest::Names => {
                let live = LIVE.iter().filter(|name| self.live(seen, name).is_some());
                live.for_each(|name| there.push_str(&Name::dav(name).render()));
                seen.dead.0.iter().for_each(|dead| there.push_str(&dead.name.render()));
            }
            PropertyRequest::All(more) => {
                for name in LIVE {
                    if !dead.contains_key(&Name::dav(name))
                        && let Some(value) = self.live(seen, name)
                    {
                        there.push_str(&value);
                    }
                }
                seen.dead.0.iter().for_each(|dead| there.push_str(&dead.xml));
                let more =
                    more.iter().filter(|name| !LIVE.contains(&&*name.name) || !name.is_dav());
                let more = more.filter(|name| !dead.contains_key(name));
                more.for_each(|name| self.one((seen, &dead), name, &mut there, &mut missing));
            }
            PropertyRequest::These(names) => {
                let names = names.iter();
                names.for_each(|name| self.one((seen, &dead), name, &mut there, &mut missing));
            }
        }
        let mut text =
            format!("<D:response><D:href>{}</D:href>", href(&seen.path, seen.facts.is_none()));
        // A response needs at least one `propstat`.
        if !there.is_empty() || missing.is_empty() {
            text.push_str(&propstat(&there, "200 OK"));
        }
        if !missing.is_empty() {
            text.push_str(&propstat(&missing, "404 Not Found"));
        }
        text.push_str("</D:response>\n");
        text
    }

    fn one(
        &self,
        (seen, dead): (&ListedResource, &HashMap<&Name, &Dead>),
        name: &Name,
        there: &mut String,
        missing: &mut String,
    ) {
        if let Some(dead) = dead.get(name) {
            there.push_str(&dead.xml);
            return;
        }
        match Some(&name.name).filter(|_| name.is_dav()).and_then(|live| self.live(seen, live)) {
            Some(value) => there.push_str(&value),
            None => missing.push_str(&name.render()),
        }
    }

    /// Returns a property that the server computes, as an XML element.
    fn live(&self, seen: &ListedResource, name: &str) -> Option<String> {
        let facts = seen.facts.as_ref();
        let value = match name {
            "creationdate" => calendar::to_seconds(seen.modified_ms),
            "getlastmodified" => condition::date(seen.modified_ms),
            "displayname" => xml::escape(seen.path.segments().last().unwrap_or("")),
            "getcontentlength" => facts?.size.to_string(),
            "getcontenttype" => xml::escape(&facts?.kind),
            "getetag" => xml::escape(&condition::tag(facts?)),
            "resourcetype" => if facts.is_some() { "" } else { "<D:collection/>" }.into(),
            "supportedlock" => SUPPORTED.into(),
            "lockdiscovery" => {
                let now = self.dav.app.engine.now();
                seen.locks.iter().map(|active| active.render(now)).collect()
            }
            "quota-used-bytes" => self.dav.store.n_bytes().to_string(),
            "quota-available-bytes" => {
                let quota = self.dav.app.dialect.files.quota;
                quota.saturating_sub(self.dav.store.n_bytes()).to_string()
            }
            _ => return None,
        };
        Some(format!("<D:{name}>{value}</D:{name}>"))
    }
}

/// Renders properties that have the same status.
pub(super) fn propstat(properties: &str, status: &str) -> String {
    format!(
        "<D:propstat><D:prop>{properties}</D:prop><D:status>HTTP/1.1 {status}</D:status></D:propstat>"
    )
}

fn wanted(document: &roxmltree::Document<'_>) -> Result<PropertyRequest, Refusal> {
    let root = document.root_element();
    if !xml::is(&root, "propfind") {
        return Err(Refusal::invalid("the body of PROPFIND must be a propfind element of DAV:"));
    }
    if let Some(these) = xml::child(root, "prop") {
        return Ok(PropertyRequest::These(names(these)?));
    }
    if xml::child(root, "propname").is_some() {
        return Ok(PropertyRequest::Names);
    }
    if xml::child(root, "allprop").is_some() {
        let more = xml::child(root, "include").map(names).transpose()?;
        return Ok(PropertyRequest::All(more.unwrap_or_default()));
    }
    Err(Refusal::invalid("propfind needs prop, propname or allprop"))
}

/// Returns the names of the child elements without duplicates, because each name costs a lookup for every file in a
/// folder.
fn names(node: roxmltree::Node<'_, '_>) -> Result<Vec<Name>, Refusal> {
    let (mut names, mut known) = (Names::new(NAMES_MAX), HashSet::new());
    let mut all = Vec::new();
    for child in node.children().filter(|child| child.is_element()) {
        let name = names.take(&child)?;
        if known.insert(name.clone()) {
            all.push(name);
        }
    }
    Ok(all)
}
