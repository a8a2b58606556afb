//! All locks on one page, for people. It works without a script: the browser asks again every two seconds.

use axum::extract::State;
use axum::http::{HeaderName, header};
use axum::response::{IntoResponse, Response};
use leasehold_core::{LockKey, LockView, Timestamp};

use super::error::Refusal;
use super::wire::{self, Status};
use crate::app::App;
use crate::auth::{Caller, View};
use crate::engine::{Filter, ListLocks, LockPage};
use crate::http::html::escape;

pub(super) const HTML: &str = "text/html; charset=utf-8";
/// More locks than this are not shown: the native dialect lists them in pages.
const SHOWN_MAX: usize = 200;

pub(super) async fn show(State(app): State<App>, caller: Caller) -> Result<Response, Refusal> {
    let (mut locks, is_all) = locks(&app, &caller).await?;
    locks.sort_unstable_by(|(a, _), (b, _)| a.name.cmp(&b.name));
    let now = app.engine.now();
    let rows =
        locks.iter().map(|(key, view)| row(&wire::status(&app, &key.name, view, now), view, now));
    let rows: String = rows.collect();
    let note = match (is_all, locks.is_empty()) {
        (true, true) => "There is no lock yet.",
        (true, false) => "",
        (false, _) => "There are more locks than are shown here.",
    };
    // The style may only be ours. What is in the rows is put in last, so that nothing in it is replaced.
    let nonce = format!("{:032x}", u128::from_be_bytes(crate::random::bytes()));
    let html = include_str!("page.html")
        .replace("{{nonce}}", &nonce)
        .replace("{{namespace}}", &escape(&app.dialect.sticky.namespace))
        .replace("{{now}}", &wire::shown(&app, now))
        .replace("{{note}}", note)
        .replace("{{rows}}", &rows);
    let policy = format!(
        "default-src 'none'; style-src 'nonce-{nonce}'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'"
    );
    let headers: [(HeaderName, String); 4] = [
        (header::CONTENT_TYPE, HTML.into()),
        (header::CACHE_CONTROL, "no-store".into()),
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".into()),
    ];
    Ok((headers, html).into_response())
}

/// The locks of this dialect's namespace, and whether these are all.
async fn locks(app: &App, caller: &Caller) -> Result<(Vec<(LockKey, LockView)>, bool), Refusal> {
    let mut filter = Filter {
        namespace: (*app.dialect.sticky.namespace).into(),
        prefix: "".into(),
        owner: None,
        standing: None,
        n_max: SHOWN_MAX,
        after: None,
        view: View::default(),
    };
    let mut locks = Vec::new();
    loop {
        filter.n_max = SHOWN_MAX - locks.len();
        let list = caller.permit(ListLocks(filter.clone()))?;
        let LockPage { locks: found, next, .. } = app.engine.ask(list).await?;
        locks.extend(found);
        match next {
            None => return Ok((locks, true)),
            Some(_) if locks.len() >= SHOWN_MAX => return Ok((locks, false)),
            next @ Some(_) => filter.after = next,
        }
    }
}

fn row(status: &Status<'_>, view: &LockView, now: Timestamp) -> String {
    let in_grace = view.lapse.as_ref().is_some_and(|lapse| now < lapse.grace_until);
    let (state, job, holder, until) = match status {
        Status::Known { job, holder, is_expired: true, grace_until, .. } => {
            (if in_grace { "grace" } else { "expired" }, job, *holder, grace_until.as_deref())
        }
        Status::Known { job, holder, expires_at, .. } => {
            ("held", job, *holder, Some(expires_at.as_deref().unwrap_or("until released")))
        }
        Status::Free { job, .. } => ("free", job, "", None),
    };
    let (job, holder, until) = (escape(job), escape(holder), until.unwrap_or_default());
    let n_waiting = view.n_waiting;
    format!(
        "<tr class=\"{state}\"><th scope=\"row\">{job}</th><td><span>{state}</span></td><td>{holder}</td>\
         <td>{until}</td><td>{n_waiting}</td></tr>\n"
    )
}
