//! Requests whose authorization has been checked.

use std::ops::Deref;
use std::sync::Arc;

use leasehold_core::Asker;

use super::Includes;

/// A request that its caller is authorized to make. Only [`super::Caller`] creates one.
#[derive(Clone, Debug)]
pub struct Permitted<A>(A, Option<Arc<Asker>>);

impl<A> Permitted<A> {
    #[inline]
    pub(super) fn new(ask: A) -> Self {
        Self(ask, None)
    }

    /// Wraps a request together with the caller that the journal and the audit file record for it.
    #[inline]
    pub(super) fn of(ask: A, asker: Option<Arc<Asker>>) -> Self {
        Self(ask, asker)
    }

    /// Wraps a request that the process makes for itself, in tests and the simulation. No handler uses this; a tidy
    /// test checks that.
    #[doc(hidden)]
    #[inline]
    pub fn unchecked(ask: A) -> Self {
        Self(ask, None)
    }

    /// Returns the request.
    #[inline]
    pub fn into_inner(self) -> A {
        self.0
    }

    /// Returns the request and its caller.
    #[inline]
    pub fn into_parts(self) -> (A, Option<Arc<Asker>>) {
        (self.0, self.1)
    }
}

impl<A: Includes> Permitted<A> {
    /// Returns the permitted read of the same object.
    pub fn to_read(&self) -> Permitted<A::Read> {
        Permitted::new(self.0.to_read())
    }
}

impl<A> Deref for Permitted<A> {
    type Target = A;

    #[inline]
    fn deref(&self) -> &A {
        &self.0
    }
}
