//! Errors for clients that can authenticate only with a name and a password (HTTP Basic).

use leasehold_auth::Denied;

/// Returns why access is denied, and how to authenticate.
pub(super) fn in_words(denied: &Denied) -> String {
    match denied {
        Denied::Unauthenticated(why) => {
            format!("{why}. Send any name, and an API key as the password")
        }
        other => other.to_string(),
    }
}
