//! Endpoints for the server itself: backups and the auth file.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use leasehold_api::{AuthState, BackupTaken, Code};
use leasehold_auth::{Caller, ReadAuth};

use super::error::Refusal;
use super::extract::NoParams;
use crate::app::App;
use crate::backup::{Error, TakeBackup};

/// Takes a backup. Its directory is a setting, so that no request can name a path.
pub(super) async fn backup(
    State(app): State<App>,
    _: NoParams,
    caller: Caller,
) -> Result<(StatusCode, Json<BackupTaken>), Refusal> {
    let TakeBackup = caller.permit(TakeBackup)?.into_inner();
    let Some(backups) = app.backups.clone() else {
        let why = "this server takes no backups: start it with --backup-dir";
        return Err(Refusal::new(StatusCode::CONFLICT, Code::BackupsOff, why));
    };
    let taken = tokio::task::spawn_blocking(move || backups.take()).await;
    match taken {
        Ok(Ok(taken)) => {
            let taken = BackupTaken { name: taken.name, bytes: taken.n_bytes };
            app.note(&caller, "backup", |act| act.detail("name", taken.name.as_str()));
            Ok((StatusCode::CREATED, Json(taken)))
        }
        Ok(Err(Error::Running)) => {
            let why = "another backup is in progress; try again";
            Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, Code::Busy, why))
        }
        Ok(Err(Error::Failed(error))) => {
            tracing::error!(%error, "backup failed");
            Err(failed(error.to_string()))
        }
        Err(_) => Err(failed("it broke off".into())),
    }
}

/// Returns which auth file is in force, so that an operator who changed the file can wait until the change takes
/// effect.
pub(super) async fn auth(
    State(app): State<App>,
    _: NoParams,
    caller: Caller,
) -> Result<Json<AuthState>, Refusal> {
    let ReadAuth = caller.permit(ReadAuth)?.into_inner();
    Ok(Json(AuthState { hash: app.auth.hash(), stale_seconds: app.auth.stale_ms() / 1000 }))
}

fn failed(why: String) -> Refusal {
    let why = format!("backup failed: {why}");
    Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, Code::BackupFailed, why)
}
