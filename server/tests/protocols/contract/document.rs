//! Tests that the contract is complete and describes the routes that exist.

use std::collections::BTreeSet;

use leasehold_core::Span;
use leasehold_server::dialect;
use leasehold_testkit::{Local, Value, settings};

use crate::contract::{METHODS, allowed, names_in, operations, server_of};

/// The server crate's own tests check that no path is missing, because only they can list the routes.
#[tokio::test]
async fn every_path_knows_exactly_the_methods_of_the_contract() {
    let (local, contract) = server_of(dialect::ALL).await;
    for (path, methods) in contract["paths"].as_object().expect("paths") {
        let methods = methods.as_object().expect("methods");
        let mut told: Vec<_> = methods.keys().cloned().collect();
        assert!(told.iter().all(|method| METHODS.contains(&method.as_str())), "{path}: {told:?}");
        if methods.contains_key("get") {
            told.push("head".into());
        }
        told.sort();
        assert_eq!(allowed(&local.client, path).await, Some(told), "{path}");
    }
}

#[tokio::test]
async fn whatever_it_refers_to_is_there() {
    let (_, contract) = server_of(dialect::ALL).await;
    let ids: Vec<_> =
        operations(&contract).iter().map(|operation| operation.id().to_owned()).collect();
    let unique: BTreeSet<_> = ids.iter().collect();
    assert_eq!(unique.len(), ids.len(), "two operations have one id");
    let mut n_checked = 0;
    walk(&contract, &mut |name, value| {
        let Some(text) = value.as_str() else { return };
        let is_there = match name {
            "$ref" => contract.pointer(text.trim_start_matches('#')).is_some(),
            "operationId" => unique.contains(&text.to_owned()),
            _ => return,
        };
        assert!(is_there, "{text} is not there");
        n_checked += 1;
    });
    assert!(n_checked > 100, "{n_checked}");
}

#[tokio::test]
async fn every_shape_is_referred_to() {
    let (_, contract) = server_of(dialect::ALL).await;
    let mut used = BTreeSet::new();
    walk(&contract, &mut |name, value| {
        if let Some(shape) = value.as_str().filter(|_| name == "$ref") {
            used.insert(shape.rsplit('/').next().unwrap_or_default().to_owned());
        }
    });
    for shape in contract["components"]["schemas"].as_object().expect("schemas").keys() {
        assert!(used.contains(shape), "{shape} is unused");
    }
}

#[tokio::test]
async fn every_operation_says_what_it_takes_and_what_it_answers() {
    let (_, contract) = server_of(dialect::ALL).await;
    for operation in operations(&contract) {
        let (path, is) = (operation.path, operation.is);
        let parameters = is["parameters"].as_array().expect("parameters");
        let in_path = parameters.iter().filter(|parameter| parameter["in"] == "path");
        let told: BTreeSet<_> =
            in_path.filter_map(|parameter| parameter["name"].as_str()).collect();
        assert_eq!(told, names_in(path).into_iter().collect(), "{path}");
        let answers = is["responses"].as_object().expect("responses");
        assert!(answers.keys().any(|status| status.starts_with('2')), "{path} never succeeds");
        for (status, answer) in answers {
            // A 201 response of WebDAV has no body.
            let is_created = path == "/dav/{path}" && status == "201";
            let has_body = !["204", "304"].contains(&status.as_str()) && !is_created;
            assert_eq!(answer.get("content").is_some(), has_body, "{path} {status}");
            assert!(
                !answer["description"].as_str().unwrap_or_default().is_empty(),
                "{path} {status}"
            );
        }
        assert!(!is["summary"].as_str().unwrap_or_default().is_empty(), "{path}");
    }
}

#[tokio::test]
async fn the_bounds_in_it_are_the_ones_the_server_was_told() {
    let mut settings = settings(None);
    settings.engine.limits.ttl_max = Span::from_secs(7);
    settings.engine.limits.name_bytes_max = 9;
    settings.dialect.leases.ttl_seconds_min = 3;
    settings.dialect.leases.namespace_prefix = "tenant/".into();
    let local = Local::start(settings).await;
    let contract = local.client.get("/openapi.json").await.body;
    let member = |shape: &str, member: &str| {
        contract["components"]["schemas"][shape]["properties"][member].clone()
    };
    assert_eq!(member("locks.AcquireRequest", "ttl_ms")["maximum"], 7000);
    assert_eq!(member("leases.AcquireRequest", "lock_key")["maxLength"], 9);
    assert_eq!(member("leases.AcquireRequest", "ttl_seconds")["minimum"], 3);
    assert_eq!(member("leases.AcquireRequest", "tenant_id")["maxLength"], 128 - 7);
    let claim = &contract["paths"]["/v1/claims"]["post"]["requestBody"]["content"];
    assert_eq!(claim["application/json"]["schema"]["properties"]["timeout"]["maximum"], 7.0);
}

fn walk(value: &Value, visit: &mut impl FnMut(&str, &Value)) {
    match value {
        Value::Object(members) => members.iter().for_each(|(name, member)| {
            visit(name, member);
            walk(member, visit);
        }),
        Value::Array(members) => members.iter().for_each(|member| walk(member, visit)),
        _ => {}
    }
}
