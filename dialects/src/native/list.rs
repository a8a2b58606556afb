//! Lists the locks of a namespace, in pages.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use leasehold_api::{LockList, LockState};
use leasehold_auth::{Caller, View};
use leasehold_core::{LockKey, LockView};
use leasehold_engine::{Filter, ListLocks, LockPage, Standing};
use schemars::JsonSchema;
use serde::Deserialize;

use super::error::Refusal;
use super::extract::{Namespace, Params};
use super::wire;
use crate::app::App;
use crate::http::pieces::{BrokenOff, PIECE_BYTES, Pieces};
use crate::{cursor, grip};
use leasehold_auth::shares::Client;

const LIMIT_DEFAULT: usize = 100;
const LIMIT_MAX: usize = 1000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListParams {
    /// Only locks whose name begins with this.
    #[serde(default)]
    prefix: String,
    /// Only locks that this owner holds or waits for.
    owner: Option<String>,
    /// Only locks in this state.
    state: Option<StateParam>,
    /// Maximum number of locks.
    #[schemars(range(min = 1, max = LIMIT_MAX))]
    limit: Option<usize>,
    /// The `next_cursor` of the previous page.
    #[schemars(regex(pattern = "^([0-9a-f]{2})+$"))]
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
    Namespace(namespace): Namespace,
    caller: Caller,
    client: Client,
    Params(params): Params<ListParams>,
) -> Result<Response, Refusal> {
    let limit = params.limit.unwrap_or(LIMIT_DEFAULT);
    if !(1..=LIMIT_MAX).contains(&limit) {
        let why = format!("limit: must be from 1 to {LIMIT_MAX}, got {limit}");
        return Err(Refusal::invalid(why));
    }
    let filter = Filter {
        namespace: (*namespace).into(),
        prefix: params.prefix.into(),
        owner: params.owner.map(Into::into),
        standing: params.state.map(|state| match state {
            StateParam::Held => Standing::Held,
            StateParam::Waiting => Standing::Waiting,
            StateParam::Free => Standing::Free,
        }),
        n_max: limit,
        after: parse_cursor(params.cursor.as_deref())?,
        view: View::default(),
        leave_out: grip::leave_out(&app, &namespace),
    };
    let (last, n_shown, is_over) = (None, 0, false);
    let mut list = LockListing { app, caller, limit, filter, last, n_shown, is_over };
    let (mut locks, mut n_bytes) = (Vec::new(), 0);
    while n_bytes < PIECE_BYTES && !list.is_over {
        let page = list.next().await?;
        n_bytes += page.n_bytes;
        locks.extend(page.locks.iter().map(|(key, view)| list.shown(key, view)));
    }
    if list.is_over {
        let next_cursor = list.cursor();
        return Ok(Json(LockList { locks, next_cursor }).into_response());
    }
    let sending = list.app.answers.long(&client)?;
    Ok(Pieces::answer(sending, r#"{"locks":["#, |pieces| list.send(locks, pieces)))
}

struct LockListing {
    app: App,
    caller: Caller,
    limit: usize,
    filter: Filter,
    /// The name of the last lock in the response so far.
    last: Option<Box<str>>,
    n_shown: usize,
    is_over: bool,
}

impl LockListing {
    /// Reads the next locks of the list from the engine.
    async fn next(&mut self) -> Result<LockPage, Refusal> {
        self.filter.n_max = self.limit - self.n_shown;
        // One engine turn scans a bounded number of locks, so a page can take several turns.
        let ask = self.caller.permit(ListLocks(self.filter.clone()))?;
        let page = self.app.engine.list(ask).await?;
        self.n_shown += page.locks.len();
        self.is_over = page.next.is_none() || self.n_shown == self.limit;
        self.filter.after.clone_from(&page.next);
        if let Some((key, _)) = page.locks.last() {
            self.last = Some(key.name.clone());
        }
        Ok(page)
    }

    fn shown(&self, key: &LockKey, view: &LockView) -> LockState {
        wire::lock_state(&self.app, key, view, self.app.engine.now())
    }

    /// Returns the cursor of the next page, if there is one. It contains the last lock in the response, not the
    /// engine's own position, which can be a lock that the caller is not allowed to see.
    fn cursor(&self) -> Option<String> {
        self.filter.after.as_ref().and(self.last.as_deref()).map(cursor::of)
    }

    /// Sends the list: first the locks that were already read, then the rest.
    async fn send(mut self, first: Vec<LockState>, mut pieces: Pieces) -> Result<(), BrokenOff> {
        for lock in first {
            pieces.item(&lock).await?;
        }
        while !self.is_over {
            let page = self.next().await.map_err(|_| BrokenOff)?;
            for (key, view) in &page.locks {
                pieces.item(&self.shown(key, view)).await?;
            }
        }
        let cursor = self.cursor().map_or("null".into(), |cursor| format!("\"{cursor}\""));
        pieces.end(&format!(r#"],"next_cursor":{cursor}}}"#)).await
    }
}

fn parse_cursor(cursor: Option<&str>) -> Result<Option<Box<str>>, Refusal> {
    let why = || Refusal::invalid("cursor: not a cursor of this server");
    cursor.map(|cursor| cursor::parse(cursor).ok_or_else(why)).transpose()
}
