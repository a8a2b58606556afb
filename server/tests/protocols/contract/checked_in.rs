//! Checks the copy of the OpenAPI document in `docs/`.

use std::path::Path;

use leasehold_server::dialect;

use crate::contract::server_of;

/// `UPDATE_OPENAPI=1` rewrites the copy. Review the difference like code.
#[tokio::test]
async fn the_contract_checked_in_is_the_one_served() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/openapi.json");
    let (_, contract) = server_of(dialect::ALL).await;
    let served = serde_json::to_string_pretty(&contract).expect("JSON") + "\n";
    if std::env::var_os("UPDATE_OPENAPI").is_some() {
        std::fs::write(&file, &served).expect("docs/openapi.json can be written");
    }
    let checked_in = std::fs::read_to_string(&file).expect("docs/openapi.json");
    assert!(
        checked_in == served,
        "docs/openapi.json is not what the server shows; if that is meant: \
         UPDATE_OPENAPI=1 cargo test -p leasehold-server --test protocols contract"
    );
}
