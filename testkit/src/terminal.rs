//! A terminal with a shell, driven by tmux as a person would use it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The time limit for any text to appear.
const PATIENCE: Duration = Duration::from_secs(180);
const PROMPT: &str = "ready> ";

/// A terminal. Dropping this value closes it and ends the programs in it.
pub struct Terminal {
    socket: PathBuf,
}

impl Terminal {
    /// Opens a terminal with this many columns and 30 lines. Its shell runs in `folder` with these variables.
    pub fn open(folder: &Path, width: u32, variables: &[(&str, &str)]) -> Self {
        // Each test has a separate tmux server, with its socket in the test's directory.
        let terminal = Self { socket: folder.join("tmux") };
        let set: String = variables.iter().map(|(k, v)| format!("export {k}='{v}'; ")).collect();
        let shell =
            format!("cd {}; {set}PS1='{PROMPT}' exec bash --norc --noprofile", folder.display());
        let width = width.to_string();
        let size = ["-x", &width, "-y", "30"];
        terminal.tmux(&[&["-f", "/dev/null", "new-session", "-d"], &size[..], &[&shell]].concat());
        terminal.shows(PROMPT.trim_end());
        terminal
    }

    /// Types keys by their tmux names, such as `C-c`.
    pub fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// Types a line.
    pub fn enter(&self, line: &str) {
        self.keys(&["-l", line]);
        self.keys(&["Enter"]);
    }

    /// Returns the text on the screen.
    pub fn text(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Returns the text on the screen with its color escapes.
    pub fn coloured_text(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-e"])
    }

    /// Waits until the text is on the screen.
    pub fn shows(&self, text: &str) {
        self.until(text, |shown| shown.contains(text));
    }

    /// Waits until the condition holds for the screen.
    pub fn until(&self, what: &str, mut is_so: impl FnMut(&str) -> bool) {
        let began = Instant::now();
        while !is_so(&self.text()) {
            assert!(began.elapsed() < PATIENCE, "never saw {what:?} on:\n{}", self.text());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let output = Command::new("tmux").arg("-S").arg(&self.socket).args(arguments).output();
        let output = output.expect("tmux: scripts/test installs it");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = Command::new("tmux").arg("-S").arg(&self.socket).arg("kill-server").output();
    }
}
