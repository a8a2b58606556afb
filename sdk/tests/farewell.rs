//! Guards that are dropped where no runtime is left to release them.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::time::{Duration, Instant};

use leasehold::Client;
use leasehold_testkit::Local;
use tokio::runtime::{Builder, Runtime};

/// Enough guards to show whether each of them blocks.
const N_GUARDS: u64 = 40;

/// Starts a server with a separate runtime, so that the runtime of the client can end.
fn server() -> (Runtime, Local, String) {
    let runtime = Runtime::new().unwrap();
    let local = runtime.block_on(Local::ephemeral());
    let url = format!("http://{}", local.address);
    (runtime, local, url)
}

fn is_held(runtime: &Runtime, local: &Local, lock: &str) -> bool {
    let state = runtime.block_on(local.client.get(&format!("/v1/locks/{lock}")));
    state.get("held") == true
}

#[test]
fn a_guard_dropped_at_the_end_of_main_releases_its_lock() {
    let (runtime, local, url) = server();
    for mut builder in [Builder::new_current_thread(), Builder::new_multi_thread()] {
        // As with `#[tokio::main]`: the guard is dropped within the runtime, and then the runtime is dropped.
        let mains = builder.enable_all().build().unwrap();
        mains.block_on(async {
            let client = Client::new(&url).unwrap();
            let _guard = client.lock("orders").acquire().await.unwrap();
            assert!(local.client.get("/v1/locks/orders").await.get("held") == true);
        });
        drop(mains);
        assert!(!is_held(&runtime, &local, "orders"));
    }
}

#[test]
fn a_guard_and_a_session_dropped_without_a_runtime_are_released() {
    let (runtime, local, url) = server();
    let mains = Runtime::new().unwrap();
    let client = Client::new(&url).unwrap();
    let guard = mains.block_on(client.lock("orders").acquire()).unwrap();
    let session = mains.block_on(client.session().open()).unwrap();
    let of_session = mains.block_on(session.lock("stock").acquire()).unwrap();
    std::mem::forget(of_session);
    drop(mains);
    assert!(is_held(&runtime, &local, "orders") && is_held(&runtime, &local, "stock"));
    drop(guard);
    drop(session);
    assert!(!is_held(&runtime, &local, "orders"));
    assert!(!is_held(&runtime, &local, "stock"));
}

#[test]
fn a_drop_does_not_block_for_long_and_the_next_ones_not_at_all() {
    let (runtime, local, url) = server();
    let mains = Runtime::new().unwrap();
    let client = Client::new(&url).unwrap();
    let guards: Vec<_> = (0..N_GUARDS)
        .map(|n| mains.block_on(client.lock(format!("lock-{n}")).acquire()).unwrap())
        .collect();
    let address = local.address;
    runtime.block_on(local.stop());
    // From now on, connections get no response.
    let _silent = std::net::TcpListener::bind(address).unwrap();
    drop(mains);
    let began = Instant::now();
    drop(guards);
    let blocked = began.elapsed();
    // One guard blocks for up to a second. If each of them did, it would take twice this long.
    assert!(blocked < Duration::from_secs(N_GUARDS / 2), "{blocked:?}");
}
