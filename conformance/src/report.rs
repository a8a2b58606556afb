//! The results of a run, as a table.

use std::fmt::Write;
use std::time::Duration;

use crate::flaw::Flaw;

/// The result of one script.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The name of the script.
    pub script: &'static str,
    /// The reason why it did not pass, if it did not.
    pub flaw: Option<Flaw>,
    /// How long it took.
    pub took: Duration,
    /// How often it was run. It is repeated only if the machine was overloaded.
    pub n_tries: u32,
    /// The largest delay of the harness.
    pub lag: Duration,
    /// Details for people who look for the reason: requests, and the output of the driver.
    pub trace: String,
}

impl Verdict {
    /// Returns the verdict for a script that has not run yet.
    pub(crate) fn new(script: &'static str) -> Self {
        let (took, lag) = (Duration::ZERO, Duration::ZERO);
        Self { script, flaw: None, took, n_tries: 1, lag, trace: String::new() }
    }

    /// Returns the result in one word.
    pub fn word(&self) -> &'static str {
        match &self.flaw {
            None => "ok",
            Some(Flaw::Unsupported(_)) => "not supported",
            Some(Flaw::Wrong(_)) => "FAILED",
        }
    }
}

/// The results of all scripts with one driver.
#[derive(Clone, Debug)]
pub struct Report {
    /// The name that the driver reports, or its command.
    pub driver: String,
    /// The verdicts, in the order of the scripts.
    pub verdicts: Vec<Verdict>,
}

impl Report {
    /// Returns whether no script failed. A script that is not supported has not failed.
    pub fn is_good(&self) -> bool {
        !self.verdicts.iter().any(|verdict| matches!(verdict.flaw, Some(Flaw::Wrong(_))))
    }

    /// Counts the scripts with the result `word`.
    pub fn count(&self, word: &str) -> usize {
        self.verdicts.iter().filter(|verdict| verdict.word() == word).count()
    }

    /// Lists the scripts that were repeated because the machine was overloaded.
    pub fn repeated(&self) -> String {
        let repeated = self.verdicts.iter().filter(|verdict| verdict.n_tries > 1);
        let line = |Verdict { script, n_tries, .. }: &Verdict| {
            format!("{}: {script} was run {n_tries} times: the machine was busy\n", self.driver)
        };
        repeated.map(line).collect()
    }

    /// Explains why scripts failed.
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

/// Returns a table with a line for each script and a column for each driver.
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
