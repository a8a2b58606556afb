//! `leasehold doctor`: checks the host, files and settings for a server, and suggests fixes.
//!
//! Each check measures first and then passes the result to a function that judges it. Tests can therefore cover every
//! verdict without a broken machine.

mod backup;
mod credential;
mod data;
mod disk;
mod etcd;
mod finding;
mod limit;
mod network;
mod owner;
mod part;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args as ClapArgs;
use leasehold_store as store;
use serde_json::json;

use crate::ask::told;
use crate::config::{Args, Given, located};
use crate::exit::{FAILED, Failure};
use crate::output::{OutputArgs, print, print_json};
use crate::serve::doubt;
use finding::{Finding, Verdict};

#[derive(ClapArgs)]
pub(crate) struct DoctorArgs {
    /// End with status 1 even if there are only warnings.
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    settings: Args,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs all checks and prints the findings. Returns exit status 1 if there is a problem.
pub(crate) fn doctor(args: &DoctorArgs, given: &Given) -> Result<ExitCode, Failure> {
    told(args.output, examined(args, given))
}

fn examined(args: &DoctorArgs, given: &Given) -> Result<ExitCode, Failure> {
    let findings = findings(&args.settings, given);
    let n = |verdict| findings.iter().filter(|finding| finding.verdict == verdict).count();
    let (n_problems, n_warnings) = (n(Verdict::Problem), n(Verdict::Warning));
    let is_well = n_problems == 0 && (n_warnings == 0 || !args.strict);
    if args.output.json {
        let all: Vec<_> = findings.iter().map(Finding::json).collect();
        print_json(&json!({
            "healthy": is_well,
            "problems": n_problems,
            "warnings": n_warnings,
            "findings": all,
        }))?;
    } else {
        let lines: Vec<_> = findings.iter().map(Finding::text).collect();
        print(&lines.join("\n"))?;
        print(&format!("{}, {}", counted(n_problems, "problem"), counted(n_warnings, "warning")))?;
    }
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

fn counted(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// Runs all checks and returns their findings.
fn findings(args: &Args, given: &Given) -> Vec<Finding> {
    let settings = args.settings();
    let now_ms = now_ms();
    let checked = match args.check() {
        Ok(()) => Finding::fine("settings", "the settings are consistent"),
        Err(why) => Finding::problem("settings", located(why, given), "correct the setting"),
    };
    let folder = settings.data.as_deref();
    let user = folder.and_then(store::user);
    let user = user.as_deref();
    let mut all = data::look(folder, settings.cluster.is_some(), user);
    all.extend(disk::look(folder.map(nearest).as_deref(), &settings));
    all.push(limit::clock(limit::clock_source().as_deref()));
    all.push(limit::files(limit::n_files_max(), &settings.http));
    all.push(limit::memory(limit::memory_bytes(), &settings));
    all.extend(network::look(&settings, user));
    all.extend(settings.tls.iter().map(|files| credential::tls(files, now_ms)));
    let exposed = doubt::exposed(&settings).into_iter();
    all.extend(exposed.map(|(found, advice)| Finding::warning("rights", found, advice)));
    all.extend(args.auth_file().map(|file| credential::keys(file, now_ms)));
    all.extend(part::look(&settings, args.port_file.as_deref()));
    if settings.cluster.is_none() {
        all.extend(folder.and_then(|_| backup::look(settings.backup.as_ref(), now_ms)));
    }
    all.extend(args.etcd().map(|access| etcd::look(&access)));
    told_once(checked, all)
}

/// Puts the result of the settings check first, and removes problems that it already reports: it also checks the files
/// that the settings name.
fn told_once(checked: Finding, mut others: Vec<Finding>) -> Vec<Finding> {
    if checked.verdict == Verdict::Problem {
        others.retain(|other| !checked.found.contains(&other.found));
    }
    others.insert(0, checked);
    others
}

/// Returns the directory itself, or its nearest existing ancestor.
fn nearest(folder: &Path) -> PathBuf {
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.into());
    let mut above = folder.ancestors().filter(|path| path.is_dir());
    above.next().unwrap_or(Path::new("/")).into()
}

fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_counted_and_told_once() {
        assert_eq!(
            (counted(1, "problem"), counted(0, "warning")),
            ("1 problem".into(), "0 warnings".into())
        );
        let settings = Finding::problem("settings", "a.pem: no such file (x.toml:3)", "correct it");
        let others = vec![
            Finding::problem("tls", "a.pem: no such file", "correct the files"),
            Finding::fine("clock", "tsc"),
        ];
        let told = told_once(settings, others.clone());
        let checks: Vec<_> = told.iter().map(|finding| finding.check).collect();
        assert_eq!(checks, ["settings", "clock"]);
        assert_eq!(told_once(Finding::fine("settings", "well"), others).len(), 3);
    }

    #[test]
    fn the_nearest_folder_is_one_that_is_there() {
        let here = std::env::temp_dir();
        assert_eq!(nearest(&here), here);
        assert_eq!(nearest(&here.join("no/such/folder")), here);
        assert_eq!(nearest(Path::new("/no-such-folder/x")), Path::new("/"));
    }
}
