//! Who asks.

/// Whoever made a request. Nobody has to say who they are yet, so everybody is `anonymous`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Principal(());

impl Principal {
    /// Somebody who showed no credential.
    pub const fn anonymous() -> Self {
        Self(())
    }

    /// The name that goes into logs.
    pub fn name(&self) -> &str {
        "anonymous"
    }
}
