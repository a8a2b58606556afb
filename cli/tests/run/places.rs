//! The places where `run` is started: in a container as its first process, by cron, under nohup.

use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::{BINARY, Running, World};

/// Returns the only child of a process.
fn child_of(parent: i32) -> Option<i32> {
    let entries = std::fs::read_dir("/proc").ok()?.flatten();
    let mut pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.find(|pid| crate::parent(*pid) == Some(parent))
}

#[test]
fn as_the_first_process_of_a_container_it_ends_with_a_status_instead_of_a_signal() {
    let world = World::new();
    let run = world.leasehold_run(&["a", "sh", "-c", "touch ready; exec sleep 1000"]);
    let mut unshare = Command::new("unshare");
    unshare.args(["--pid", "--fork", "--mount-proc"]).arg(BINARY).args(run.get_args());
    unshare.env("LEASEHOLD_URL", format!("http://{}", world.server.address));
    unshare.current_dir(world.folder.path()).stdin(Stdio::null());
    let unshare = Running { child: unshare.spawn().expect("unshare, of util-linux") };
    world.until("it is ready", || world.file("ready").exists());
    let first = child_of(unshare.pid().as_raw_nonzero().get()).and_then(Pid::from_raw).unwrap();
    kill_process(first, Signal::TERM).unwrap();
    assert_eq!(unshare.code(), Some(143));
    assert_eq!(world.ran(&["-n", "a", "true"]).0, 0, "the lock was released");
}

#[test]
fn without_proc_it_says_what_is_missing_and_gives_the_lock_back() {
    let world = World::new();
    let mut unshare = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        unshare.args(["--user", "--map-root-user"]);
    }
    let script = "mount -t tmpfs none /proc && exec \"$0\" run a true";
    unshare.args(["--mount", "sh", "-c", script, BINARY]);
    unshare.env("LEASEHOLD_URL", format!("http://{}", world.server.address));
    let output = unshare.output().unwrap();
    assert_eq!(output.status.code(), Some(71), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("is /proc mounted?"), "{said}");
    assert_eq!(world.ran(&["-n", "a", "true"]).0, 0);
}

#[test]
fn in_the_bare_environment_of_cron_it_works_and_says_nothing() {
    let world = World::new();
    let url = format!("http://{}", world.server.address);
    let words = ["run", "--url", &url, "--skip-if-busy", "a", "-c", "echo $LEASEHOLD_LOCK > said"];
    let mut cron = Command::new("setsid");
    cron.arg("-w").arg(BINARY).args(words).env_clear().stdin(Stdio::null());
    cron.envs([("PATH", "/usr/bin:/bin"), ("HOME", "/"), ("SHELL", "/bin/sh")]);
    let output = cron.current_dir(world.folder.path()).output().unwrap();
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
    assert_eq!(world.text("said"), "a\n");
}

#[test]
fn standard_files_are_the_commands() {
    let world = World::new();
    let mut run = world.leasehold_run(&["a", "sh", "-c", "tr a-z A-Z; echo done >&2"]);
    let run = run.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut run = run.unwrap();
    std::io::Write::write_all(&mut run.stdin.take().unwrap(), b"in and out").unwrap();
    let output = run.wait_with_output().unwrap();
    assert_eq!((&output.stdout[..], &output.stderr[..]), (&b"IN AND OUT"[..], &b"done\n"[..]));
}
