//! Checks that the Rust SDK conforms.

use leasehold_conformance::report::table;
use leasehold_conformance::run::run;
use leasehold_conformance::script::{SCRIPTS, names};

use crate::{TURN, setup};

#[tokio::test(flavor = "multi_thread")]
async fn the_rust_sdk_conforms() {
    let _turn = TURN.lock().await;
    let report = run(&setup(env!("CARGO_BIN_EXE_rust-driver")), SCRIPTS, 8).await;
    assert!(report.is_good(), "{}\n{}", report.failures(), table(std::slice::from_ref(&report)));
    assert_eq!(report.count("ok"), SCRIPTS.len(), "{}", table(std::slice::from_ref(&report)));
}

#[test]
fn the_protocol_names_the_scripts_in_their_order() {
    let page = include_str!("../../../sdks/conformance/PROTOCOL.md");
    let (_, scripts) = page.split_once("## What the scripts demand").unwrap();
    let named: Vec<_> = scripts
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .filter_map(|line| line.split('`').next())
        .collect();
    assert_eq!(named, names().collect::<Vec<_>>());
}
