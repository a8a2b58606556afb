//! Who asks, and what they may.
//!
//! The engine and the files take nothing but what is [`Permitted`], and only this module makes it so: a handler that
//! forgets to ask what its caller may does not compile. What each question needs stands in one place, [`need`].

mod caller;
mod need;
mod permitted;
mod principal;
mod right;

pub(crate) use caller::{Caller, Denied};
pub use permitted::Permitted;
pub use principal::Principal;
pub use right::Right;
