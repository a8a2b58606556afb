//! Where the server is to listen: whether it can, and who could listen to it.

use std::io::ErrorKind;
use std::net::TcpListener;

use leasehold_server::http::Listen;
use leasehold_server::serve::Settings;

use super::finding::Finding;

const CHECK: &str = "listen";

/// What is to be said of each listener. One that is taken is taken by our own server, if one is running.
pub(super) fn look(
    listening: &[(&str, Listen)],
    settings: &Settings,
    is_running: bool,
) -> Vec<Finding> {
    let metrics = settings.metrics_listen.iter().map(|listen| ("--metrics-listen", listen.clone()));
    let all = listening.iter().cloned().chain(metrics);
    all.flat_map(|(flag, listen)| {
        let is_open = flag == "--listen" && !listen.is_local() && !listen.is_tls();
        let open = is_open.then(|| unencrypted(&listen));
        [Some(bound(flag, &listen, is_running)), open].into_iter().flatten()
    })
    .collect()
}

fn unencrypted(listen: &Listen) -> Finding {
    Finding::warning(
        CHECK,
        format!("{listen} is not encrypted, and other machines can reach it"),
        "listen on https:// with --tls-cert-file and --tls-key-file, or only for a proxy that encrypts",
    )
}

fn bound(flag: &str, listen: &Listen, is_running: bool) -> Finding {
    let tried = match listen {
        Listen::Http(address) | Listen::Https(address) => TcpListener::bind(address).map(drop),
        Listen::Unix(path) => match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            Some(folder) => std::fs::metadata(folder).map(drop),
            None => Ok(()),
        },
    };
    judge(flag, listen, tried.map_err(|error| (error.kind(), error.to_string())), is_running)
}

fn judge(
    flag: &str,
    listen: &Listen,
    tried: Result<(), (ErrorKind, String)>,
    is_running: bool,
) -> Finding {
    let Err((kind, why)) = tried else {
        return Finding::fine(CHECK, format!("{flag} {listen} is free"));
    };
    if kind == ErrorKind::AddrInUse && is_running {
        return Finding::fine(
            CHECK,
            format!("{flag} {listen} is taken, by the server that is running"),
        );
    }
    let advice = match kind {
        ErrorKind::AddrInUse => "end the program that has it (ss -ltnp), or name another port",
        ErrorKind::AddrNotAvailable => {
            "no interface of this machine has that address: name another, or 0.0.0.0"
        }
        ErrorKind::PermissionDenied => {
            "take a port from 1024 on, or allow the service to (AmbientCapabilities=CAP_NET_BIND_SERVICE in the unit)"
        }
        ErrorKind::NotFound => "make the folder of the socket (RuntimeDirectory= in the unit)",
        _ => "name another address",
    };
    Finding::problem(CHECK, format!("{flag} {listen}: {why}"), advice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Verdict;

    #[test]
    fn an_address_is_free_or_taken_by_us_or_by_another() {
        let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
        let listen = Listen::Http(taken.local_addr().expect("an address"));
        assert_eq!(bound("--listen", &listen, false).verdict, Verdict::Problem);
        assert_eq!(bound("--listen", &listen, true).verdict, Verdict::Fine);
        drop(taken);
        let any = "127.0.0.1:0".parse().expect("an address");
        assert_eq!(bound("--listen", &any, false).verdict, Verdict::Fine);
        let nowhere = "192.0.2.1:80".parse().expect("an address");
        assert_eq!(bound("--listen", &nowhere, false).verdict, Verdict::Problem);
        for (path, verdict) in
            [("unix:/tmp/x.sock", Verdict::Fine), ("unix:/no-such/x.sock", Verdict::Problem)]
        {
            assert_eq!(
                bound("--listen", &path.parse().expect("a path"), false).verdict,
                verdict,
                "{path}"
            );
        }
        let tried = Err((ErrorKind::PermissionDenied, "no".into()));
        assert!(
            judge("--listen", &any, tried, true)
                .advice
                .is_some_and(|advice| advice.contains("1024"))
        );
    }

    #[test]
    fn what_others_can_reach_is_encrypted() {
        let settings = leasehold_testkit::settings(None);
        let n_warnings = |listen: &str| {
            let listening = [("--listen", listen.parse().expect("a listener"))];
            let all = look(&listening, &settings, true);
            all.iter().filter(|found| found.verdict == Verdict::Warning).count()
        };
        assert_eq!(n_warnings("0.0.0.0:0"), 1);
        assert_eq!((n_warnings("127.0.0.1:0"), n_warnings("https://0.0.0.0:0")), (0, 0));
    }
}
