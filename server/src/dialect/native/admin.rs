//! What is asked of the server itself.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use leasehold_api::{BackupTaken, Code};

use super::error::Refusal;
use crate::app::App;
use crate::auth::Caller;
use crate::backup::{Error, TakeBackup};

/// Takes a backup. Where it goes is a setting: no request can name a path.
pub(super) async fn backup(
    State(app): State<App>,
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
            Ok((StatusCode::CREATED, Json(taken)))
        }
        Ok(Err(Error::Running)) => {
            let why = "another backup is being taken; ask again";
            Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, Code::Busy, why))
        }
        Ok(Err(Error::Failed(error))) => {
            tracing::error!(%error, "no backup could be taken");
            Err(failed(error.to_string()))
        }
        Err(_) => Err(failed("it broke off".into())),
    }
}

fn failed(why: String) -> Refusal {
    let why = format!("no backup was taken: {why}");
    Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, Code::BackupFailed, why)
}
