//! What was found: what about, how bad, and what to change.

use serde_json::{Value, json};

use crate::output::plain;

/// How bad it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Fine,
    /// It works, but not as well as it could, or not for long.
    Warning,
    /// It does not work, or what is promised does not hold.
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

/// One thing that was looked at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Finding {
    /// What was looked at.
    pub(super) check: &'static str,
    pub(super) verdict: Verdict,
    /// What was found.
    pub(super) found: String,
    /// What to change, if anything.
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

    /// A line, and another with what to change.
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
