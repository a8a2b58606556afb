//! Many claims.

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderValue, header};
use axum::response::IntoResponse;

use super::claim::Answer;
use super::extract::{Base, Pairs};
use super::filter::Filter;
use super::wire::Claim;
use crate::app::App;
use crate::dialect::Dialect;
use crate::engine::{LeasePage, ListLeases};

pub(super) async fn list(
    State(app): State<App>,
    Base(base): Base,
    Pairs(pairs): Pairs,
    RawQuery(query): RawQuery,
) -> Answer {
    let filter = Filter::parse(&pairs)?;
    let now = app.engine.now();
    let mut claims = Vec::new();
    let mut from = Some(0);
    while let Some(place) = from {
        // One turn of the engine looks at a bounded number of leases, so a list can take several.
        let read = ListLeases { dialect: Dialect::Claims.number(), from: place };
        let LeasePage { leases, next } = app.engine.ask(read).await?;
        let found = leases.into_iter().map(Claim::from);
        claims.extend(found.filter(|claim| filter.admits(&app, claim, now)));
        from = next;
    }
    claims.sort_unstable_by_key(|claim| claim.number);
    // A place that was left and taken again between two pages shows nothing twice, but to be sure of it:
    claims.dedup_by_key(|claim| claim.number);
    let end = filter.offset.saturating_add(filter.limit);
    let shown = claims.iter().skip(filter.offset).take(filter.limit);
    let shown: Vec<_> = shown.map(|claim| claim.show(&app, &base, now)).collect();
    let mut response = Json(shown).into_response();
    if claims.len() > end {
        let link = next_link(&base, query.as_deref().unwrap_or_default(), end);
        if let Ok(link) = HeaderValue::from_bytes(link.as_bytes()) {
            response.headers_mut().insert(header::LINK, link);
        }
    }
    Ok(response)
}

/// The same question, from another offset on.
fn next_link(base: &str, query: &str, offset: usize) -> String {
    let is_kept = |pair: &&str| !pair.is_empty() && !pair.starts_with("offset=");
    let mut pairs: Vec<_> = query.split('&').filter(is_kept).map(str::to_owned).collect();
    pairs.push(format!("offset={offset}"));
    format!("<{base}/v1/claims/?{}>; rel=\"next\"", pairs.join("&"))
}
