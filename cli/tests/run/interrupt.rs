//! Ctrl-C as a shell expects it: in scripts, loops and pipes, beside `flock`, which has always had it.

use leasehold_testkit::Terminal;

use crate::terminal::open;
use crate::{BINARY, World};

/// A way to run a command under a lock.
struct Tool {
    name: &'static str,
    /// What comes before the command.
    line: String,
}

fn tools(world: &World) -> [Tool; 2] {
    let file = world.file("flock");
    [
        Tool { name: "flock", line: format!("flock {}", file.display()) },
        Tool { name: "leasehold", line: format!("{BINARY} run a") },
    ]
}

/// Writes a script that any shell can run.
fn script(world: &World, name: &str, text: &str) -> String {
    let file = world.file(name);
    std::fs::write(&file, text).unwrap();
    file.display().to_string()
}

/// Waits for the command to say that it runs, and presses the keys.
fn press(screen: &Terminal, said: &str, keys: &str) {
    screen.shows(said);
    screen.keys(&[keys]);
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
            screen.enter(&format!("clear; {shell} {file}; echo status=$?"));
            press(&screen, "runs\n", "C-c");
            screen.shows("status=130");
            assert_eq!(world.text(&log), "", "{name} in {shell}");
        }
    }
}

#[test]
fn an_interrupt_ends_the_script_while_it_waits_for_the_lock() {
    let world = World::new();
    let _holder = world.run(&["a"], "touch held; sleep 1000");
    world.until("it is held", || world.file("held").exists());
    let screen = open(&world);
    for shell in ["bash", "dash"] {
        let text = format!("echo runs\n{BINARY} run a true\necho next step >> log-{shell}\n");
        let file = script(&world, &format!("script-{shell}"), &text);
        screen.enter(&format!("clear; {shell} {file}; echo status=$?"));
        screen.shows("runs\n");
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(crate::queue::wait_for_queue(&world, 1));
        screen.keys(&["C-c"]);
        screen.shows("status=130");
        assert_eq!(world.text(&format!("log-{shell}")), "", "{shell}");
        runtime.block_on(crate::queue::wait_for_queue(&world, 0));
    }
}

#[test]
fn an_interrupt_ends_a_loop_at_once() {
    let world = World::new();
    let screen = open(&world);
    for Tool { name, line } in tools(&world) {
        let body =
            format!("{line} sh -c \"echo turn >> turns-{name}; echo runs; exec sleep 1000\"");
        screen.enter(&format!("clear; for n in 1 2 3; do {body}; done; echo status=$?"));
        press(&screen, "runs\n", "C-c");
        screen.shows("\nready>");
        assert_eq!(world.text(&format!("turns-{name}")), "turn\n", "{name}, at the prompt");
        let text = format!("while :; do {body}; done\n");
        let file = script(&world, &format!("loop-{name}"), &text);
        screen.enter(&format!("clear; bash {file}; echo status=$?"));
        press(&screen, "runs\n", "C-c");
        screen.shows("status=130");
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
        screen.enter(&format!("clear; bash {file}; echo status=$?"));
        press(&screen, "runs\n", "C-c");
        screen.shows("status=130");
        assert_eq!(world.text(&format!("next-{name}")), "", "{name}");
    }
}

#[test]
fn a_quit_ends_the_script_and_leaves_no_core_of_ours() {
    let world = World::new();
    let screen = open(&world);
    let text = format!("{BINARY} run a sh -c 'echo runs; exec sleep 1000'\necho next >> log\n");
    let file = script(&world, "script", &text);
    screen.enter(&format!("clear; bash {file}; echo status=$?"));
    press(&screen, "runs\n", "C-\\\\");
    screen.shows("status=131");
    assert_eq!(world.text("log"), "");
    screen.enter(&format!("{BINARY} run a -n echo it is free"));
    screen.shows("it is free\n");
}

/// As without us: what the command makes of Ctrl-C is its own business.
#[test]
fn a_command_that_takes_the_interrupt_decides_how_it_goes_on() {
    let world = World::new();
    let screen = open(&world);
    let command =
        "sh -c 'trap \"echo asked; exit 7\" INT; echo runs; while :; do sleep 0.01; done'";
    let text = format!("{BINARY} run a {command}\necho then=$?\n");
    let file = script(&world, "script", &text);
    screen.enter(&format!("clear; bash {file}"));
    press(&screen, "runs\n", "C-c");
    screen.shows("then=7");
}

#[test]
fn a_terminal_that_is_closed_ends_the_command_and_the_script() {
    let world = World::new();
    let screen = open(&world);
    let command = "sh -c 'echo $$ > pid; echo runs; exec sleep 1000'";
    let text = format!("echo $$ > script-pid\n{BINARY} run a {command}\necho next >> log\n");
    let file = script(&world, "script", &text);
    screen.enter(&format!("clear; bash {file}"));
    screen.shows("runs\n");
    let pids = ["pid", "script-pid"].map(|file| world.text(file).trim().parse().unwrap());
    drop(screen);
    world.until("all are gone", || !pids.into_iter().any(crate::is_alive));
    assert_eq!(world.text("log"), "");
    let free = world.run(&["a", "-w", "5"], "true");
    assert_eq!(free.code(), Some(0), "the lock was given back");
}
