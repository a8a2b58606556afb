//! Finds all processes that a command started, and kills them.
//!
//! A process leaves its group with `setsid`, and its parent by forking twice. It cannot leave the process *tree*: the
//! warden is a subreaper, so a process that loses its parent becomes a child of the warden instead of init. All
//! descendants of the command therefore stay below the warden, and no privileges are needed. Where `run` can create a
//! control group, the kernel keeps the list of processes, and also kills those that `run` has no permission to signal.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use rustix::process::{Pid, Signal, getuid, kill_process, kill_process_group};

/// How long to keep trying to kill processes that cannot be killed, such as a process of another user or one that waits
/// for a dead disk.
const KILLING_MAX: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(2);

/// The value of `--contain`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Contain {
    /// A control group if one is delegated to the user, otherwise the process tree.
    Auto,
    /// All processes the command started, including those that called `setsid` or forked twice.
    Tree,
    /// Like tree, with a dedicated control group, which needs delegation.
    Cgroup,
    /// Only the process group.
    Group,
}

/// The containment in use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Containment {
    Group,
    Tree,
    /// The directory of the control group. The process tree is used in addition.
    Cgroup(PathBuf),
}

impl Containment {
    /// Returns the requested containment; for [`Contain::Auto`], the strongest one available.
    pub(super) fn prepare(asked: Contain) -> Result<Self, String> {
        match asked {
            Contain::Group => Ok(Self::Group),
            Contain::Tree => Ok(Self::Tree),
            Contain::Cgroup => {
                let own = own_cgroup().ok_or("this system has no cgroup v2")?;
                make_cgroup(&own).map(Self::Cgroup).map_err(|error| {
                    format!("cannot create a control group in {}: {error}", own.display())
                })
            }
            Contain::Auto => {
                let delegated = own_cgroup().filter(|own| is_delegated(own));
                let made = delegated.and_then(|own| make_cgroup(&own).ok());
                Ok(made.map_or(Self::Tree, Self::Cgroup))
            }
        }
    }

    /// Returns whether processes that lose their parent have to be adopted.
    pub(super) fn adopts(&self) -> bool {
        *self != Self::Group
    }

    /// Returns the directory of the control group in which the command starts.
    pub(super) fn cgroup(&self) -> Option<&Path> {
        match self {
            Self::Cgroup(folder) => Some(folder),
            Self::Group | Self::Tree => None,
        }
    }

    /// Signals all processes below `root`, but not `root` itself.
    pub(super) fn signal(&self, root: Pid, group: Pid, signal: Signal) {
        let _ = kill_process_group(group, signal);
        if self.adopts() {
            for pid in below(root).into_iter().filter(|pid| *pid != group) {
                let _ = kill_process(pid, signal);
            }
        }
    }

    /// Kills all processes below `root`. Returns when no process is left that can be killed.
    pub(super) fn kill(&self, root: Pid, group: Pid) {
        let _ = kill_process_group(group, Signal::KILL);
        if let Some(folder) = self.cgroup() {
            let _ = std::fs::write(folder.join("cgroup.kill"), "1");
        }
        if self.adopts() {
            kill_tree(root);
        }
    }

    /// Ends the containment. Processes that are still running move to the parent control group.
    pub(super) fn dissolve(&self) {
        let Some(folder) = self.cgroup() else { return };
        if let Some(parent) = folder.parent() {
            let left = std::fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
            for pid in left.lines() {
                let _ = std::fs::write(parent.join("cgroup.procs"), pid);
            }
        }
        let _ = std::fs::remove_dir(folder);
    }
}

impl fmt::Display for Containment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Group => f.write_str("process group"),
            Self::Tree => f.write_str("process tree"),
            Self::Cgroup(folder) => write!(f, "control group {}", folder.display()),
        }
    }
}

/// Kills all processes below `root`. A stopped process cannot start others, so this stops all of them, repeats until no
/// new process appears, and then kills them.
fn kill_tree(root: Pid) {
    let began = Instant::now();
    loop {
        let mut stopped = below(root);
        if stopped.is_empty() || began.elapsed() > KILLING_MAX {
            return;
        }
        let mut new = stopped.clone();
        while !new.is_empty() {
            for pid in &new {
                let _ = kill_process(*pid, Signal::STOP);
            }
            new = below(root).into_iter().filter(|pid| !stopped.contains(pid)).collect();
            stopped.extend(&new);
        }
        for pid in stopped {
            let _ = kill_process(pid, Signal::KILL);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Returns all live processes below `root`.
fn below(root: Pid) -> Vec<Pid> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let mut dead = Vec::new();
    for pid in pids {
        let Some((state, parent)) = state_and_parent(pid) else { continue };
        children.entry(parent).or_default().push(pid);
        if matches!(state, 'Z' | 'X') {
            dead.push(pid);
        }
    }
    let mut found = Vec::new();
    let mut next = vec![root.as_raw_nonzero().get()];
    while let Some(pid) = next.pop() {
        let of_this = children.remove(&pid).unwrap_or_default();
        found.extend(of_this.iter().copied().filter(|pid| !dead.contains(pid)));
        next.extend(of_this);
    }
    found.into_iter().filter_map(Pid::from_raw).collect()
}

/// Returns the state and the parent's process id from `/proc/PID/stat`. Parses after the last `)`, because the process
/// name can contain any character.
fn state_and_parent(pid: i32) -> Option<(char, i32)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.next()?.parse().ok()?))
}

/// Returns the directory of our own control group.
fn own_cgroup() -> Option<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    let is_cgroup = |line: &&str| line.split(' ').nth(2) == Some("cgroup2");
    let mount = mounts.lines().find(is_cgroup)?.split(' ').nth(1)?;
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(Path::new(mount).join(own))
}

/// Returns whether the control group is delegated to us: the `user.delegate` attribute is set, or we own the directory
/// and are not root.
fn is_delegated(folder: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let mut value = [0; 8];
    let says_so = rustix::fs::getxattr(folder, "user.delegate", &mut value[..])
        .is_ok_and(|n| value.starts_with(b"1") && n > 0);
    let is_ours = || std::fs::metadata(folder).is_ok_and(|it| it.uid() == getuid().as_raw());
    says_so || !getuid().is_root() && is_ours()
}

fn make_cgroup(own: &Path) -> std::io::Result<PathBuf> {
    let folder = own.join(format!("leasehold-run-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    // Linux before 5.14 cannot kill a control group as a whole.
    let can_kill = std::fs::metadata(folder.join("cgroup.kill")).map(drop);
    can_kill.inspect_err(|_| drop(std::fs::remove_dir(&folder)))?;
    Ok(folder)
}
