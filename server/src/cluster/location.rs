//! The address of a shared store.

use std::fmt;
use std::str::FromStr;

use leasehold_base::host::is_host;

/// The address of a shared store: `etcd://HOST:PORT,HOST:PORT/PREFIX`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Location {
    /// The members of the etcd cluster.
    pub members: Vec<String>,
    /// The prefix of all keys of the store.
    pub prefix: String,
}

const PREFIX: &str = "leasehold/default";
pub(super) const SCHEME: &str = "etcd://";

impl FromStr for Location {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("must be etcd://HOST:PORT,HOST:PORT/PREFIX, {why}");
        // The text can contain a password, which must not be logged.
        let without_user = || wrong("without a user; use --etcd-user and --etcd-password-file");
        let got = |what: &str, more: &str| match text.contains('@') {
            true => without_user(),
            false => wrong(&format!("got {what:?}{more}")),
        };
        let rest = text.strip_prefix(SCHEME).ok_or_else(|| got(text, ""))?;
        let (members, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if members.contains('@') {
            return Err(without_user());
        }
        let members: Vec<_> = members.split(',').map(str::to_owned).collect();
        if let Some(member) = members.iter().find(|member| !is_member(member)) {
            let v6 =
                if member.matches(':').count() > 1 { " (an IPv6 address in brackets)" } else { "" };
            return Err(got(member, &format!(" where HOST:PORT belongs{v6}")));
        }
        let is_twice = |n: &usize| members[..*n].contains(&members[*n]);
        if let Some(n) = (0..members.len()).find(is_twice) {
            return Err(got(&members[n], " twice"));
        }
        let prefix = prefix.trim_matches('/');
        if prefix.contains(|c: char| c.is_control() || c.is_whitespace() || "?#".contains(c)) {
            return Err(wrong("without spaces, ? and # in the prefix"));
        }
        let prefix = if prefix.is_empty() { PREFIX } else { prefix };
        Ok(Self { members, prefix: prefix.into() })
    }
}

/// Returns whether the text is `HOST:PORT`.
fn is_member(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let is_one = !host.contains(':') || host.starts_with('[');
    is_one && is_host(host.as_bytes()) && port.parse::<u16>().is_ok_and(|port| port > 0)
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.members.join(","), self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_has_members_and_a_prefix() {
        for (text, members, prefix) in [
            ("etcd://a:2379", vec!["a:2379"], PREFIX),
            ("etcd://a:2379/", vec!["a:2379"], PREFIX),
            ("etcd://a:1,b:2/x/y/", vec!["a:1", "b:2"], "x/y"),
            ("etcd://[::1]:2379/x", vec!["[::1]:2379"], "x"),
        ] {
            let location: Location = text.parse().expect(text);
            let members: Vec<_> = members.into_iter().map(str::to_owned).collect();
            assert_eq!(location, Location { members, prefix: prefix.into() }, "{text}");
            assert_eq!(location.to_string().parse(), Ok(location));
        }
        for text in [
            "",
            "http://a:1",
            "etcd://",
            "etcd://a",
            "etcd://a:0",
            "etcd://a:1,,b:2",
            "etcd://:1",
            "etcd://a:1/x y",
            "etcd://a:1/x?y=1",
            "etcd://a:1,b:1,a:1",
            "etcd://::1:2379",
            "etcd://a:1:2",
            "etcd://u:secret@a:1",
            "etcd:/u:secret@a:1",
            "http://u:secret@a:1",
            "u:secret@a:1",
            "etcd://u:secret/x@a:1",
        ] {
            let why = text.parse::<Location>().expect_err(text);
            assert!(why.starts_with("must be etcd://HOST:PORT"), "{why}");
            assert!(!why.contains("secret"), "{why}");
        }
    }
}
