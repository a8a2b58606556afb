//! Several `run` processes with the same lock.

use leasehold_testkit::json;

use crate::World;

#[tokio::test]
async fn runs_hand_over_in_the_order_they_came() {
    let world = World::new();
    let script = "echo begin $NAME >> log; while [ ! -e go-$NAME ]; do sleep 0.01; done; echo end $NAME >> log";
    let start = |name: &str| world.run(&["a"], &format!("NAME={name}; {script}"));
    let mut runs = vec![start("0")];
    world.until_text("log", "begin 0");
    for n in 1..4 {
        runs.push(start(&n.to_string()));
        wait_for_queue(&world, n).await;
    }
    for (n, run) in runs.into_iter().enumerate() {
        world.until_text("log", &format!("begin {n}"));
        std::fs::write(world.file(&format!("go-{n}")), "").unwrap();
        assert_eq!(run.code(), Some(0));
    }
    let order: Vec<_> = (0..4).flat_map(|n| [format!("begin {n}"), format!("end {n}")]).collect();
    assert_eq!(world.text("log").lines().collect::<Vec<_>>(), order);
}

pub(crate) async fn wait_for_queue(world: &World, n: u64) {
    for _ in 0..24_000 {
        let state = world.server.client.get("/v1/locks/a").await;
        if state.get("n_waiting").as_u64() == Some(n) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("no client came to wait");
}

#[test]
fn a_run_that_does_not_get_the_lock_reports_it_by_its_status() {
    let world = World::new();
    let holder = world.run(&["a"], "touch held; while [ ! -e go ]; do sleep 0.01; done");
    world.until("it is held", || world.file("held").exists());
    let touch = "touch wrong";
    assert_eq!(world.run(&["a", "-n"], touch).code(), Some(1));
    assert_eq!(world.run(&["a", "-n", "-E", "9"], touch).code(), Some(9));
    assert_eq!(world.run(&["a", "-w", "0.2"], touch).code(), Some(1));
    assert_eq!(world.run(&["a", "-s", "-n"], touch).code(), Some(1));
    assert_eq!(world.run(&["b", "-n"], "true").code(), Some(0), "another lock is free");
    assert_eq!(world.run(&["a", "-n", "--namespace=other"], "true").code(), Some(0));
    std::fs::write(world.file("go"), "").unwrap();
    assert_eq!(holder.code(), Some(0));
    assert!(!world.file("wrong").exists());
}

#[test]
fn shared_and_counted_runs_go_side_by_side() {
    let world = World::new();
    for (lock, flags) in [("table", vec!["-s"]), ("pool", vec!["--limit", "2"])] {
        let flags: Vec<_> = [lock, "-n"].into_iter().chain(flags).collect();
        let script = format!("echo here >> {lock}; while [ ! -e go ]; do sleep 0.01; done");
        let both = [(); 2].map(|()| world.run(&flags, &script));
        world.until("both are there", || world.text(lock).lines().count() == 2);
        assert_eq!(world.run(&[lock, "-n"], "true").code(), Some(1));
        std::fs::write(world.file("go"), "").unwrap();
        for run in both {
            assert_eq!(run.code(), Some(0));
        }
        std::fs::remove_file(world.file("go")).unwrap();
    }
}

#[tokio::test]
async fn a_run_whose_wait_is_revoked_does_not_wait_again() {
    let world = World::new();
    let _holder = world.run(&["a"], "touch held; sleep 1000");
    world.until("it is held", || world.file("held").exists());
    let waiting = world.run(&["a", "--owner", "w3"], "touch wrong");
    wait_for_queue(&world, 1).await;
    let revoke = json!({"owner": "w3", "reason": "enough"});
    assert_eq!(world.server.client.post("/v1/revoke", revoke).await.unwrap().status, 200);
    assert_eq!(waiting.code(), Some(1));
    assert!(!world.file("wrong").exists());
}

#[tokio::test]
async fn a_run_that_is_interrupted_while_it_waits_leaves_the_queue() {
    let world = World::new();
    let _holder = world.run(&["a"], "touch held; sleep 1000");
    world.until("it is held", || world.file("held").exists());
    let waiting = world.run(&["a"], "touch wrong");
    wait_for_queue(&world, 1).await;
    waiting.signal(rustix::process::Signal::INT);
    assert_eq!(waiting.code(), Some(130));
    let state = world.server.client.get("/v1/locks/a").await;
    assert_eq!(state.get("n_waiting").as_u64().unwrap_or(0), 0, "it left at once: {state:?}");
}
