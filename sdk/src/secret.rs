//! Values that must not appear in logs.

use std::fmt;

/// A text that `Debug` does not print, such as an API key or a session id.
#[derive(Clone)]
pub(crate) struct Secret(pub(crate) String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}
