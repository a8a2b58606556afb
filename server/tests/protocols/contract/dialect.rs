//! Tests that a disabled dialect has no routes and is missing from the contract.

use leasehold_server::dialect::{self, Dialect};

use crate::contract::{allowed, operations, server_of};

#[tokio::test]
async fn a_dialect_is_there_and_in_the_contract_or_neither() {
    let (_, whole) = server_of(dialect::ALL).await;
    for off in dialect::ALL.iter().copied() {
        let on: Vec<_> = dialect::ALL.iter().copied().filter(|dialect| *dialect != off).collect();
        check(&on, &whole).await;
        check(&[off], &whole).await;
    }
    check(&[], &whole).await;
}

/// Checks that a server with these dialects serves exactly those parts of the whole contract that belong to them or to
/// no dialect.
async fn check(on: &[Dialect], whole: &leasehold_testkit::Value) {
    let (local, contract) = server_of(on).await;
    let is_on = |tag: &str| tag == "server" || on.iter().any(|dialect| dialect.name() == tag);
    let mut expected = whole.clone();
    for operation in operations(whole) {
        if !is_on(operation.tag()) {
            expected["paths"].as_object_mut().expect("paths").remove(operation.path);
        }
        let is_there = allowed(&local.client, operation.path).await.is_some();
        assert_eq!(is_there, is_on(operation.tag()), "{} with {on:?}", operation.path);
    }
    assert_eq!(contract["paths"], expected["paths"], "with {on:?}");
    let chapters = contract["tags"].as_array().expect("tags").iter();
    let chapters: Vec<_> = chapters.filter_map(|tag| tag["name"].as_str()).collect();
    assert!(chapters.iter().all(|tag| is_on(tag)), "{chapters:?} with {on:?}");
    assert_eq!(chapters.len(), on.len() + 1);
}
