//! What somebody may ask.

use std::ops::Deref;

use crate::dialect::files::{ToRead, ToWrite};

/// Something its caller may ask for. Only [`super::Caller`] makes one.
#[derive(Clone, Debug)]
pub struct Permitted<A>(A);

impl<A> Permitted<A> {
    pub(super) fn new(ask: A) -> Self {
        Self(ask)
    }

    /// What nobody asked for but the process itself: tests, the simulation. No handler uses this; a tidy test looks.
    #[doc(hidden)]
    pub fn unchecked(ask: A) -> Self {
        Self(ask)
    }

    /// What is asked.
    pub(crate) fn into_inner(self) -> A {
        self.0
    }
}

impl Permitted<ToWrite> {
    /// Whoever may change a file may see it.
    pub(crate) fn to_read(&self) -> Permitted<ToRead> {
        Permitted(self.0.to_read())
    }
}

impl<A> Deref for Permitted<A> {
    type Target = A;

    fn deref(&self) -> &A {
        &self.0
    }
}
