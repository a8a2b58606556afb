//! Who asks, if it takes more than one command to hold a lock.
//!
//! `acquire`, `renew` and `release` are three processes and must be one owner. So unless it is named, the owner is
//! the user on this host in this terminal session: every command of one script or one terminal is the same owner,
//! another terminal is another. A lease is still only its holder's: renewing takes its id and token as well.

use clap::Args;
use nix::unistd::getsid;
use rustix::process::getuid;

/// Who holds.
#[derive(Args, Clone, Debug)]
pub(crate) struct OwnerArgs {
    /// Who asks; USER@HOST:SESSION if left out, the same for every command of one terminal or script.
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
    // 0 in a container that was entered from outside: whoever leads the session has no number there.
    let session = getsid(None).map_or(0, |session| session.as_raw());
    // The server takes owners of up to 256 bytes.
    let [user, host] = [user.as_str(), &host].map(|text| text.chars().take(30).collect::<String>());
    format!("{user}@{host}:{session}")
}
