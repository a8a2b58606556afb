//! The actor of a request, as audit records name it.

use std::sync::Arc;

use leasehold_core::Asker;
use serde::{Serialize, Serializer};

/// The actor of an audit record, as verified by the server.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct By {
    /// The name of the principal.
    pub principal: Arc<str>,
    /// The id of the credential.
    pub credential: Arc<str>,
    /// The rule that granted the request.
    pub rule: Arc<str>,
    /// The client's address.
    pub peer: Arc<str>,
}

/// Omits empty members.
impl Serialize for By {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let members = [
            ("principal", &*self.principal),
            ("credential", &*self.credential),
            ("rule", &*self.rule),
            ("peer", &*self.peer),
        ];
        serializer.collect_map(members.into_iter().filter(|(_, text)| !text.is_empty()))
    }
}

impl By {
    /// Returns the server itself as the actor.
    pub fn server() -> Self {
        Self { principal: "server".into(), ..Self::default() }
    }
}

impl From<&Asker> for By {
    fn from(asker: &Asker) -> Self {
        let Asker { principal, credential, rule, peer, .. } = asker.clone();
        Self { principal, credential, rule, peer }
    }
}
