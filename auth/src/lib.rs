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
mod exempt;
mod gate;
mod identify;
pub mod issuer;
pub mod mac;
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
pub mod shares;
pub mod sign_in;
mod standing;
pub mod ticket;
mod trail;
mod view;
mod waits;
mod way;

pub use by::By;
pub use caller::Caller;
pub use certificate::CertificateNames;
pub use credential::basic_user;
pub use denied::Denied;
pub use gate::{Authority, ReadAuth};
pub use gate::{Bounds, Gate, RELOAD_EVERY, Reloaded};
pub use identify::{admit, may_look_up};
pub use issuer::{IssuerState, KeysState};
pub use need::{Exempt, Governed, GovernedBy, Includes, Own, purpose};
pub use network::parse_network;
pub use permitted::Permitted;
pub use policy::Mtls;
pub use policy::{Decision, NewKey, PREFIX, Policy, Surroundings};
pub use policy::{hex, is_same, unhex, url};
pub use principal::ANONYMOUS;
pub use principal::Principal;
pub use remembered::Remembered;
pub use review::WaitReview;
pub use right::Right;
pub use trail::{Logged, Trail, are_changes_logged};
pub use view::{Part, View};
pub use way::Way;
