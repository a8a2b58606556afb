//! Names that clients choose: locks and owners.

use std::fmt;
use std::sync::Arc;

/// The identity of a lock: the same key is the same lock in every dialect and for every client.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockKey {
    /// The tenant. Locks of different namespaces are independent.
    pub namespace: Arc<str>,
    /// The lock's name within it.
    pub name: Box<str>,
}

impl LockKey {
    /// Creates the key of the lock `name` in `namespace`. Lengths are checked when a command uses it.
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Box<str>>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Debug for LockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Escaped, because logs show it and names can contain terminal control characters.
        write!(f, "{}/{}", self.namespace.escape_debug(), self.name.escape_debug())
    }
}

/// The owner of a lease, which holds a lock or waits for it. The principal comes from a credential, the instance from
/// the client: two laptops of one person are two owners.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    /// The authenticated identity.
    pub principal: Arc<str>,
    /// The client program or machine of that principal.
    pub instance: Arc<str>,
}

impl Owner {
    /// Creates the owner `instance` of `principal`.
    pub fn new(principal: impl Into<Arc<str>>, instance: impl Into<Arc<str>>) -> Self {
        Self { principal: principal.into(), instance: instance.into() }
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.principal.escape_debug(), self.instance.escape_debug())
    }
}

/// The network origin of a client that is not authenticated, as an opaque number. All clients with the same origin
/// count together, whatever principal they name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Peer(pub u64);

/// The protocol through which a lease was acquired, as an opaque number. A lease can be renewed and released only
/// through the dialect that granted it. To all other dialects, another owner holds it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Dialect(pub u8);
