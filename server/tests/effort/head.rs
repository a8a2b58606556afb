//! Tests of the cost of headers and of the console's parameters.

use leasehold_testkit::Bare;

use super::alone;
use super::field::{Field, HEAD, check_all, get, joined, x};

const HEADS: &[Field] = &[
    (
        "authorization",
        |n| format!("{}\nauthorization: Bearer {}", get("/v1/locks"), x(n)),
        HEAD,
        &[],
    ),
    (
        "basic",
        |n| format!("{}\nauthorization: Basic {}", get("/dav/"), "YWFh".repeat(n)),
        HEAD / 4,
        &[],
    ),
    ("cookie", |n| format!("{}\ncookie: {}", get("/v1/locks"), "a=b; ".repeat(n)), HEAD / 5, &[]),
    (
        "forwarded",
        |n| format!("{}\nx-forwarded-for: {}", get("/v1/locks"), joined(n, |_| "10.0.0.1".into())),
        HEAD / 9,
        &[],
    ),
    (
        "forwarded by",
        |n| format!("{}\nforwarded: {}", get("/v1/locks"), joined(n, |_| "for=10.0.0.1".into())),
        HEAD / 13,
        &[],
    ),
    (
        "accept",
        |n| format!("{}\naccept: {}", get("/"), joined(n, |_| "a/b;q=0.5".into())),
        HEAD / 10,
        &[],
    ),
    (
        "accept for metrics",
        |n| format!("{}\naccept: {}", get("/metrics"), joined(n, |_| "a/b;q=0.5".into())),
        HEAD / 10,
        &[],
    ),
    ("traceparent", |n| format!("{}\ntraceparent: {}", get("/v1/locks"), x(n)), HEAD, &[]),
    ("x-request-id", |n| format!("{}\nx-request-id: {}", get("/v1/locks"), x(n)), HEAD, &[]),
    ("host", |n| format!("GET /v1/locks\nhost: {}", x(n)), 1, &[300, HEAD]),
    ("origin", |n| format!("{}\norigin: http://{}", get("/v1/locks"), x(n)), 0, &[300, HEAD]),
    ("slashes", |n| get(&"/".repeat(n)), 2, &[]),
    ("many slashes", |n| get(&("/".repeat(n) + "v1/locks")), HEAD, &[]),
    (
        "other headers",
        |n| get("/v1/locks") + &(0..n).map(|n| format!("\nx-{n}: y")).collect::<String>(),
        5_000,
        &[],
    ),
    ("console search", |n| get(&format!("/console?q={}", x(n))), 200, &[201, HEAD]),
    ("console lock", |n| get(&format!("/console/lock?namespace=default&name={}", x(n))), 512, &[]),
    ("console cursor", |n| get(&format!("/console?after={}", "61".repeat(n))), 512, &[]),
];

#[test]
fn heads() {
    let _alone = alone();
    let server = Bare::new();
    check_all(&server, HEADS);
}
