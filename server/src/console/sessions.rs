//! Sessions: who keeps several leases alive at once. Only admins see them.

use axum::extract::{Request, State};
use axum::response::Response;
use leasehold_core::{EndSession, Rejection, SessionNumber, SessionRecord, Timestamp};
use maud::{Markup, html};
use serde::Deserialize;

use super::form;
use super::locks::owner;
use super::sign_in;
use super::visit::{Trouble, Visit, address};
use crate::app::App;
use crate::dialect;
use crate::engine::ListSessions;
use crate::page::{Page, Place, ago, count, left, title};

/// Sessions on one page.
const PAGE: usize = 100;
const FORM_BYTES_MAX: usize = 1024;

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct Params {
    from: Option<u64>,
    ended: Option<u64>,
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
    let about = html! { "One keep-alive for any number of leases: when a session ends, they end." };
    let body = html! {
        (title(html! { "Sessions" }, about))
        @if let Some(number) = params.ended { p.note role="status" { "Session " (number) " was ended." } }
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
            td { (owner(&session.owner)) }
            td { span.tag { (dialect::name_of(session.dialect)) } }
            td data-label="leases" { (count(n_leases as usize)) }
            td.keep data-label="open for" { (ago(now.since(session.opened_at).as_millis())) }
            td.keep { (left(ms_left, Some(session.ttl.as_millis()))) }
            td {
                form method="post" action="/console/sessions/end" {
                    input type="hidden" name="number" value=(session.number.0);
                    button.bad { "End" span.unseen { " session " (session.number.0) } }
                }
            }
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    number: u64,
}

pub(super) async fn end(State(app): State<App>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let visit = Visit::new(app, &parts);
    let ended = async {
        form::check_kind(&parts.headers).map_err(Trouble::Wrong)?;
        let asked = form::read(&visit.app, body, FORM_BYTES_MAX).await;
        let Asked { number } = asked.map_err(Trouble::Wrong)?;
        let ask = visit.caller.permit(EndSession { number: SessionNumber(number) })?;
        match visit.app.engine.ask(ask).await? {
            Err(Rejection::NoSuchSession) => {
                return Err(Trouble::Missing(
                    "there is no session of this number, or it has ended".into(),
                ));
            }
            ended => ended?,
        }
        tracing::warn!(number, "session ended by an operator");
        visit.app.note(&visit.caller, "end-session", |act| act.detail("session", number));
        Ok(address("/console/sessions", &[("ended", &number.to_string())]))
    };
    match ended.await {
        Ok(to) => sign_in::see_other(&to, &[]),
        Err(trouble) => visit.answer(Err(trouble)),
    }
}
