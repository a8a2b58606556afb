//! Checks the backups: whether there are any, and how old the latest is.

use std::time::Duration;

use leasehold_server::backup::{self, Options};

use super::finding::Finding;
use crate::duration::DurationArg;

const CHECK: &str = "backup";
/// The maximum age of the latest backup if no interval is configured.
const AGE_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// Checks the backups of a server. Returns `None` if the configured path is not a directory: the check of
/// `--backup-dir` reports that.
pub(super) fn look(options: Option<&Options>, now_ms: i64) -> Option<Finding> {
    let Some(options) = options else {
        let advice = "set --backup-dir and --backup-every, or run leasehold backup from a timer";
        return Some(Finding::warning(CHECK, "this server takes no backups", advice));
    };
    if !options.dir.exists() {
        let found = format!("{} does not exist yet", options.dir.display());
        let advice = "create it for the server's user; the server creates it at startup if it can";
        return Some(Finding::warning(CHECK, found, advice));
    }
    let is_folder = options.dir.is_dir();
    is_folder.then(|| judge(backup::newest_of_any(&options.dir, now_ms), options.every))
}

fn judge(age: Option<Duration>, every: Option<Duration>) -> Finding {
    let Some(age) = age else {
        let advice = "take one now: leasehold backup --url http://... (or wait for the first scheduled one, with \
            --backup-every)";
        return Finding::warning(CHECK, "there is no complete backup yet", advice);
    };
    // Whole seconds keep the age short: days and hours.
    let shown = DurationArg(Duration::from_secs(age.as_secs()));
    let found = format!("the latest backup is {shown} old");
    // The server retries a failed backup, so an age of twice the interval means that backups keep failing.
    let allowed = every.map_or(AGE_MAX, |every| every * 2);
    if age <= allowed {
        return Finding::fine(CHECK, found);
    }
    Finding::problem(
        CHECK,
        found,
        "check the server's log for the cause, such as disk space or permissions, or take a backup manually",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Verdict;

    #[test]
    fn the_latest_backup_is_as_old_as_it_may_be() {
        let hours = |n: u64| Duration::from_secs(n * 3600);
        let of = |age, every| judge(age, every).verdict;
        assert_eq!(of(Some(hours(7)), Some(hours(6))), Verdict::Fine);
        assert_eq!(of(Some(hours(13)), Some(hours(6))), Verdict::Problem);
        assert_eq!(
            (of(Some(hours(24)), None), of(Some(hours(200)), None)),
            (Verdict::Fine, Verdict::Problem)
        );
        assert_eq!(of(None, Some(hours(6))), Verdict::Warning);
        let looked = |options| look(options, 0).map(|found| found.verdict);
        assert_eq!(looked(None), Some(Verdict::Warning));
        let nowhere = Options { dir: "/no-such-folder".into(), every: None, n_keep: 1 };
        assert_eq!(looked(Some(&nowhere)), Some(Verdict::Warning));
        let file = Options { dir: "/dev/null".into(), ..nowhere };
        assert_eq!(looked(Some(&file)), None);
    }
}
