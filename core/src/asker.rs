//! Who asked for a command: written beside what it did, for those who ask later.

use std::sync::Arc;

/// Who asked, and by what right. An empty text: nothing is known of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Asker {
    /// The principal the credential stands for.
    pub principal: Arc<str>,
    /// The id of the credential, never the credential itself.
    pub credential: Arc<str>,
    /// The rule that allowed it.
    pub rule: Arc<str>,
    /// The address it came from.
    pub peer: Arc<str>,
    /// The request it came with, for the log: only the server that was asked knows it, and no journal keeps it.
    pub call: Option<Arc<Call>>,
}

/// A request, as a log tells of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Call {
    /// The principal that made it.
    pub principal: Arc<str>,
    /// The address it came from.
    pub peer: Arc<str>,
    /// The pattern of its path, or the name of a protocol without paths.
    pub route: Arc<str>,
    /// What it is called in the log; `None`: the protocol has no single requests.
    pub request_id: Option<Arc<str>>,
    /// The trace it belongs to, if to any.
    pub trace_id: Option<Arc<str>>,
}

impl Asker {
    /// Did anybody have to say who they are? Otherwise there is nothing worth keeping.
    pub fn is_known(&self) -> bool {
        !self.principal.is_empty()
    }
}
