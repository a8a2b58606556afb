//! Which commands are served when the server is full or beyond a rate limit.

use super::command::Command;

/// How important a command is for holders.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Urgency {
    /// The command renews, releases, checks health or authenticates.
    Vital,
    /// The command does not change a lock, but clients send it before they renew or release.
    Setup,
    /// The command can be refused when the server is busy.
    Ordinary,
}

impl Command<'_> {
    /// Returns whether the command is served even if all connections are in use or a rate limit is exceeded.
    pub(super) fn urgency(&self) -> Urgency {
        match self {
            Command::Run(script, ..) if script.is_vital() => Urgency::Vital,
            Command::Leave(..) | Command::Ping(_) | Command::Auth(_) | Command::Quit => {
                Urgency::Vital
            }
            Command::Hello(..)
            | Command::Select(_)
            | Command::Client(_)
            | Command::Info
            | Command::Load(_)
            | Command::Known(_) => Urgency::Setup,
            Command::Run(..)
            | Command::Set(..)
            | Command::SetNew(..)
            | Command::Get(_)
            | Command::Remaining(..)
            | Command::Exists(_)
            | Command::Delete(_)
            | Command::Expire(..) => Urgency::Ordinary,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_renews_releases_or_checks_health_is_vital() {
        let of = |line: &str| {
            let words: Vec<_> = line.split(' ').collect();
            let command = Command::parse(&words);
            command.unwrap_or_else(|why| panic!("{line}: {why:?}")).urgency()
        };
        let (delete, extend, lock) = (
            "EVALSHA c3f8721cbb97f72bc19e972846bd7aaf91901658",
            "EVALSHA a4e8783852e6b949f9ef3a97212805108459a890",
            "EVALSHA e5a322e2634ef59a516e8ea150cb085afafee684",
        );
        let (delete, extend) = (format!("{delete} 1 k v"), format!("{extend} 1 k v 5 0"));
        for line in [&*delete, &*extend, "ZREM k v", "PING"] {
            assert_eq!(of(line), Urgency::Vital, "{line}");
        }
        for line in ["HELLO 3", "SELECT 1", "CLIENT ID", "INFO", "SCRIPT EXISTS x"] {
            assert_eq!(of(line), Urgency::Setup, "{line}");
        }
        let take = format!("{lock} 2 a b v 5");
        for line in [&*take, "SET k v NX", "GET k", "TTL k", "EXISTS k", "DEL k", "PEXPIRE k 5"] {
            assert_eq!(of(line), Urgency::Ordinary, "{line}");
        }
    }
}
