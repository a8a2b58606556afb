//! Names people choose: locks and owners.

use std::fmt;
use std::sync::Arc;

/// Which lock: the same key is the same lock, whoever asks and however.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockKey {
    /// The tenant. Locks of different namespaces never meet.
    pub namespace: Arc<str>,
    /// The lock's name within it.
    pub name: Box<str>,
}

impl LockKey {
    /// The lock `name` in `namespace`. Lengths are checked when a command uses it.
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Box<str>>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Debug for LockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Logs show it, and names may have anything in them that a terminal would obey.
        write!(f, "{}/{}", self.namespace.escape_debug(), self.name.escape_debug())
    }
}

/// Who holds or waits. The principal comes from a credential, the instance from the client: two laptops of
/// one person are two owners.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    /// Who it is for sure.
    pub principal: Arc<str>,
    /// Which of their programs or machines.
    pub instance: Arc<str>,
}

impl Owner {
    /// The owner `instance` of `principal`.
    pub fn new(principal: impl Into<Arc<str>>, instance: impl Into<Arc<str>>) -> Self {
        Self { principal: principal.into(), instance: instance.into() }
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.principal.escape_debug(), self.instance.escape_debug())
    }
}

/// Where somebody nobody vouches for speaks from. The core knows it only as a number: what they have is counted
/// together, whatever names they go by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Peer(pub u64);

/// Which protocol a lease came through. The core knows dialects only as different numbers: a lease is
/// renewed and released through the one that granted it, and to all others it is held by somebody else.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Dialect(pub u8);
