//! Why a script did not pass.

use std::fmt;

/// Why a script did not pass.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Flaw {
    /// The driver said `unsupported`: there is nothing to judge.
    Unsupported(String),
    /// A promise was broken, or the driver did not do what the protocol says.
    Wrong(String),
}

/// What a step of a script comes to.
pub type Outcome<T = ()> = Result<T, Flaw>;

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Flaw::Unsupported(what) => write!(f, "not supported: {what}"),
            Flaw::Wrong(what) => f.write_str(what),
        }
    }
}

/// A flaw of the suite itself, or of what it runs on: told like any other, so that nothing is passed by mistake.
pub(crate) fn broken(what: impl fmt::Display) -> Flaw {
    Flaw::Wrong(format!("the suite could not go on: {what}"))
}

/// Fails the script with these words unless it is so.
macro_rules! demand {
    ($is_so:expr, $($words:tt)+) => {
        if !$is_so {
            return Err($crate::flaw::Flaw::Wrong(format!($($words)+)));
        }
    };
}
pub(crate) use demand;
