//! The terminal: its width, and whether it shows colors.

use std::fmt::Display;
use std::io::IsTerminal;
use std::os::fd::AsFd;

use rustix::termios::tcgetwinsize;

/// Properties of the output stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    /// `None` if the stream is not a terminal; nothing is cut then.
    pub(crate) width: Option<usize>,
    has_colours: bool,
}

impl Screen {
    pub(crate) fn of_stdout() -> Self {
        Self::of(&std::io::stdout())
    }

    pub(crate) fn of_stderr() -> Self {
        Self::of(&std::io::stderr())
    }

    fn of(out: &(impl IsTerminal + AsFd)) -> Self {
        if !out.is_terminal() {
            return Self { width: None, has_colours: false };
        }
        let width =
            tcgetwinsize(out).ok().map(|size| size.ws_col.into()).filter(|width| *width > 0);
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        Self { width, has_colours: !is_set("NO_COLOR") && !is_dumb }
    }

    /// Returns the same screen without a width limit.
    pub(crate) fn unbounded(self) -> Self {
        Self { width: None, ..self }
    }

    /// Returns a screen without colors.
    #[cfg(test)]
    pub(crate) fn plain(width: Option<usize>) -> Self {
        Self { width, has_colours: false }
    }

    pub(crate) fn bold(self, text: impl Display) -> String {
        self.paint("1", text)
    }

    pub(crate) fn green(self, text: impl Display) -> String {
        self.paint("32", text)
    }

    pub(crate) fn yellow(self, text: impl Display) -> String {
        self.paint("33", text)
    }

    pub(crate) fn cyan(self, text: impl Display) -> String {
        self.paint("36", text)
    }

    pub(crate) fn red(self, text: impl Display) -> String {
        self.paint("1;31", text)
    }

    fn paint(self, colour: &str, text: impl Display) -> String {
        if self.has_colours { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_string() }
    }
}
