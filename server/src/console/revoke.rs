//! Revokes the leases of the holders that the page of a lock has shown.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::response::Response;
use leasehold_auth::Right;
use leasehold_core::{LeaseView, LockKey, Target};
use serde::Deserialize;

use super::lock::{self, look};
use super::sign_in;
use super::visit::{Trouble, Visit, address, of_lock};
use super::{form, reason};
use crate::dialect::operator;
use crate::dialect::{self, grip};
use crate::host::Host;
use crate::http::page::count;

/// Maximum size of the form, in bytes. It contains the token of each holder that the page shows.
const FORM_BYTES_MAX: usize = 32 * 1024;

#[derive(Deserialize)]
struct Params {
    namespace: String,
    name: String,
}

#[derive(Default)]
struct RevokeForm {
    reason: String,
    tokens: Vec<u64>,
}

pub(super) async fn revoke(State(app): State<Host>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let visit = Visit::new(app, &parts);
    let key = match key(&visit) {
        Ok(key) => key,
        Err(trouble) => return visit.answer(Err(trouble)),
    };
    let mut asked = RevokeForm::default();
    match done(&visit, &key, &parts.headers, body, &mut asked).await {
        Ok(to) => sign_in::see_other(&to, &[]),
        Err(trouble) => visit.answer(lock::again(&visit, &key, trouble, asked.reason.trim()).await),
    }
}

/// Redirects a browser that opens the URL of the form to the page of the lock.
pub(super) async fn back(visit: Visit) -> Response {
    match key(&visit) {
        Ok(key) => sign_in::see_other(&of_lock(&key.namespace, &key.name), &[]),
        Err(trouble) => visit.answer(Err(trouble)),
    }
}

fn key(visit: &Visit) -> Result<LockKey, Trouble> {
    let Params { namespace, name } = visit.params()?;
    Ok(LockKey::new(namespace, name))
}

async fn done(
    visit: &Visit,
    key: &LockKey,
    headers: &HeaderMap,
    body: Body,
    asked: &mut RevokeForm,
) -> Result<String, Trouble> {
    form::check_kind(headers).map_err(Trouble::Wrong)?;
    let pairs: Vec<(String, String)> =
        form::read(&visit.app, body, FORM_BYTES_MAX).await.map_err(Trouble::Wrong)?;
    asked.fill(&pairs)?;
    let reason = reason::check(&visit.app, &asked.reason)?;
    visit.caller.check(Right::Revoke, key)?;
    grip::check_revocable(&visit.app, key).map_err(Trouble::Wrong)?;
    if asked.tokens.is_empty() {
        let why = "the form contains no fencing token; nothing was revoked";
        return Err(Trouble::Wrong(why.into()));
    }
    let view = look(visit, key, 0).await?;
    // Clients that acquired the lock after the page was shown keep it.
    let meant = view.holders.iter().filter(|lease| asked.tokens.contains(&lease.token.get()));
    let numbers: Vec<_> = meant.map(|lease| lease.id.number).collect();
    if numbers.is_empty() {
        let why = "the holders on the previous page no longer hold the lock; nothing was revoked. This page shows the \
            current holders";
        return Err(Trouble::Changed(why.into()));
    }
    let target = Target::Leases(numbers);
    let revoked: Vec<_> =
        operator::revoke::<Trouble>(&visit.app, &visit.caller, key, target, reason).await?;
    let notice = visit.app.notices.leave(said(&revoked));
    let query = [("namespace", &*key.namespace), ("name", &*key.name), ("notice", &notice)];
    Ok(address("/console/lock", &query))
}

/// Returns the notice. It names only the revoked leases, so it stays true if another client acquires the lock.
fn said(revoked: &[LeaseView]) -> String {
    match revoked {
        [] => "The lock is no longer held. Nothing was revoked.".into(),
        [lease] => {
            let owner = dialect::shown(lease.dialect, &lease.owner);
            let token = lease.token.get();
            format!("Revoked: {owner} (fencing token {token}) no longer holds the lock.")
        }
        all => format!("Revoked: {} holders no longer hold the lock.", count(all.len())),
    }
}

impl RevokeForm {
    fn fill(&mut self, pairs: &[(String, String)]) -> Result<(), Trouble> {
        // The reason is read first: the page shows it again even if the rest of the form is invalid.
        let reason = pairs.iter().rfind(|(name, _)| name == "reason");
        self.reason = reason.map(|(_, value)| value.clone()).unwrap_or_default();
        for (name, value) in pairs.iter().filter(|(name, _)| name != "reason") {
            if name != "token" {
                let why = "the form contains an unknown field";
                return Err(Trouble::Wrong(why.into()));
            }
            let wrong = |_| Trouble::Wrong("token: must be a fencing token".into());
            self.tokens.push(value.parse().map_err(wrong)?);
        }
        Ok(())
    }
}
