//! The owner id of commands that hold a lock together.
//!
//! `acquire`, `renew` and `release` are three processes that must act as one owner. Unless it is given, the owner id
//! names the user, the host and the terminal session. So all commands of one script or terminal have the same owner,
//! and another terminal has another one. The owner id alone gives no access to a lease: renewing it also needs its id
//! and token.

use clap::Args;
use nix::unistd::getsid;
use rustix::process::getuid;

/// The flag for the owner id.
#[derive(Args, Clone, Debug)]
pub(crate) struct OwnerArgs {
    /// Owner id [default: USER@HOST:SESSION, the same for every command of one terminal or script]
    #[arg(long, env = "LEASEHOLD_OWNER")]
    owner: Option<String>,
}

impl OwnerArgs {
    pub(crate) fn name(&self) -> String {
        self.owner.clone().unwrap_or_else(of_this_session)
    }
}

fn of_this_session() -> String {
    let user = ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok());
    let user = user.filter(|user| !user.is_empty());
    let user = user.unwrap_or_else(|| getuid().as_raw().to_string());
    let system = rustix::system::uname();
    let host = system.nodename().to_string_lossy();
    // The session is 0 in a container that was entered from outside: the session leader has no number there.
    let session = getsid(None).map_or(0, |session| session.as_raw());
    // The server accepts owner ids of up to 256 bytes.
    let [user, host] = [user.as_str(), &host].map(|text| text.chars().take(30).collect::<String>());
    format!("{user}@{host}:{session}")
}
