//! Tests of several keys in one command, as the Node.js library redlock sends them: all are locked, or none.

use crate::doors::redis::Scene;

const LOCK: &str = "e5a322e2634ef59a516e8ea150cb085afafee684";
const EXTEND: &str = "ce46f80993d5dac20dd066eb301a4e37994bdbed";
const UNLOCK: &str = "0f0f23b9048b36752b5be114f357ba083449f908";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_keys_are_taken_extended_and_deleted_together() {
    let scene = Scene::new().await;
    let mut client = scene.connect().await;
    client
        .check(&format!(
            r#"
            EVALSHA {LOCK} 2 a b me 1000 => 2
            EVALSHA {LOCK} 2 b c you 1000 => 0
            GET c => nil
            EVALSHA {LOCK} 1 c you 1000 => 1
            EVALSHA {EXTEND} 2 a b me 5000 => 2
            PTTL b => 5000
            EVALSHA {EXTEND} 2 a c me 9000 => 0
            PTTL a => 5000
            EVALSHA {EXTEND} 1 c you 9000 => 1
            EVALSHA {UNLOCK} 3 a b c me => 2
            EXISTS a b => 0
            GET c => "you"
            EVALSHA {UNLOCK} 1 c you => 1
            EVALSHA {UNLOCK} 1 c you => 0
            EVALSHA {LOCK} 2 a a me 1000 => -ERR a key is named twice in the command
            "#
        ))
        .await;
}
