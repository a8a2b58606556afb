//! `PROPPATCH`: sets and removes properties, either all or none of them.

use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;

use super::error::Refusal;
use super::find::propstat;
use super::hold::{Hold, Target};
use super::place::href;
use super::property::{Dead, Name, Names, Properties};
use super::{Answer, Asked, Dav, XML, to_completion, xml};
use crate::content::{Found, Reach, ToWrite};

/// The properties in the WebDAV namespace that clients can set, because the server does not compute them reliably.
const SETTABLE: [&str; 2] = ["displayname", "getcontentlanguage"];

/// Maximum properties that one request sets and removes.
const STEPS_MAX: usize = 1000;

/// One step of a change.
enum PropertyStep {
    Set(Dead),
    Remove(Name),
}

impl PropertyStep {
    fn name(&self) -> &Name {
        match self {
            PropertyStep::Set(dead) => &dead.name,
            PropertyStep::Remove(name) => name,
        }
    }

    /// Returns whether the client can change this property. It cannot change those that the server computes.
    fn is_allowed(&self) -> bool {
        let name = self.name();
        !name.is_dav() || SETTABLE.contains(&&*name.name)
    }
}

pub(super) async fn patch(dav: &Dav, asked: Asked, body: Body) -> Answer {
    let path = asked.caller.permit(ToWrite::new(&dav.app, asked.path.clone()))?;
    let body = dav.read(body).await?;
    let bytes_max = dav.app.dialect.dav.properties_bytes_max;
    let steps = steps(&xml::parse(&body, dav.app.limits.metadata_depth_max)?, bytes_max)?;
    let found = dav.find(&path.to_read()).await?.ok_or_else(Refusal::missing)?;
    let is_folder = matches!(found, Found::Folder);
    let target = Target { path: asked.path.clone(), reach: Reach::Itself, is_member: false };
    let mut hold = Hold::take(dav, &asked, &[target]).await?;
    let is_allowed = steps.iter().all(PropertyStep::is_allowed);
    let answer = answer(&href(&asked.path, is_folder), &steps, is_allowed);
    let dav = dav.clone();
    to_completion(async move {
        if is_allowed {
            let _turn = dav.store.turn(&path).await;
            let kept = hold.commit(move |content| {
                let mut all = Properties::parse(&content.properties(&path.to_read())?);
                for step in steps {
                    match step {
                        PropertyStep::Set(dead) => all.set(dead),
                        PropertyStep::Remove(name) => all.remove(&name),
                    }
                }
                let bytes = all.to_bytes();
                Ok(bytes.len() <= bytes_max && content.set_properties(&path, &bytes)?)
            });
            if !kept.await? {
                return Err(too_much(bytes_max));
            }
            hold.note("set-properties", &asked.path, |act| act);
        }
        hold.give_back().await?;
        let headers = [(header::CONTENT_TYPE, XML), (header::CACHE_CONTROL, "no-store")];
        Ok((StatusCode::MULTI_STATUS, headers, answer).into_response())
    })
    .await
}

fn too_much(n_max: usize) -> Refusal {
    let why = format!(
        "the properties of one file or folder can have at most {n_max} bytes together (dav-properties-bytes-max), or \
         less if the file system allows less; nothing was changed"
    );
    Refusal::new(StatusCode::INSUFFICIENT_STORAGE, why)
}

/// Renders the response: either all steps succeeded, or it names the forbidden ones and the others were not done.
fn answer(href: &str, steps: &[PropertyStep], is_allowed: bool) -> String {
    let names = |wanted: bool| -> String {
        let steps = steps.iter().filter(|step| step.is_allowed() == wanted);
        steps.map(|step| step.name().render()).collect()
    };
    let stats = if is_allowed {
        propstat(&names(true), "200 OK")
    } else {
        let others = names(true);
        let others = (!others.is_empty()).then(|| propstat(&others, "424 Failed Dependency"));
        propstat(&names(false), "403 Forbidden") + &others.unwrap_or_default()
    };
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:multistatus xmlns:D=\"DAV:\"><D:response>\
         <D:href>{href}</D:href>{stats}</D:response></D:multistatus>\n"
    )
}

fn steps(
    document: &roxmltree::Document<'_>,
    bytes_max: usize,
) -> Result<Vec<PropertyStep>, Refusal> {
    let root = document.root_element();
    if !xml::is(&root, "propertyupdate") {
        let why = "the body of PROPPATCH must be a propertyupdate element of DAV:";
        return Err(Refusal::invalid(why));
    }
    let (mut steps, mut names) = (Vec::new(), Names::new(STEPS_MAX));
    let mut n_left = bytes_max;
    for action in root.children() {
        let is_set = xml::is(&action, "set");
        if !is_set && !xml::is(&action, "remove") {
            continue;
        }
        let Some(prop) = xml::child(action, "prop") else { continue };
        for property in prop.children().filter(|child| child.is_element()) {
            let name = names.take(&property)?;
            steps.push(match is_set {
                true => {
                    let xml = xml::render(property, n_left).ok_or_else(|| too_much(bytes_max))?;
                    n_left -= xml.len();
                    PropertyStep::Set(Dead { name, xml })
                }
                false => PropertyStep::Remove(name),
            });
        }
    }
    if steps.is_empty() {
        return Err(Refusal::invalid("propertyupdate sets and removes nothing"));
    }
    Ok(steps)
}
