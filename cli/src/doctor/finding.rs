//! The result of a check: its subject, its severity and the advice.

use serde_json::{Value, json};

use crate::output::plain;

/// The severity of a finding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Fine,
    /// The server works, but not as well as it could, or not for long.
    Warning,
    /// The server does not work, or cannot keep its guarantees.
    Problem,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Verdict::Fine => "ok",
            Verdict::Warning => "warning",
            Verdict::Problem => "problem",
        }
    }
}

/// The result of one check.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Finding {
    /// The name of the check.
    pub(super) check: &'static str,
    pub(super) verdict: Verdict,
    pub(super) found: String,
    /// The recommended change, if any.
    pub(super) advice: Option<String>,
}

impl Finding {
    pub(super) fn fine(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Fine, found: found.into(), advice: None }
    }

    pub(super) fn warning(
        check: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { check, verdict: Verdict::Warning, found: found.into(), advice: Some(advice.into()) }
    }

    pub(super) fn problem(
        check: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { verdict: Verdict::Problem, ..Self::warning(check, found, advice) }
    }

    /// Returns the finding as one line, followed by a line with the advice, if any.
    pub(super) fn text(&self) -> String {
        let line = format!("{:<8} {:<12} {}", self.verdict.word(), self.check, plain(&self.found));
        match &self.advice {
            Some(advice) => format!("{line}\n{:21} -> {}", "", plain(advice)),
            None => line,
        }
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "check": self.check,
            "verdict": self.verdict.word(),
            "found": self.found,
            "advice": self.advice,
        })
    }
}
