//! Operations on a file's lock alone: `?lock=acquire`, `release`, `refresh` or `status`.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::Files;
use super::error::Refusal;
use super::hold::{self, holder};
use super::session::Session;
use super::wire::{self, Acquired, Done, LockShown, Status};
use crate::Dialect;
use crate::content::{FilePath, ToRead};
use crate::http::request;

type Answer = Result<Response, Refusal>;

/// An operation on a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Operation {
    Acquire,
    Release,
    Refresh,
    Status,
}

impl Operation {
    pub(super) fn parse(text: &str) -> Result<Self, Refusal> {
        match text {
            "acquire" => Ok(Self::Acquire),
            "release" => Ok(Self::Release),
            "refresh" => Ok(Self::Refresh),
            "status" => Ok(Self::Status),
            _ => Err(Refusal::invalid("lock: must be acquire, release, refresh or status")),
        }
    }
}

pub(super) async fn operate(
    files: &Files,
    session: &Session,
    path: &FilePath,
    operation: Operation,
) -> Answer {
    // The session is checked first: only clients with a valid session learn which paths cannot be locked.
    session.look(files).await?;
    // A caller without the right to read can still release or refresh its own lock.
    let looked = session.caller.permit(ToRead::new(&files.app, path.clone()));
    if operation == Operation::Status || operation == Operation::Acquire {
        looked.as_ref().map_err(Clone::clone)?;
    }
    if let Ok(path) = looked
        && files.is_folder(&path).await?
    {
        return Err(Refusal::invalid("locks apply to individual files, not to folders"));
    }
    match operation {
        Operation::Acquire => acquire(files, session, path).await,
        Operation::Release => release(files, session, path).await,
        Operation::Refresh => refresh(files, session, path).await,
        Operation::Status => status(files, session, path).await,
    }
}

async fn acquire(files: &Files, session: &Session, path: &FilePath) -> Answer {
    let undelivered = hold::acquire(files, session, path).await?;
    let body =
        Acquired { message: "Lock acquired", path: path.as_str(), session_id: &session.short() };
    let response = wire::answer(StatusCode::OK, body);
    Ok(request::Answer::new(response, undelivered).into_response())
}

async fn release(files: &Files, session: &Session, path: &FilePath) -> Answer {
    match hold::own(files, session, path).await? {
        Some(grip) => {
            grip.release(&files.app, &session.caller).await?;
            Ok(done("Lock released", path))
        }
        None => Err(not_ours(files, session, path).await),
    }
}

async fn refresh(files: &Files, session: &Session, path: &FilePath) -> Answer {
    match hold::renewed(files, session, path).await? {
        Some(_) => Ok(done("Lock refreshed", path)),
        None => Err(not_ours(files, session, path).await),
    }
}

async fn status(files: &Files, session: &Session, path: &FilePath) -> Answer {
    let view = hold::look(files, &session.caller, path.lock(&files.app)).await?;
    let lease = view.holders.first();
    let owned_by_this_session = lease.is_some_and(|lease| {
        lease.owner == session.owner() && lease.dialect == Dialect::Files.number()
    });
    let lock = lease.map(|lease| LockShown::new(&files.app, path.as_str(), lease));
    let body = Status { locked: lock.is_some(), lock, owned_by_this_session };
    Ok(wire::answer(StatusCode::OK, body))
}

fn done(message: &'static str, path: &FilePath) -> Response {
    wire::answer(StatusCode::OK, Done { message, path: path.as_str() })
}

/// Returns the error for a lock that this session does not hold: another holder has it, or it is free.
async fn not_ours(files: &Files, session: &Session, path: &FilePath) -> Refusal {
    match hold::look(files, &session.caller, path.lock(&files.app)).await {
        Ok(view) => match holder(&files.app, &view) {
            Some(locked) => Refusal::Locked(Box::new(locked)),
            None => Refusal::no_lock(),
        },
        Err(refusal) => refusal,
    }
}
