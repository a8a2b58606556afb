//! Who asks, and what they may.
//!
//! The engine and the files take nothing but what is [`Permitted`], and only this module makes it so: a handler that
//! forgets to ask what its caller may does not compile. What each question needs stands in one place, [`need`].

mod caller;
mod credential;
mod enforce;
mod gate;
mod need;
mod permitted;
mod policy;
mod principal;
mod rate;
pub(crate) mod reload;
mod right;
mod view;

pub(crate) use caller::{Caller, Denied};
pub(crate) use gate::ReadAuth;
pub use gate::{FAILURES_PER_MINUTE, Gate, RELOAD_EVERY, Reloaded};
pub use permitted::Permitted;
pub use policy::{Decision, NewKey, PREFIX, Policy};
pub(crate) use principal::ANONYMOUS;
pub use principal::Principal;
pub use right::Right;
pub use view::View;
