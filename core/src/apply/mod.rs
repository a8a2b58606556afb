//! The commands, one to a file: each reads the state, decides, and records what follows.

pub(crate) mod acquire;
pub(crate) mod acquire_all;
pub(crate) mod cancel;
pub(crate) mod confirm;
pub(crate) mod leave;
pub(crate) mod look;
pub(crate) mod maintain;
pub(crate) mod proof;
pub(crate) mod release;
pub(crate) mod renew;
pub(crate) mod replay;
pub(crate) mod restore;
pub(crate) mod revoke;
pub(crate) mod room;
pub(crate) mod session;
pub(crate) mod settle;
mod share;
pub(crate) mod sweep;
