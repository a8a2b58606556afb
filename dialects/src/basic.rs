//! Errors for clients that can authenticate only with a name and a password (HTTP Basic).

use leasehold_api::Code;

use super::failure::RequestFailure;

/// Adds to a failure how to authenticate, if the client did not.
pub(super) fn explained(mut failure: RequestFailure) -> RequestFailure {
    if failure.code == Code::Unauthenticated {
        failure.text += ". Send any name, and an API key as the password";
    }
    failure
}
