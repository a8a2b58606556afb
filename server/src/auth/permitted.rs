//! What somebody may ask.

use std::ops::Deref;
use std::sync::Arc;

use leasehold_core::Asker;

use crate::content::{ToRead, ToWrite};
use crate::store::history::Asked;

/// Something its caller may ask for. Only [`super::Caller`] makes one.
#[derive(Clone, Debug)]
pub struct Permitted<A>(A, Option<Arc<Asker>>);

impl<A> Permitted<A> {
    pub(super) fn new(ask: A) -> Self {
        Self(ask, None)
    }

    /// The same, and who asks is written down with what it does.
    pub(super) fn of(ask: A, asker: Option<Arc<Asker>>) -> Self {
        Self(ask, asker)
    }

    /// What nobody asked for but the process itself: tests, the simulation. No handler uses this; a tidy test looks.
    #[doc(hidden)]
    pub fn unchecked(ask: A) -> Self {
        Self(ask, None)
    }

    /// What is asked.
    pub(crate) fn into_inner(self) -> A {
        self.0
    }

    /// What is asked, and who asks.
    pub(crate) fn into_parts(self) -> (A, Option<Arc<Asker>>) {
        (self.0, self.1)
    }
}

impl Permitted<ToWrite> {
    /// Whoever may change a file may see it.
    pub(crate) fn to_read(&self) -> Permitted<ToRead> {
        Permitted::new(self.0.to_read())
    }
}

impl Permitted<Asked> {
    /// Less of the same: nothing that is older than this, in epoch milliseconds.
    pub(crate) fn not_before(self, oldest_ms: i64) -> Self {
        Self(self.0.not_before(oldest_ms), self.1)
    }
}

impl<A> Deref for Permitted<A> {
    type Target = A;

    fn deref(&self) -> &A {
        &self.0
    }
}
