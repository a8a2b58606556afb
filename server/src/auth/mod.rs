//! Authentication and authorization.
//!
//! The engine and the content store accept only requests wrapped in [`Permitted`], and only this module creates those:
//! a handler that forgets to check its caller's rights does not compile. The layers above
//! declare the right that each of their requests needs: see [`Governed`].

mod by;
mod caller;
mod certificate;
mod credential;
mod denied;
mod gate;
mod identify;
pub(crate) mod issuer;
pub(crate) mod mac;
mod need;
mod network;
mod permitted;
mod policy;
mod principal;
mod proxy;
mod rate;
mod remembered;
mod review;
mod right;
pub(crate) mod sign_in;
mod standing;
pub(crate) mod ticket;
mod trail;
mod view;
mod waits;
mod way;

pub use by::By;
pub use caller::Caller;
pub use certificate::CertificateNames;
pub(crate) use credential::basic_user;
pub use denied::Denied;
pub(crate) use gate::{Authority, ReadAuth};
pub use gate::{Bounds, Gate, RELOAD_EVERY, Reloaded};
pub(crate) use identify::{admit, may_look_up};
pub(crate) use issuer::{IssuerState, KeysState};
pub use need::{Exempt, Governed, GovernedBy, Includes, Own, purpose};
pub use network::parse_network;
pub use permitted::Permitted;
pub(crate) use policy::Mtls;
pub use policy::{Decision, NewKey, PREFIX, Policy, Surroundings};
pub(crate) use policy::{days_from_epoch, hex, is_same, unhex, url};
pub(crate) use principal::ANONYMOUS;
pub use principal::Principal;
pub use remembered::Remembered;
pub use review::WaitReview;
pub use right::Right;
pub(crate) use trail::{Logged, Trail, are_changes_logged};
pub use view::View;
pub(crate) use way::Way;
