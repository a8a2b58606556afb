//! Clients that know no other way to say who they are than a name and a password.

use crate::auth::Denied;

/// Why somebody may not, and what to do about it.
pub(super) fn in_words(denied: &Denied) -> String {
    match denied {
        Denied::Unauthenticated(why) => {
            format!("{why}. Send any name, and an API key as the password")
        }
        other => other.to_string(),
    }
}
