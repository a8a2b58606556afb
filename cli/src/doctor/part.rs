//! Checks the files and directories that a server needs in addition to its data, with the same functions as the server.

use std::path::Path;

use leasehold_server::serve::{Checked, Part, Settings, preflight};

use super::finding::Finding;
use crate::serve::check_port_file;

/// Checks each file and directory that the settings name.
pub(super) fn look(settings: &Settings, port_file: Option<&Path>) -> Vec<Finding> {
    let parts = preflight(settings).into_iter().filter_map(|checked| judge(&checked));
    let port = port_file.map(|file| match check_port_file(file) {
        Ok(()) => Finding::fine("port-file", format!("{} can be written", file.display())),
        Err(why) => Finding::problem("port-file", why, advice("--port-file", "a file")),
    });
    parts.chain(port).collect()
}

fn judge(checked: &Checked) -> Option<Finding> {
    let (check, flag, what) = match checked.part {
        Part::Audit => ("audit", "--audit-file", "a file"),
        Part::Files => ("files-folder", "--files-folder", "a folder"),
        Part::Webhook => ("webhook", "--webhook-secret-file", "a file"),
        Part::Backups => ("backup", "--backup-dir", "a folder"),
    };
    match (&checked.found, checked.part) {
        (Err(why), _) => Some(Finding::problem(check, why.clone(), advice(flag, what))),
        // The backup check reports on the backups themselves.
        (Ok(()), Part::Backups) => None,
        (Ok(()), Part::Webhook) => {
            Some(Finding::fine(check, format!("{} has a secret", checked.path.display())))
        }
        (Ok(()), Part::Audit | Part::Files) => {
            Some(Finding::fine(check, format!("{} can be written", checked.path.display())))
        }
    }
}

fn advice(flag: &str, what: &str) -> String {
    format!("set {flag} to {what} that the server's user can use, in an existing directory")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Verdict;
    use leasehold_server::{audit, backup, webhook};

    #[test]
    fn each_is_judged_and_nothing_is_made() {
        let folder = leasehold_testkit::folder();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("plain"), "").expect("written");
        let settings = |audit_file: &str, files: &str, secret: &str, dir: &str| {
            let mut webhook =
                webhook::Options::new("http://127.0.0.1:1/".parse().expect("a target"));
            webhook.secret_file = Some(path(secret));
            Settings {
                audit: Some(audit::Options::new(path(audit_file))),
                files: Some(path(files)),
                webhook: Some(webhook),
                backup: Some(backup::Options { dir: path(dir), every: None, n_keep: 1 }),
                ..leasehold_testkit::settings(Some(&path("data")))
            }
        };
        let verdicts = |settings: &Settings, port: &str| {
            let all = look(settings, Some(&path(port)));
            let all = all.iter().map(|found| (found.check, found.verdict));
            all.collect::<Vec<_>>()
        };
        let bad = verdicts(&settings("none/a.log", "plain", "none", "plain"), "none/port");
        let checks = ["audit", "files-folder", "webhook", "backup", "port-file"];
        assert_eq!(bad, checks.map(|check| (check, Verdict::Problem)));
        std::fs::write(path("secret"), "0123456789abcdef").expect("written");
        let good = verdicts(&settings("a.log", "files", "secret", "backups"), "port");
        let checks = ["audit", "files-folder", "webhook", "port-file"];
        assert_eq!(good, checks.map(|check| (check, Verdict::Fine)));
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 2);
    }
}
