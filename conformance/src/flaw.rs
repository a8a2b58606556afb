//! The reason why a script did not pass.

use std::fmt;

/// The reason why a script did not pass.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Flaw {
    /// The driver does not support a command, so there is nothing to judge.
    Unsupported(String),
    /// The driver broke a promise, or violated the protocol.
    Wrong(String),
}

/// The result of a step of a script.
pub type Outcome<T = ()> = Result<T, Flaw>;

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Flaw::Unsupported(what) => write!(f, "not supported: {what}"),
            Flaw::Wrong(what) => f.write_str(what),
        }
    }
}

/// Returns a flaw of the suite itself or its environment. It counts like any other flaw, so that no script passes by
/// mistake.
pub(crate) fn broken(what: impl fmt::Display) -> Flaw {
    Flaw::Wrong(format!("the suite could not go on: {what}"))
}

/// Fails the script with this message unless the condition holds.
macro_rules! demand {
    ($is_so:expr, $($words:tt)+) => {
        if !$is_so {
            return Err($crate::flaw::Flaw::Wrong(format!($($words)+)));
        }
    };
}
pub(crate) use demand;
