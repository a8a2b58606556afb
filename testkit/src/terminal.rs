//! A terminal with a shell in it, driven by tmux as a person would.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// How long anything may take to be seen.
const PATIENCE: Duration = Duration::from_secs(180);
const PROMPT: &str = "ready> ";

/// Closed when dropped, and whatever runs in it.
pub struct Terminal {
    socket: PathBuf,
}

impl Terminal {
    /// A terminal of so many columns and 30 lines, with a shell in `folder` that has these variables.
    pub fn open(folder: &Path, width: u32, variables: &[(&str, &str)]) -> Self {
        // A tmux of its own for each test, in its folder.
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

    /// Types keys by their tmux names: `C-c`.
    pub fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// Types a line.
    pub fn enter(&self, line: &str) {
        self.keys(&["-l", line]);
        self.keys(&["Enter"]);
    }

    /// What is on it.
    pub fn text(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// The same, with the escapes that colour it.
    pub fn coloured_text(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-e"])
    }

    /// Waits until the text is on it.
    pub fn shows(&self, text: &str) {
        self.until(text, |shown| shown.contains(text));
    }

    /// Waits until what is on it is as it should be.
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
