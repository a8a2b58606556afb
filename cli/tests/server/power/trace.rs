//! Reads from the output of strace what a process did to the files of a directory.

use std::collections::HashMap;
use std::path::Path;

/// The system calls that change a disk.
pub(crate) const CALLS: &str = "openat,pwrite64,write,ftruncate,fsync,fdatasync,unlink,unlinkat";

/// A call with the log lines of its start and end, which show the order of calls.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) began: usize,
    pub(crate) ended: usize,
    /// The name of the file; empty for the directory itself.
    pub(crate) file: String,
    pub(crate) call: Call,
}

#[derive(Clone, Debug)]
pub(crate) enum Call {
    Open { may_create: bool },
    Write { at: usize, bytes: Vec<u8> },
    Resize(usize),
    Sync { failed: bool },
    Remove,
}

/// The calls on a directory, and the time of each line of the log.
#[derive(Default)]
pub(crate) struct Trace {
    pub(crate) events: Vec<Event>,
    pub(crate) times: Vec<f64>,
}

impl Trace {
    /// Adds the calls in a log that are about files directly in `folder`.
    pub(crate) fn add(&mut self, log: &Path, folder: &Path) {
        let text = std::fs::read_to_string(log).expect("a log");
        let first_line = self.times.len();
        self.times.extend(text.lines().map(|line| split(line).1));
        self.events.extend(read(&text, folder, first_line));
    }
}

/// Splits a line into thread, time and call.
fn split(line: &str) -> (&str, f64, &str) {
    let mut parts = line.splitn(2, ' ');
    let (thread, rest) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let (seconds, call) = rest.trim_start().split_once(' ').unwrap_or_default();
    (thread, seconds.parse().expect("a time"), call)
}

fn read(text: &str, folder: &Path, first_line: usize) -> Vec<Event> {
    let mut begun: HashMap<&str, (usize, &str)> = HashMap::new();
    let mut events = Vec::new();
    for (line, text) in text.lines().enumerate() {
        let line = first_line + line;
        let (thread, _, call) = split(text);
        if let Some(first) = call.strip_suffix(" <unfinished ...>") {
            begun.insert(thread, (line, first));
        } else if let Some((_, second)) = call.split_once(" resumed>") {
            let Some((began, first)) = begun.remove(thread) else { continue };
            events.extend(event(&format!("{first}{second}"), folder, began, line));
        } else {
            events.extend(event(call, folder, line, line));
        }
    }
    // A call that never returned was still in progress.
    for (began, first) in begun.into_values() {
        events.extend(event(&format!("{first}) = 0"), folder, began, usize::MAX));
    }
    events
}

fn event(call: &str, folder: &Path, began: usize, ended: usize) -> Option<Event> {
    let (name, rest) = call.split_once('(')?;
    let (arguments, result) = rest.rsplit_once(") = ")?;
    let failed = result.starts_with('-');
    if failed && !name.ends_with("sync") {
        return None;
    }
    let is_about_name = ["openat", "unlink", "unlinkat"].contains(&name);
    let path = if is_about_name {
        text(arguments.split('"').nth(1)?)
    } else {
        text(arguments.split_once('<')?.1.split_once('>')?.0)
    };
    let path = String::from_utf8(path).ok()?;
    let path = Path::new(&path);
    let file = path.strip_prefix(folder).ok()?.to_str()?.to_owned();
    if file.contains('/') || file.ends_with("-shm") {
        return None;
    }
    let mut last = arguments.rsplit(", ");
    let call = match name {
        "openat" => Call::Open { may_create: arguments.contains("O_CREAT") },
        "pwrite64" => Call::Write {
            at: last.next()?.parse().ok()?,
            bytes: text(arguments.split('"').nth(1)?),
        },
        "ftruncate" => Call::Resize(last.next()?.parse().ok()?),
        "fsync" | "fdatasync" => Call::Sync { failed },
        "unlink" | "unlinkat" => Call::Remove,
        _ => return None,
    };
    Some(Event { began, ended, file, call })
}

/// Decodes bytes in the form `\x2f\x74`.
fn text(hex: &str) -> Vec<u8> {
    let bytes = hex.split("\\x").skip(1);
    bytes.map(|byte| u8::from_str_radix(byte, 16).expect("a byte")).collect()
}
