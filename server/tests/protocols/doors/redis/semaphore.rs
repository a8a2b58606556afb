//! Tests of the semaphores of the library redis-semaphore, which have a limited number of holders.

use crate::doors::redis::Scene;

const JOIN: &str = "43ebdb49120d170e08af560cb4e46e36f8585936";
const STAY: &str = "999a49a1d07671a8027165641001f5bad44608b3";
const JOIN_MANY: &str = "10c1c2e05e7c48aa5824d227b8c51abcde87b18e";
const STAY_MANY: &str = "2327bcdc5edb5b8687f6d19b5e1f42b815ebddab";
const LEAVE_MANY: &str = "0bd1010c98f1ddd70a6024fd374489a8ea3d2c12";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_many_are_in_at_once() {
    let scene = Scene::new().await;
    let mut client = scene.connect().await;
    client
        .check(&format!(
            r#"
            EVALSHA {JOIN} 1 s 2 a 1000 0 => 1
            EVALSHA {JOIN} 1 s 2 b 1000 0 => 1
            EVALSHA {JOIN} 1 s 2 c 1000 0 => 0
            EVALSHA {JOIN} 1 s 2 a 1000 0 => 1
            EVALSHA {STAY} 1 s 2 a 3000 0 => 1
            EVALSHA {STAY} 1 s 2 c 3000 0 => 0
            EXISTS s => 1
            PTTL s => 3000
            GET s => -WRONGTYPE ...
            ZREM s b => 1
            ZREM s b => 0
            EVALSHA {JOIN} 1 s 2 c 1000 0 => 1
            EVALSHA {JOIN} 1 s 3 d 1000 0 => -ERR the holders of this semaphore agreed on 2; all must use the same limit
            EVALSHA {JOIN} 1 s x d 1000 0 => -ERR the limit is not a positive number
            PEXPIRE s 5 => -ERR each holder of a semaphore renews its own place
            ZREM s a c d => 2
            EXISTS s => 0
            "#
        ))
        .await;
    // The client's clock does not matter; the server's clock decides.
    client.check(&format!("EVALSHA {JOIN} 1 s 1 a 1000 99999999999999 => 1")).await;
    client.check(&format!("EVALSHA {JOIN} 1 s 1 b 1000 0 => 0")).await;
    scene.local.advance_ms(1000);
    client
        .check(&format!("EVALSHA {JOIN} 1 s 1 b 1000 0 => 1\nEVALSHA {STAY} 1 s 1 a 9 0 => 0"))
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_places_are_taken_together_or_none() {
    let scene = Scene::new().await;
    let mut client = scene.connect().await;
    client
        .check(&format!(
            r#"
            EVALSHA {JOIN_MANY} 1 s 5 3 a 1000 0 => 1
            EVALSHA {STAY_MANY} 1 s 5 3 a 3000 0 => 1
            PTTL s => 3000
            EVALSHA {STAY_MANY} 1 s 5 3 b 3000 0 => 0
            EVALSHA {JOIN_MANY} 1 s 5 6 b 1000 0 => 0
            EVALSHA {JOIN_MANY} 1 s 5 3 b 1000 0 => 0
            "#
        ))
        .await;
    // The server first grants some of the three permits and releases them soon afterwards.
    let free = async |_: &leasehold_testkit::Client| {
        let mut client = scene.connect().await;
        client.ask(&format!("EVALSHA {JOIN_MANY} 1 s 5 2 c 1000 0")).await == "1"
    };
    scene.local.until("two places are free", free).await;
    client
        .check(&format!(
            r#"
            EVALSHA {JOIN} 1 s 5 d 1000 0 => 0
            EVALSHA {LEAVE_MANY} 1 s 3 a => 3
            EVALSHA {LEAVE_MANY} 1 s 3 a => 0
            EVALSHA {STAY_MANY} 1 s 5 3 a 1000 0 => 0
            EVALSHA {JOIN} 1 s 5 d 1000 0 => 1
            EVALSHA {JOIN_MANY} 1 s 5 0 e 1000 0 => -ERR the number of permits is not a positive number
            EVALSHA {JOIN_MANY} 1 s 500 99 e 1000 0 => -ERR the number of keys must be from 1 to 64 (group-max)
            "#
        ))
        .await;
}
