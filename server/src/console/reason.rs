//! The reason for revoking a lock or ending a session. It is required, and it is recorded in history and audit.

use maud::{Markup, html};

use super::visit::Trouble;
use crate::host::Host;
use crate::http::page::Text;

/// Renders the input field for the reason. `typed` is the text that the user has entered before.
pub(super) fn field(app: &Host, typed: &str) -> Markup {
    let n_max = app.limits.reason_bytes_max;
    html! {
        label.field {
            "Reason, for history and audit (required)"
            input name="reason" required maxlength=(n_max) autocomplete="off" value=[filled(typed).map(Text)];
        }
    }
}

/// Returns the entered text, or `None` if it is empty.
pub(super) fn filled(typed: &str) -> Option<&str> {
    Some(typed).filter(|typed| !typed.is_empty())
}

/// Checks that the reason is neither empty nor too long.
pub(super) fn check<'a>(app: &Host, typed: &'a str) -> Result<&'a str, Trouble> {
    let reason = typed.trim();
    if reason.is_empty() {
        return Err(Trouble::Wrong("reason: must not be empty; nothing was revoked".into()));
    }
    app.limits.check_reason(reason)?;
    Ok(reason)
}
