//! The caller of a command. The journal records it next to the command's changes, for later audits.

use std::sync::Arc;

/// The authenticated caller of a command, and the rule that permitted it. Empty texts mean that the caller is unknown.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Asker {
    /// The principal the credential belongs to.
    pub principal: Arc<str>,
    /// The id of the credential, never the credential itself.
    pub credential: Arc<str>,
    /// The rule that permitted the command.
    pub rule: Arc<str>,
    /// The address the request came from.
    pub peer: Arc<str>,
    /// The request the command came with, for the log. Only the server that received the request has it, because the
    /// journal does not store it.
    pub call: Option<Arc<Call>>,
}

/// A request, as the log describes it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Call {
    /// The principal that sent the request.
    pub principal: Arc<str>,
    /// The address the request came from.
    pub peer: Arc<str>,
    /// The route pattern of the request, or the name of a protocol without paths.
    pub route: Arc<str>,
    /// The request's id in the log. `None` for protocols without separate requests.
    pub request_id: Option<Arc<str>>,
    /// The trace the request belongs to, if any.
    pub trace_id: Option<Arc<str>>,
}

impl Asker {
    /// Returns whether the caller was authenticated. An unknown caller is not worth recording.
    pub fn is_known(&self) -> bool {
        !self.principal.is_empty()
    }
}
