//! The few small things that every part of the server needs. Nothing here knows about requests, stores or protocols.

pub mod calendar;
pub mod clock;
pub mod complaint;
pub mod duration;
pub mod exposure;
pub mod host;
#[doc(hidden)]
pub mod pace;
pub mod probe;
pub mod random;
pub mod runtime;
pub mod sync;
pub mod text;
