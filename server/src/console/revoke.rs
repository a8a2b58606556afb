//! Taking a lock away from those whom the page showed as its holders.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::response::Response;
use leasehold_core::{LockKey, Revoke, Target};
use serde::Deserialize;

use super::form;
use super::lock::look;
use super::sign_in;
use super::visit::{Trouble, Visit, address};
use crate::app::App;
use crate::auth::Right;

/// Longest form: as many tokens as a page shows holders.
const FORM_BYTES_MAX: usize = 32 * 1024;

/// What the address says.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    namespace: String,
    name: String,
}

/// What the form says.
#[derive(Default)]
struct Asked {
    reason: String,
    tokens: Vec<u64>,
}

pub(super) async fn revoke(State(app): State<App>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let visit = Visit::new(app, &parts);
    match done(&visit, &parts.headers, body).await {
        Ok(to) => sign_in::see_other(&to, &[]),
        Err(trouble) => visit.answer(Err(trouble)),
    }
}

async fn done(visit: &Visit, headers: &HeaderMap, body: Body) -> Result<String, Trouble> {
    form::check_kind(headers).map_err(Trouble::Wrong)?;
    let pairs: Vec<(String, String)> =
        form::read(&visit.app, body, FORM_BYTES_MAX).await.map_err(Trouble::Wrong)?;
    let asked = asked(&pairs)?;
    let Params { namespace, name } = visit.params()?;
    let key = LockKey::new(namespace, name);
    let reason = asked.reason.trim();
    if reason.is_empty() {
        return Err(Trouble::Wrong("reason: must not be empty".into()));
    }
    visit.caller.check(Right::Revoke, &key)?;
    let view = look(visit, &key, 0).await?;
    // Whoever got it since the page was shown keeps it.
    let meant = view.holders.iter().filter(|lease| asked.tokens.contains(&lease.token.get()));
    let numbers: Vec<_> = meant.map(|lease| lease.id.number).collect();
    if numbers.is_empty() {
        let why = "the lock is not held by those who were shown any more; nothing was revoked. Look at it again";
        return Err(Trouble::Changed(why.into()));
    }
    let revoke = Revoke { target: Target::Leases(numbers), reason: reason.into() };
    let permitted = visit.caller.permit_on(Right::Revoke, [&key], revoke)?;
    let revoked = visit.app.engine.ask(permitted).await??;
    tracing::warn!(?key, reason, n_revoked = revoked.len(), "revoked");
    visit.app.note(&visit.caller, "revoke", |act| {
        act.detail("of", format!("{key:?}"))
            .detail("n", revoked.len() as u64)
            .claimed("reason", Some(reason))
    });
    let n = revoked.len().to_string();
    let query = [("namespace", &*key.namespace), ("name", &*key.name), ("revoked", &n)];
    Ok(address("/console/lock", &query))
}

fn asked(pairs: &[(String, String)]) -> Result<Asked, Trouble> {
    let mut asked = Asked::default();
    for (name, value) in pairs {
        match name.as_str() {
            "reason" => asked.reason.clone_from(value),
            "token" => {
                let wrong = |_| Trouble::Wrong("token: must be a fencing token".into());
                asked.tokens.push(value.parse().map_err(wrong)?);
            }
            _ => return Err(Trouble::Wrong("the form has a field that it should not have".into())),
        }
    }
    Ok(asked)
}
