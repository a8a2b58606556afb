//! Many locks.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use leasehold_api::LockList;
use schemars::JsonSchema;
use serde::Deserialize;

use super::error::Refusal;
use super::extract::{Namespace, Params, Received};
use super::wire;
use crate::app::App;
use crate::engine::{Filter, ListLocks, LockPage, Standing};

const LIMIT_DEFAULT: usize = 100;
const LIMIT_MAX: usize = 1000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListParams {
    /// Only locks whose name begins with this.
    #[serde(default)]
    prefix: String,
    /// Only locks this owner has or waits for.
    owner: Option<String>,
    /// Only locks that stand like this.
    state: Option<StateParam>,
    /// At most this many.
    #[schemars(range(min = 1, max = LIMIT_MAX))]
    limit: Option<usize>,
    /// Where to go on: the `next_cursor` of the page before.
    #[schemars(regex(pattern = "^[0-9]{1,19}$"))]
    cursor: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum StateParam {
    Held,
    Waiting,
    Free,
}

pub(super) async fn list(
    State(app): State<App>,
    Received(now): Received,
    Namespace(namespace): Namespace,
    Params(params): Params<ListParams>,
) -> Result<Response, Refusal> {
    let limit = params.limit.unwrap_or(LIMIT_DEFAULT);
    if !(1..=LIMIT_MAX).contains(&limit) {
        return Err(Refusal::invalid(format!("limit: must be from 1 to {LIMIT_MAX}")));
    }
    let mut filter = Filter {
        namespace: (*namespace).into(),
        prefix: params.prefix.into(),
        owner: params.owner.map(Into::into),
        standing: params.state.map(|state| match state {
            StateParam::Held => Standing::Held,
            StateParam::Waiting => Standing::Waiting,
            StateParam::Free => Standing::Free,
        }),
        n_max: limit,
        from: parse_cursor(params.cursor.as_deref())?,
    };
    let mut locks = Vec::new();
    let next = loop {
        filter.n_max = limit - locks.len();
        // One turn of the engine looks at a bounded number of locks, so a page can take several.
        let LockPage { locks: found, next } = app.engine.ask(ListLocks(filter.clone())).await?;
        let shown = found.iter().map(|(key, view)| wire::lock_state(&app, key, view, now));
        locks.extend(shown);
        match next {
            Some(next) if locks.len() < limit => filter.from = next,
            next => break next,
        }
    };
    let next_cursor = next.map(|next| next.to_string());
    Ok(Json(LockList { locks, next_cursor }).into_response())
}

fn parse_cursor(cursor: Option<&str>) -> Result<usize, Refusal> {
    let Some(cursor) = cursor else { return Ok(0) };
    let parsed = cursor.parse().ok().filter(|_| cursor.bytes().all(|b| b.is_ascii_digit()));
    parsed.ok_or_else(|| Refusal::invalid("cursor: is not one this server gave"))
}
