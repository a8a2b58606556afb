//! Checks whether a fencing token is stale. The check is advisory: only the protected resource can check without a
//! race.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use leasehold_api::{FenceCheck, FenceVerdict};
use leasehold_auth::Caller;
use leasehold_core::{LockKey, Token};
use leasehold_engine::{CheckToken, TokenState};

use super::error::Refusal;
use super::extract::Body;
use crate::app::App;

pub(super) async fn check(
    State(app): State<App>,
    caller: Caller,
    Body(request): Body<FenceCheck>,
) -> Result<Response, Refusal> {
    let namespace =
        request.namespace.map_or_else(|| app.dialect.native.namespace.clone(), Into::into);
    let key = LockKey { namespace, name: request.lock_name.into() };
    app.limits.check_key(&key)?;
    // No lease has a token that is zero or too large.
    let token = Token::new(request.fencing_token).unwrap_or(Token::ZERO);
    let check = caller.permit(CheckToken { key, token })?;
    let TokenState { is_held, last_token } = app.engine.ask(check).await??;
    // No later grant can conflict with an active lease, so its token is not stale.
    Ok(Json(FenceVerdict { accepted: is_held, last_token: last_token.get() }).into_response())
}
