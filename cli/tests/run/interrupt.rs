//! Ctrl-C as a shell expects it, in scripts, loops and pipes. `flock` serves as the reference: it handles this
//! correctly.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use leasehold_testkit::Terminal;

use crate::terminal::open;
use crate::{QUOTED, World};

/// A way to run a command under a lock.
struct Tool {
    name: &'static str,
    /// The words before the command.
    line: String,
}

fn tools(world: &World) -> [Tool; 2] {
    let file = world.file("flock");
    [
        Tool { name: "flock", line: format!("flock {}", file.display()) },
        Tool { name: "leasehold", line: format!("{QUOTED} run a") },
    ]
}

/// Writes a script that any shell can run.
fn script(world: &World, name: &str, text: &str) -> String {
    let file = world.file(name);
    std::fs::write(&file, text).unwrap();
    file.display().to_string()
}

/// Runs the line, waits until the command prints that it runs, presses the keys and waits for the prompt.
fn interrupt(screen: &Terminal, line: &str, keys: &str) {
    clear(screen);
    screen.enter(line);
    screen.shows("\nruns\n");
    screen.keys(&[keys]);
    prompts(screen);
}

/// Clears the screen, so that earlier output is not mistaken for new output.
fn clear(screen: &Terminal) {
    // A new number each time, because the screen might still show the output of an earlier call.
    static N: AtomicUsize = AtomicUsize::new(0);
    let cleared = format!("cleared-{}", N.fetch_add(1, Relaxed));
    screen.enter(&format!("clear; echo {cleared}"));
    screen.until("a clear screen", |shown| shown.starts_with(&format!("{cleared}\n")));
}

/// Waits until the shell shows its prompt.
fn prompts(screen: &Terminal) {
    screen.until("the prompt", |shown| shown.trim_end().ends_with("ready>"));
}

/// Checks the exit status of the last command. After an interrupt, a shell does not continue with the rest of the line.
fn ended_with(screen: &Terminal, status: u8) {
    screen.enter("echo status=$?");
    screen.shows(&format!("\nstatus={status}"));
}

#[test]
fn an_interrupt_ends_the_script_whatever_its_shell() {
    let world = World::new();
    let screen = open(&world);
    for Tool { name, line } in tools(&world) {
        for (shell, first) in
            [("bash", ""), ("dash", ""), ("bash", "set -e\n"), ("dash", "set -e\n")]
        {
            let log = format!("log-{name}-{shell}-{}", first.len());
            let text = format!(
                "{first}{line} sh -c 'echo runs; exec sleep 1000'\necho next step >> {log}\n"
            );
            let file = script(&world, &log.replace("log", "script"), &text);
            interrupt(&screen, &format!("{shell} {file}"), "C-c");
            ended_with(&screen, 130);
            assert_eq!(world.text(&log), "", "{name} in {shell}");
        }
    }
}

#[test]
fn an_interrupt_ends_the_script_while_it_waits_for_the_lock() {
    let world = World::new();
    let screen = open(&world);
    for shell in ["bash", "dash"] {
        let held = format!("held-{shell}");
        let _holder = world.run(&[shell, "--owner", "ann"], &format!("touch {held}; sleep 1000"));
        world.until("it is held", || world.file(&held).exists());
        let text = format!("{QUOTED} run {shell} true\necho next step >> log-{shell}\n");
        let file = script(&world, &format!("script-{shell}"), &text);
        clear(&screen);
        screen.enter(&format!("{shell} {file}"));
        screen.shows(&format!("waiting for {shell}: held by ann"));
        screen.keys(&["C-c"]);
        prompts(&screen);
        ended_with(&screen, 130);
        assert_eq!(world.text(&format!("log-{shell}")), "", "{shell}");
    }
}

#[test]
fn an_interrupt_ends_a_loop_at_once() {
    let world = World::new();
    let screen = open(&world);
    for Tool { name, line } in tools(&world) {
        let body =
            format!("{line} sh -c \"echo turn >> turns-{name}; echo runs; exec sleep 1000\"");
        interrupt(&screen, &format!("for n in 1 2 3; do {body}; done"), "C-c");
        ended_with(&screen, 130);
        assert_eq!(world.text(&format!("turns-{name}")), "turn\n", "{name}, at the prompt");
        let text = format!("while :; do {body}; done\n");
        let file = script(&world, &format!("loop-{name}"), &text);
        interrupt(&screen, &format!("bash {file}"), "C-c");
        ended_with(&screen, 130);
        assert_eq!(world.text(&format!("turns-{name}")), "turn\nturn\n", "{name}, in a script");
    }
}

#[test]
fn an_interrupt_in_a_pipe_ends_all_of_it() {
    let world = World::new();
    let screen = open(&world);
    for Tool { name, line } in tools(&world) {
        let body = format!("{line} sh -c 'echo runs; exec sleep 1000' | tee log-{name}\n");
        let file =
            script(&world, &format!("pipe-{name}"), &format!("{body}echo next >> next-{name}\n"));
        interrupt(&screen, &format!("bash {file}"), "C-c");
        ended_with(&screen, 130);
        assert_eq!(world.text(&format!("next-{name}")), "", "{name}");
    }
}

#[test]
fn a_quit_ends_the_script_and_leaves_no_core_of_ours() {
    let world = World::new();
    let screen = open(&world);
    let text = format!("{QUOTED} run a sh -c 'echo runs; exec sleep 1000'\necho next >> log\n");
    let file = script(&world, "script", &text);
    // bash ignores SIGQUIT, so only dash is tested.
    interrupt(&screen, &format!("dash {file}"), "C-\\");
    ended_with(&screen, 131);
    assert_eq!(world.text("log"), "");
    // Quoted, so that the typed line is not taken for the output.
    screen.enter(&format!("{QUOTED} run a -n echo it is 'free'"));
    screen.shows("it is free\n");
}

/// As without `run`, the command decides how it handles Ctrl-C.
#[test]
fn a_command_that_takes_the_interrupt_decides_how_it_goes_on() {
    let world = World::new();
    let screen = open(&world);
    let command =
        "sh -c 'trap \"echo asked; exit 7\" INT; echo runs; while :; do sleep 0.01; done'";
    let text = format!("{QUOTED} run a {command}\necho then=$?\n");
    let file = script(&world, "script", &text);
    interrupt(&screen, &format!("bash {file}"), "C-c");
    screen.shows("then=7");
}

#[test]
fn a_terminal_that_is_closed_ends_the_command_and_the_script() {
    let world = World::new();
    let screen = open(&world);
    let command = "sh -c 'echo $$ > pid; echo runs; exec sleep 1000'";
    let text = format!("echo $$ > script-pid\n{QUOTED} run a {command}\necho next >> log\n");
    let file = script(&world, "script", &text);
    screen.enter(&format!("bash {file}"));
    screen.shows("\nruns\n");
    let pids = ["pid", "script-pid"].map(|file| world.text(file).trim().parse().unwrap());
    drop(screen);
    world.until("all are gone", || !pids.into_iter().any(crate::is_alive));
    assert_eq!(world.text("log"), "");
    let free = world.run(&["a", "-w", "60"], "true");
    assert_eq!(free.code(), Some(0), "the lock was released");
}
