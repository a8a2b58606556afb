//! What came out of a run, as a table.

use std::fmt::Write;
use std::time::Duration;

use crate::flaw::Flaw;

/// What came out of one script.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Of the script.
    pub script: &'static str,
    /// Why it did not pass, if it did not.
    pub flaw: Option<Flaw>,
    /// How long it took.
    pub took: Duration,
    /// How often it was run: more than once only if the machine was too busy to tell.
    pub n_tries: u32,
    /// How late the harness got its turn at worst.
    pub lag: Duration,
    /// For people who look for the reason: requests and what the driver said.
    pub trace: String,
}

impl Verdict {
    /// Of a script that did not run yet.
    pub(crate) fn new(script: &'static str) -> Self {
        let (took, lag) = (Duration::ZERO, Duration::ZERO);
        Self { script, flaw: None, took, n_tries: 1, lag, trace: String::new() }
    }

    /// In one word.
    pub fn word(&self) -> &'static str {
        match &self.flaw {
            None => "ok",
            Some(Flaw::Unsupported(_)) => "not supported",
            Some(Flaw::Wrong(_)) => "FAILED",
        }
    }
}

/// What came out of all scripts with one driver.
#[derive(Clone, Debug)]
pub struct Report {
    /// What the driver calls itself, or its command.
    pub driver: String,
    /// In the order of the scripts.
    pub verdicts: Vec<Verdict>,
}

impl Report {
    /// Nothing failed. What is not supported has not.
    pub fn is_good(&self) -> bool {
        !self.verdicts.iter().any(|verdict| matches!(verdict.flaw, Some(Flaw::Wrong(_))))
    }

    /// How many scripts came out as `word`.
    pub fn count(&self, word: &str) -> usize {
        self.verdicts.iter().filter(|verdict| verdict.word() == word).count()
    }

    /// The scripts that had to be run again because the machine was too busy to tell.
    pub fn repeated(&self) -> String {
        let repeated = self.verdicts.iter().filter(|verdict| verdict.n_tries > 1);
        let line = |Verdict { script, n_tries, .. }: &Verdict| {
            format!("{}: {script} was run {n_tries} times: the machine was busy\n", self.driver)
        };
        repeated.map(line).collect()
    }

    /// Why each script that failed did.
    pub fn failures(&self) -> String {
        let mut shown = String::new();
        for verdict in &self.verdicts {
            let Some(flaw @ Flaw::Wrong(_)) = &verdict.flaw else { continue };
            let trace = verdict.trace.trim_end().replace('\n', "\n    ");
            let Verdict { script, n_tries, lag, .. } = verdict;
            let tries = format!("try {n_tries}, the harness was up to {lag:?} late");
            let _ =
                writeln!(shown, "{}: {script} FAILED ({tries}): {flaw}\n    {trace}", self.driver);
        }
        shown
    }
}

/// A table with a line for each script and a column for each driver.
pub fn table(reports: &[Report]) -> String {
    let mut shown = String::from("| script |");
    let mut rule = String::from("| --- |");
    for report in reports {
        let _ = write!(shown, " {} |", report.driver);
        rule.push_str(" --- |");
    }
    let _ = write!(shown, "\n{rule}\n");
    let names = reports.first().map(|report| &report.verdicts).into_iter().flatten();
    for (n, named) in names.enumerate() {
        let _ = write!(shown, "| `{}` |", named.script);
        for report in reports {
            let word = report.verdicts.get(n).map_or("-", Verdict::word);
            let _ = write!(shown, " {word} |");
        }
        shown.push('\n');
    }
    shown.push_str("| passed |");
    for report in reports {
        let _ = write!(shown, " {} of {} |", report.count("ok"), report.verdicts.len());
    }
    shown.push('\n');
    shown
}
