//! Why something is taken away from somebody: asked for, and shown in history and audit.

use maud::{Markup, html};

use super::visit::Trouble;
use crate::app::App;
use crate::page::Text;

/// The field for it, with what was typed before.
pub(super) fn field(app: &App, typed: &str) -> Markup {
    let n_max = app.limits.reason_bytes_max;
    html! {
        label.field {
            "Reason, for history and audit (required)"
            input name="reason" required maxlength=(n_max) autocomplete="off" value=[filled(typed).map(Text)];
        }
    }
}

/// What was typed, if it is anything.
pub(super) fn filled(typed: &str) -> Option<&str> {
    Some(typed).filter(|typed| !typed.is_empty())
}

/// A reason that says something, and not too much.
pub(super) fn check<'a>(app: &App, typed: &'a str) -> Result<&'a str, Trouble> {
    let reason = typed.trim();
    if reason.is_empty() {
        return Err(Trouble::Wrong("reason: must not be empty; nothing was revoked".into()));
    }
    app.limits.check_reason(reason)?;
    Ok(reason)
}
