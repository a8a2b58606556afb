//! The endpoint that lists claims.

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderValue, header};
use axum::response::IntoResponse;
use leasehold_auth::Caller;
use leasehold_core::{LeaseNumber, Timestamp};
use leasehold_engine::{LeasePage, ListLeases, ReadLeases};

use super::claim::Answer;
use super::error::Refusal;
use super::extract::{Base, Pairs};
use super::filter::Filter;
use super::wire::{Claim, ClaimBody};
use crate::Dialect;
use crate::app::App;
use crate::http::pieces::{BrokenOff, Pieces};
use leasehold_auth::shares::Client;

pub(super) async fn list(
    State(app): State<App>,
    Base(base): Base,
    caller: Caller,
    client: Client,
    Pairs(pairs): Pairs,
    RawQuery(query): RawQuery,
) -> Answer {
    let filter = Filter::parse(&pairs)?;
    let now = app.engine.now();
    let numbers = find(&app, &caller, &filter, now).await?;
    let end = filter.offset.saturating_add(filter.limit);
    let has_more = numbers.len() > end;
    let wanted: Vec<_> = numbers.into_iter().skip(filter.offset).take(filter.limit).collect();
    let mut list = ClaimListing { app, caller, base, now, filter, left: wanted };
    let first = list.next().await?;
    let link = has_more
        .then(|| next_link(&list.base, query.as_deref().unwrap_or_default(), end))
        .and_then(|link| HeaderValue::from_bytes(link.as_bytes()).ok());
    let mut response = if list.left.is_empty() {
        Json(list.shown(&first)).into_response()
    } else {
        let sending = list.app.answers.long(&client)?;
        Pieces::answer(sending, "[", |pieces| list.send(first, pieces))
    };
    if let Some(link) = link {
        response.headers_mut().insert(header::LINK, link);
    }
    Ok(response)
}

/// Returns the numbers of all claims that match the filter, in order.
async fn find(
    app: &App,
    caller: &Caller,
    filter: &Filter,
    now: Timestamp,
) -> Result<Vec<LeaseNumber>, Refusal> {
    let mut numbers = Vec::new();
    let mut from = Some(0);
    while let Some(place) = from {
        // Each request to the engine reads a bounded number of leases, so a list can take several.
        let read = ListLeases::new(Dialect::Claims.number(), place);
        let LeasePage { leases, next } = app.engine.ask(caller.permit(read)?).await?;
        let found = leases.into_iter().map(Claim::from);
        let found = found.filter(|claim| filter.admits(app, claim, now));
        numbers.extend(found.map(|claim| claim.number));
        from = next;
    }
    numbers.sort_unstable();
    // Removes duplicates, which are not expected even if a lease ends and another takes its place between two pages.
    numbers.dedup();
    Ok(numbers)
}

struct ClaimListing {
    app: App,
    caller: Caller,
    base: String,
    now: Timestamp,
    filter: Filter,
    /// The claims that have not been sent yet.
    left: Vec<LeaseNumber>,
}

impl ClaimListing {
    /// Reads the next claims. A claim that has changed since the list was made is shown only if it still matches the
    /// filter.
    async fn next(&mut self) -> Result<Vec<Claim>, Refusal> {
        let (numbers, dialect) = (self.left.clone(), Dialect::Claims.number());
        let read = self.caller.permit(ReadLeases::new(numbers, dialect))?;
        let LeasePage { leases, next } = self.app.engine.ask(read).await?;
        self.left.drain(..next.unwrap_or(self.left.len()));
        let claims = leases.into_iter().map(Claim::from);
        Ok(claims.filter(|claim| self.filter.admits(&self.app, claim, self.now)).collect())
    }

    fn shown<'a>(&self, claims: &'a [Claim]) -> Vec<ClaimBody<'a>> {
        claims.iter().map(|claim| claim.show(&self.app, &self.base, self.now)).collect()
    }

    /// Sends the list: the claims read first, then the rest.
    async fn send(mut self, first: Vec<Claim>, mut pieces: Pieces) -> Result<(), BrokenOff> {
        let mut claims = first;
        loop {
            for shown in self.shown(&claims) {
                pieces.item(&shown).await?;
            }
            if self.left.is_empty() {
                return pieces.end("]").await;
            }
            claims = self.next().await.map_err(|_| BrokenOff)?;
        }
    }
}

/// Returns a link to the same list from another offset.
fn next_link(base: &str, query: &str, offset: usize) -> String {
    let is_kept = |pair: &&str| !pair.is_empty() && !pair.starts_with("offset=");
    let mut pairs: Vec<_> = query.split('&').filter(is_kept).map(str::to_owned).collect();
    pairs.push(format!("offset={offset}"));
    format!("<{base}/v1/claims/?{}>; rel=\"next\"", pairs.join("&"))
}
