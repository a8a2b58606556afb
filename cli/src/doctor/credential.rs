//! Checks what expires: the server certificate and the client keys.

use std::path::Path;

use leasehold_auth::Policy;
use leasehold_server::http::TlsFiles;

use super::finding::Finding;

const DAY_MS: i64 = 24 * 3600 * 1000;
/// Days before its end from which a certificate or key is reported: enough for an operator to renew it by hand.
const WARN_DAYS: i64 = 21;

/// Checks when the server certificate ends.
pub(super) fn tls(files: &TlsFiles, now_ms: i64) -> Finding {
    certificate(files.ends_ms(), now_ms)
}

fn certificate(ends_ms: Result<Option<i64>, String>, now_ms: i64) -> Finding {
    let advice = "renew it: replace the certificate and key files; a running server rereads them";
    let check = "tls";
    match ends_ms {
        Err(why) => Finding::problem(check, why, "correct the files, or name other files"),
        Ok(None) => Finding::problem(check, "the certificate has no expiry date", advice),
        Ok(Some(ends_ms)) if ends_ms <= now_ms => {
            let found = format!("the certificate expired {} days ago", (now_ms - ends_ms) / DAY_MS);
            Finding::problem(check, found, advice)
        }
        Ok(Some(ends_ms)) => {
            let n_days = (ends_ms - now_ms) / DAY_MS;
            let found = format!("the certificate expires in {n_days} days");
            if n_days < WARN_DAYS {
                Finding::warning(check, found, advice)
            } else {
                Finding::fine(check, found)
            }
        }
    }
}

/// Checks when the keys of an auth file end.
pub(super) fn keys(auth_file: &Path, now_ms: i64) -> Finding {
    match Policy::load(auth_file) {
        Ok(policy) => of_keys(&policy.key_ends(), now_ms),
        Err(why) => Finding::problem(
            "keys",
            why,
            "correct the auth file; a running server keeps the previous version",
        ),
    }
}

fn of_keys(ends: &[(&str, i64)], now_ms: i64) -> Finding {
    let soon = now_ms.saturating_add(WARN_DAYS * DAY_MS);
    let told = |(name, ends_ms): &(&str, i64)| {
        let n_days = (ends_ms - now_ms) / DAY_MS;
        if *ends_ms <= now_ms {
            format!("{name} has expired")
        } else {
            format!("{name} expires in {n_days} days")
        }
    };
    let ending: Vec<_> = ends.iter().filter(|(_, ends_ms)| *ends_ms < soon).map(told).collect();
    match ends.first() {
        _ if !ending.is_empty() => Finding::warning(
            "keys",
            ending.join(", "),
            "create new keys (leasehold key create), distribute them, then revoke the old ones (leasehold key revoke)",
        ),
        Some(first) => Finding::fine("keys", format!("the first to expire: {}", told(first))),
        None => Finding::fine("keys", "none expires"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Verdict;

    const NOW: i64 = 1_800_000_000_000;

    #[test]
    fn a_certificate_is_renewed_before_it_ends() {
        let of = |days: i64| certificate(Ok(Some(NOW + days * DAY_MS)), NOW).verdict;
        assert_eq!(
            (of(90), of(20), of(0), of(-3)),
            (Verdict::Fine, Verdict::Warning, Verdict::Problem, Verdict::Problem)
        );
        assert_eq!(certificate(Err("no such file".into()), NOW).verdict, Verdict::Problem);
        assert_eq!(certificate(Ok(None), NOW).verdict, Verdict::Problem);
    }

    #[test]
    fn keys_are_replaced_before_they_end() {
        let of = |days: &[i64]| {
            let ends: Vec<_> = days.iter().map(|days| ("ci", NOW + days * DAY_MS)).collect();
            of_keys(&ends, NOW)
        };
        assert_eq!(of(&[]).verdict, Verdict::Fine);
        assert_eq!(of(&[40, 50]).found, "the first to expire: ci expires in 40 days");
        let soon = of(&[-1, 3, 50]);
        assert_eq!(
            (soon.verdict, &*soon.found),
            (Verdict::Warning, "ci has expired, ci expires in 3 days")
        );
        assert_eq!(keys(Path::new("/no-such-file"), NOW).verdict, Verdict::Problem);
    }
}
