//! Checks the listen addresses: whether the server can bind to them, and whether connections are encrypted.

use std::io::ErrorKind;
use std::path::Path;

use leasehold_server::serve::{Settings, Wanted, listeners};

use super::finding::Finding;
use super::owner::{self, Owner};

const CHECK: &str = "listen";

/// Checks each listener. `user` is the id of the process that uses the data directory, if any.
pub(super) fn look(settings: &Settings, user: Option<&str>) -> Vec<Finding> {
    let folder = settings.data.as_deref();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return Vec::new() };
    runtime.block_on(async {
        // Each socket stays open until all addresses were tried, to detect an address that is named twice.
        let (mut held, mut all) = (Vec::new(), Vec::new());
        for wanted in listeners(settings) {
            let tried = wanted.attempt().await.map(|attempt| held.push(attempt));
            all.push(bound(&wanted, tried, folder, user));
            let is_used = wanted.is_for_all || wanted.flag == "--redis-listen";
            let is_open = is_used && !wanted.listen.is_local() && !wanted.listen.is_tls();
            all.extend(is_open.then(|| unencrypted(&wanted.shown)));
        }
        all
    })
}

fn unencrypted(shown: &str) -> Finding {
    Finding::warning(
        CHECK,
        format!("{shown} is not encrypted, and other machines can reach it"),
        "listen on https:// with --tls-cert-file and --tls-key-file, or only for a proxy that encrypts",
    )
}

fn bound(
    wanted: &Wanted,
    tried: std::io::Result<()>,
    folder: Option<&Path>,
    user: Option<&str>,
) -> Finding {
    let owner = || owner::of(&wanted.listen, folder, user);
    let tried = tried.map_err(|error| (error.kind(), error.to_string()));
    judge(&format!("{} {}", wanted.flag, wanted.shown), tried, owner)
}

fn judge(
    what: &str,
    tried: Result<(), (ErrorKind, String)>,
    owner: impl FnOnce() -> Owner,
) -> Finding {
    let Err((kind, why)) = tried else {
        return Finding::fine(CHECK, format!("{what} is free"));
    };
    let (why, advice) = match kind {
        ErrorKind::AddrInUse => match owner() {
            Owner::Server => {
                let found = format!("{what} is in use by the running server");
                return Finding::fine(CHECK, found);
            }
            Owner::Unknown => {
                let found = format!("{what} is in use; this user cannot see by which process");
                let advice = "run doctor as the server's user, or as root";
                return Finding::warning(CHECK, found, advice);
            }
            Owner::Settings => (
                "another setting uses the same address".into(),
                "give each listener its own address or port",
            ),
            Owner::Another => {
                (why, "stop the program that uses it (ss -ltnp), or choose another port")
            }
        },
        ErrorKind::AddrNotAvailable => {
            (why, "no interface of this machine has that address; use another one, or 0.0.0.0")
        }
        ErrorKind::PermissionDenied => (
            why,
            "use port 1024 or higher, or allow lower ports (AmbientCapabilities=CAP_NET_BIND_SERVICE in the unit)",
        ),
        ErrorKind::NotFound => {
            (why, "create the directory of the socket (RuntimeDirectory= in the unit)")
        }
        _ => (why, "use another address"),
    };
    Finding::problem(CHECK, format!("{what}: {why}"), advice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Verdict;

    fn settings(listen: &[&str]) -> Settings {
        let listen = listen.iter().map(|text| text.parse().expect("a listener")).collect();
        Settings { listen, ..leasehold_testkit::settings(None) }
    }

    fn verdicts(listen: &[&str]) -> Vec<Verdict> {
        look(&settings(listen), None).iter().map(|found| found.verdict).collect()
    }

    #[test]
    fn an_address_is_free_or_taken_by_the_server_or_by_another() {
        let tried = || Err((ErrorKind::AddrInUse, "Address already in use".into()));
        let of = |owner: Owner| judge("--listen http://127.0.0.1:8080", tried(), || owner);
        assert_eq!(of(Owner::Server).verdict, Verdict::Fine);
        assert_eq!(of(Owner::Another).verdict, Verdict::Problem);
        assert_eq!(of(Owner::Unknown).verdict, Verdict::Warning);
        assert!(of(Owner::Settings).found.contains("another setting"));
        assert_eq!(verdicts(&["127.0.0.1:0", "127.0.0.1:0"]), [Verdict::Fine, Verdict::Fine]);
        assert_eq!(verdicts(&["https://192.0.2.1:443"]), [Verdict::Problem], "no address of ours");
        let no =
            judge("--listen x", Err((ErrorKind::PermissionDenied, "no".into())), || Owner::Server);
        assert!(no.advice.is_some_and(|advice| advice.contains("1024")));
    }

    #[test]
    fn settings_that_name_an_address_twice_are_told() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = free.local_addr().expect("an address").to_string();
        drop(free);
        assert_eq!(verdicts(&[&address, &address]), [Verdict::Fine, Verdict::Problem]);
    }

    #[test]
    fn a_unix_socket_is_judged_as_a_server_does() {
        let folder = leasehold_testkit::folder();
        let path = folder.path().join("x.sock");
        let listen = format!("unix:{}", path.display());
        assert_eq!(verdicts(&[&listen]), [Verdict::Fine]);
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
        drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket"));
        assert_eq!(verdicts(&[&listen]), [Verdict::Fine], "its server is gone");
        assert!(path.exists(), "and it is left where it is");
        std::fs::remove_file(&path).expect("removed");
        std::fs::write(&path, "").expect("written");
        assert_eq!(verdicts(&[&listen]), [Verdict::Problem], "a file");
        assert_eq!(verdicts(&["unix:/no-such/x.sock"]), [Verdict::Problem]);
    }

    #[test]
    fn what_others_can_reach_is_encrypted() {
        let n_warnings = |listen: &str| {
            let all = look(&settings(&[listen]), None);
            all.iter().filter(|found| found.verdict == Verdict::Warning).count()
        };
        assert_eq!(n_warnings("0.0.0.0:0"), 1);
        assert_eq!((n_warnings("127.0.0.1:0"), n_warnings("https://0.0.0.0:0")), (0, 0));
    }
}
