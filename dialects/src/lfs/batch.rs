//! The batch endpoint: reports which objects exist and which can be uploaded, and how to transfer them.
//!
//! Requests are rejected here whenever possible, because git-lfs reacts to a rejected transfer only by repeating it.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use axum::http::request::Parts;
use leasehold_auth::{Caller, Permitted, ticket};

use super::error::{Refusal, too_large};
use super::repository::{Oid, Repository};
use super::wire::{self, Action, Actions, Batch, BatchRequest, Object, ObjectShown};
use super::{Answer, Asked, Lfs};
use crate::content::{self, Content, Found, ToRead};
use crate::http::forwarded;
use crate::http::request::Arrival;

const BASIC: &str = "basic";
const HASH: &str = "sha256";

/// The direction of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    Up,
    Down,
}

impl Way {
    fn parse(operation: &str) -> Result<Self, Refusal> {
        match operation {
            "upload" => Ok(Self::Up),
            "download" => Ok(Self::Down),
            _ => Err(Refusal::unprocessable("operation must be upload or download")),
        }
    }

    /// Returns the scope of a ticket: one object of one repository, and one direction.
    pub(super) fn scope(self, repository: &Repository, oid: &Oid) -> String {
        let operation = if self == Self::Up { "upload" } else { "download" };
        format!("lfs {operation} {} of {}", oid.as_str(), repository.name())
    }
}

/// How clients reach the transfers of a batch.
struct TransferUrls<'a> {
    lfs: &'a Lfs,
    caller: &'a Caller,
    base: String,
    way: Way,
}

impl<'a> TransferUrls<'a> {
    fn of(lfs: &'a Lfs, caller: &'a Caller, way: Way, parts: &Parts) -> Result<Self, Refusal> {
        let base = base(lfs, caller, parts)
            .ok_or_else(|| Refusal::invalid("the request has no Host header"))?;
        Ok(Self { lfs, caller, base, way })
    }

    fn actions(&self, repository: &Repository, oid: &Oid) -> Actions {
        let ttl = self.lfs.app.dialect.lfs.transfer_ttl;
        let scope = self.way.scope(repository, oid);
        let ticket = self.caller.ticket(&scope, ttl, self.lfs.app.engine.clock());
        let header: BTreeMap<_, _> =
            ticket.into_iter().map(|ticket| (ticket::HEADER, ticket)).collect();
        let action = |more: &str| {
            let href = format!("{}{}{more}", self.base, repository.address(oid));
            let expires_in = ttl.as_millis() / 1000;
            Some(Action { href, header: header.clone(), expires_in })
        };
        match self.way {
            Way::Up => Actions { upload: action(""), verify: action("/verify"), download: None },
            Way::Down => Actions { download: action(""), ..Actions::default() },
        }
    }
}

/// Returns the base URL of the server as the client knows it. An untrusted proxy can hide that the client used TLS. So
/// the configured public URL is used if it names the same host, or if the request names none.
fn base(lfs: &Lfs, caller: &Caller, parts: &Parts) -> Option<String> {
    let Arrival { peer, link, .. } = Arrival::of(parts);
    let reached = forwarded::base(parts, *peer, link.is_tls, &lfs.app.http.trusted_proxies);
    let public = caller.authority().and_then(|authority| authority.public_url());
    let public = public.map(|url| url.trim_end_matches('/').to_owned());
    let is_public = |public: &&String| {
        let host = |url: &str| url.split_once("://").map(|(_, host)| host.to_ascii_lowercase());
        reached.is_empty() || host(public) == host(&reached)
    };
    let public = public.as_ref().filter(is_public).cloned();
    public.or_else(|| (!reached.is_empty()).then_some(reached))
}

/// Handles `POST objects/batch`.
pub(super) async fn batch(lfs: &Lfs, asked: Asked) -> Answer {
    let (repository, caller) = (asked.repository.clone(), asked.caller.clone());
    // A caller without the right to read is rejected before its body is read.
    caller.permit(repository.to_read(&Oid::of_nothing()))?;
    let parts = asked.parts.clone();
    let request: BatchRequest = asked.json(lfs).await?;
    let way = Way::parse(&request.operation)?;
    check(&request)?;
    if way == Way::Up {
        caller.permit(repository.to_write(&Oid::of_nothing()))?;
    }
    let address = TransferUrls::of(lfs, &caller, way, &parts)?;
    let mut wanted = Vec::new();
    for object in request.objects {
        let oid = Oid::parse(&object.oid);
        let path = oid.as_ref().map(|oid| caller.permit(repository.to_read(oid))).transpose()?;
        wanted.push(RequestedObject { object, oid: oid.zip(path) });
    }
    let bytes_max = lfs.app.dialect.lfs.object_bytes_max;
    let planned = lfs.store.blocking(move |content| plan(content, way, wanted, bytes_max)).await?;
    let objects = planned.into_iter().map(|(object, plan)| match plan {
        Plan::Nothing => shown(object, None, None),
        Plan::Refused(refusal) => shown(object, None, Some(refusal)),
        Plan::Move(oid) => shown(object, Some(address.actions(&repository, &oid)), None),
    });
    let batch = Batch { transfer: BASIC, objects: objects.collect(), hash_algo: HASH };
    Ok(wire::answer(StatusCode::OK, batch))
}

fn check(request: &BatchRequest) -> Result<(), Refusal> {
    let transfers = request.transfers.as_deref().unwrap_or_default();
    if !transfers.is_empty() && !transfers.iter().any(|transfer| transfer == BASIC) {
        return Err(Refusal::unprocessable("transfers: this server supports only basic"));
    }
    match request.hash_algo.as_deref() {
        None | Some(HASH | "") => Ok(()),
        Some(_) => Err(Refusal::unprocessable("hash_algo: this server supports only sha256")),
    }
}

/// A requested object, and its path in the store if its id is valid.
struct RequestedObject {
    object: Object,
    oid: Option<(Oid, Permitted<ToRead>)>,
}

/// The result for one object.
enum Plan {
    Nothing,
    Move(Oid),
    Refused(Refusal),
}

/// Plans each object. All uploads together must fit into the available space.
fn plan(
    content: &dyn Content,
    way: Way,
    wanted: Vec<RequestedObject>,
    bytes_max: u64,
) -> Result<Vec<(Object, Plan)>, content::Error> {
    let mut n_bytes = 0;
    let mut planned = Vec::new();
    for RequestedObject { object, oid } in wanted {
        let plan = match oid.zip(u64::try_from(object.size).ok()) {
            None => {
                let why = "oid must be 64 lower-case hexadecimal digits, and size not negative";
                Plan::Refused(Refusal::unprocessable(why))
            }
            Some(((oid, path), size)) => match (found(content, &path)?, way) {
                (Some(known), _) if known != size => {
                    let why = format!("the object {} has {known} bytes, not {size}", oid.as_str());
                    Plan::Refused(Refusal::unprocessable(why))
                }
                (Some(_), Way::Up) => Plan::Nothing,
                (Some(_), Way::Down) => Plan::Move(oid),
                (None, Way::Down) => Plan::Refused(Refusal::no_object()),
                (None, Way::Up) if size > bytes_max => {
                    Plan::Refused(Refusal::unprocessable(too_large(bytes_max)))
                }
                (None, Way::Up) => match content.check_room(size.saturating_add(n_bytes)) {
                    Ok(()) => {
                        n_bytes += size;
                        Plan::Move(oid)
                    }
                    Err(error) => Plan::Refused(error.into()),
                },
            },
        };
        planned.push((object, plan));
    }
    Ok(planned)
}

/// Returns the size of an object, if it exists.
fn found(content: &dyn Content, path: &Permitted<ToRead>) -> Result<Option<u64>, content::Error> {
    match content.find(path)? {
        Some(Found::File(facts, _)) => Ok(Some(facts.size)),
        Some(Found::Folder) | None => Ok(None),
    }
}

fn shown(object: Object, actions: Option<Actions>, refusal: Option<Refusal>) -> ObjectShown {
    let error = refusal.map(Refusal::of_object);
    ObjectShown { object, authenticated: true, actions, error }
}
