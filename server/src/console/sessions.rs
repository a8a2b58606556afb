//! The sessions page, for admins only: lists sessions and ends them.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use leasehold_core::{SessionNumber, SessionRecord, Timestamp};
use leasehold_engine::ListSessions;
use maud::{Markup, html};
use serde::Deserialize;

use super::locks::owner;
use super::sign_in;
use super::visit::{Trouble, Visit, address};
use super::{form, reason};
use crate::dialect;
use crate::dialect::operator;
use crate::host::Host;
use crate::http::page::{Page, Place, Text, ago, count, left, title};

const PAGE: usize = 100;
const FORM_BYTES_MAX: usize = 32 * 1024;

#[derive(Deserialize, Default)]
#[serde(default)]
struct Params {
    from: Option<u64>,
    /// The id of a notice to show.
    notice: String,
}

pub(super) async fn show(visit: Visit) -> Response {
    visit.answer(page(&visit).await)
}

async fn page(visit: &Visit) -> Result<Page, Trouble> {
    visit.check_known()?;
    let params: Params = visit.params()?;
    let from = SessionNumber(params.from.unwrap_or(0));
    let ask = visit.caller.permit(ListSessions { from, n_max: PAGE + 1 })?;
    let mut sessions = visit.app.engine.ask(ask).await?;
    let next = sessions.get(PAGE).map(|(session, _)| session.number.0.to_string());
    sessions.truncate(PAGE);
    let now = visit.app.engine.now();
    let about = html! { "One keep-alive renews all leases of a session. When a session ends, its leases end." };
    let body = html! {
        (title(html! { "Sessions" }, about))
        (visit.notice(&params.notice))
        div data-part="sessions" {
            @if sessions.is_empty() {
                div.card.empty { "There is no session." }
            } @else {
                div.table {
                    table {
                        caption.unseen { "Sessions" }
                        thead {
                            tr {
                                th scope="col" { "Session" } th scope="col" { "Owner" } th scope="col" { "Protocol" }
                                th scope="col" { "Leases" } th scope="col" { "Open for" }
                                th scope="col" { "Time left" } th scope="col" { span.unseen { "End it" } }
                            }
                        }
                        tbody { @for (session, n) in &sessions { (row(session, *n, now)) } }
                    }
                }
            }
            @if let Some(next) = next {
                p.pages { a rel="next" href=(address("/console/sessions", &[("from", &next)])) { "Next page" } }
            }
        }
    };
    Ok(Page::new("Sessions", body).at(Place::Sessions).live("/console/live"))
}

fn row(session: &SessionRecord, n_leases: u32, now: Timestamp) -> Markup {
    let ms_left = session.deadline.since(now).as_millis();
    html! {
        tr data-key=(session.number.0) {
            th scope="row" { "No. " (session.number.0) }
            td { (owner(session.dialect, &session.owner)) }
            td { span.tag { (dialect::name_of(session.dialect)) } }
            td data-label="leases" { (count(n_leases as usize)) }
            td.keep data-label="open for" { (ago(now.since(session.opened_at).as_millis())) }
            td.keep { (left(ms_left, Some(session.ttl.as_millis()))) }
            td {
                a href=(address("/console/sessions/end", &[("number", &session.number.0.to_string())])) {
                    "End" span.unseen { " session " (session.number.0) } "…"
                }
            }
        }
    }
}

/// The session to end, and the reason.
#[derive(Deserialize)]
struct EndSessionForm {
    number: u64,
    #[serde(default)]
    reason: String,
}

/// Shows which leases would end, and the form that ends the session.
pub(super) async fn ask(visit: Visit) -> Response {
    let page = async {
        visit.check_known()?;
        let EndSessionForm { number, .. } = visit.params()?;
        ending(&visit, &find(&visit, number).await?, "", None)
    };
    visit.answer(page.await)
}

fn ending(
    visit: &Visit,
    (session, n_leases): &(SessionRecord, u32),
    typed: &str,
    wrong: Option<String>,
) -> Result<Page, Trouble> {
    let (number, now) = (session.number.0, visit.app.engine.now());
    let leases = match n_leases {
        0 => "It has no leases.".into(),
        1 => "Its lease and its waits are revoked immediately, with this reason.".into(),
        n => format!(
            "All its {} leases and waits are revoked immediately, with this reason.",
            count(*n as usize)
        ),
    };
    let body = html! {
        p.crumb { a href="/console/sessions" { "Sessions" } " / No. " (number) }
        (title(html! { "End session " (number) }, html! {}))
        @if let Some(wrong) = wrong { p.note.bad role="alert" { (Text(&wrong)) } }
        section.card.stack {
            dl.facts {
                dt { "Owner" } dd.big { (owner(session.dialect, &session.owner)) }
                dt { "Leases" } dd { (count(*n_leases as usize)) }
                dt { "Open for" } dd { (ago(now.since(session.opened_at).as_millis())) }
                dt { "Protocol" } dd { span.tag { (dialect::name_of(session.dialect)) } }
            }
            p { (leases) " Then the session ends, and its owner can no longer keep it alive." }
            form.stack method="post" action="/console/sessions/end" {
                input type="hidden" name="number" value=(number);
                (reason::field(&visit.app, typed))
                button.bad { "End the session" }
            }
        }
    };
    Ok(Page::new("End a session", body).at(Place::Sessions))
}

async fn find(visit: &Visit, number: u64) -> Result<(SessionRecord, u32), Trouble> {
    let number = SessionNumber(number);
    let found = operator::find_session::<Trouble>(&visit.app, &visit.caller, number).await?;
    found.ok_or_else(gone)
}

fn gone() -> Trouble {
    Trouble::Missing("no session has this number, or it has ended".into())
}

pub(super) async fn end(State(app): State<Host>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let visit = Visit::new(app, &parts);
    let asked = async {
        form::check_kind(&parts.headers)?;
        form::read(&visit.app, body, FORM_BYTES_MAX).await
    };
    let asked: EndSessionForm = match asked.await {
        Ok(asked) => asked,
        Err(why) => return visit.answer(Err(Trouble::Wrong(why))),
    };
    match done(&visit, &asked).await {
        Ok(to) => sign_in::see_other(&to, &[]),
        // The form shows the reason again.
        Err(Trouble::Wrong(why)) => {
            let typed = asked.reason.trim();
            let again = find(&visit, asked.number).await;
            let page = again.and_then(|found| ending(&visit, &found, typed, Some(why)));
            visit.answer(page.map(|page| page.status(StatusCode::BAD_REQUEST)))
        }
        Err(trouble) => visit.answer(Err(trouble)),
    }
}

async fn done(
    visit: &Visit,
    EndSessionForm { number, reason }: &EndSessionForm,
) -> Result<String, Trouble> {
    let found = find(visit, *number).await?;
    let reason = Some(reason::check(&visit.app, reason)?);
    let ended = operator::end_session::<Trouble>(&visit.app, &visit.caller, &found, reason);
    let n = ended.await?.ok_or_else(gone)?;
    let leases = match n {
        0 => "it had no leases".into(),
        1 => "its lease was revoked".into(),
        n => format!("its {} leases were revoked", count(n as usize)),
    };
    let owner = &found.0.owner.instance;
    let notice = visit.app.notices.leave(format!("Ended session {number} of {owner}: {leases}."));
    Ok(address("/console/sessions", &[("notice", &notice)]))
}
