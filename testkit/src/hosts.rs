//! Simulated hosts on this machine: network namespaces connected by a switch, whose links can be cut.

use std::fs::OpenOptions;
use std::io::Write;
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};

/// Creates the switch and the hosts, and runs a command next to them. Everything is removed when the command ends.
const NETWORK: &str = r#"
set -e
ip link set lo up
ip link add switch type bridge
ip address add 10.88.0.254/24 dev switch
ip link set switch up
hosts=()
for n in $(seq "$1"); do
  unshare --net sleep infinity &
  host=$!
  hosts+=("$host")
  until [ "$(readlink /proc/$host/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.01; done
  ip link add "host$n" type veth peer name eth0 netns "$host"
  ip link set "host$n" master switch up
  for words in "link set lo up" "address add 10.88.0.$n/24 dev eth0" "link set eth0 up"; do
    nsenter --net --target "$host" ip $words
  done
done
shift
HOSTS="${hosts[*]}" "$@"
"#;
/// A link-layer address that no host has.
const UNUSED_MAC: &str = "02:00:00:00:00:99";

/// Set inside the network: the file in which a test that runs there leaves a line.
const RAN: &str = "HOSTS_RAN";

/// Runs the rest of this test with `n` hosts: runs the test of this name again in a network with these hosts. The name
/// is `concat!(module_path!(), "::", NAME_OF_THE_TEST)`.
///
/// # Panics
///
/// If the test fails there, and if any number of tests but one ran there.
pub fn among_hosts(n: usize, test: &str, inside: impl FnOnce(Vec<Host>)) {
    let hosts = Host::all();
    if !hosts.is_empty() {
        let ran = std::env::var_os(RAN).expect("the file");
        let ran = OpenOptions::new().append(true).create(true).open(ran);
        writeln!(ran.expect("the file"), "{test}").expect("a line");
        return inside(hosts);
    }
    // A module path begins with the crate, the name of a test does not.
    let (_, name) = test.split_once("::").expect("a module path");
    let folder = tempfile::tempdir().expect("a folder");
    let ran = folder.path().join("ran");
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    command.args(["bash", "-c", NETWORK, "network", &n.to_string()]);
    let program = std::env::current_exe().expect("the program of this test");
    command.arg(program).args(["--exact", name, "--nocapture"]).stdin(Stdio::null());
    assert!(command.env(RAN, &ran).status().expect("unshare").success(), "{test}");
    let ran = std::fs::read_to_string(&ran).unwrap_or_default();
    assert_eq!(ran.lines().collect::<Vec<_>>(), [test], "exactly this test runs");
}

/// A simulated host.
#[derive(Clone, Debug)]
pub struct Host {
    /// The id of an idle process in the host's namespace.
    process: String,
    /// The address of the host.
    pub address: Ipv4Addr,
}

impl Host {
    /// Returns all hosts. Empty outside [`among_hosts`].
    fn all() -> Vec<Self> {
        let hosts = std::env::var("HOSTS").unwrap_or_default();
        let host = |(n, process): (u8, &str)| Self {
            process: process.into(),
            address: Ipv4Addr::new(10, 88, 0, n),
        };
        (1..).zip(hosts.split_whitespace()).map(host).collect()
    }

    /// Returns a command that runs on the host.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--net", "--target", &self.process, program]);
        command
    }

    /// Returns the shell words that make a program run on the host.
    pub fn words(&self) -> String {
        format!("exec nsenter --net --target {}", self.process)
    }

    /// Drops everything the host sends to `other` from now on, without an error. The other direction is not affected.
    pub fn loses(&self, other: &Self) {
        self.neighbour(&[
            "replace",
            &other.address.to_string(),
            "lladdr",
            UNUSED_MAC,
            "nud",
            "permanent",
        ]);
    }

    /// Restores delivery to `other`.
    pub fn reaches(&self, other: &Self) {
        self.neighbour(&["delete", &other.address.to_string()]);
    }

    fn neighbour(&self, words: &[&str]) {
        let mut command = self.command("ip");
        let done = command.arg("neighbour").args(words).args(["dev", "eth0"]).output();
        let done = done.expect("ip");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_runs_once_with_its_hosts() {
        let test = concat!(module_path!(), "::a_test_runs_once_with_its_hosts");
        among_hosts(2, test, |hosts| assert_eq!(hosts.len(), 2));
    }

    #[test]
    #[should_panic(expected = "exactly this test runs")]
    fn a_test_that_does_not_run_fails() {
        among_hosts(1, concat!(module_path!(), "::no_such_test"), |_| ());
    }
}
