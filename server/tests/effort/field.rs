//! Tests of the cost of request fields, at the largest accepted size and at refused sizes. This module covers the
//! native dialect, sticky locks, leases and claims.

use leasehold_testkit::Bare;

use super::{alone, answer};

/// Maximum bytes of a head and of a body that a test sends.
pub(crate) const HEAD: usize = 60_000;
pub(crate) const BODY: usize = 60_000;

/// A request field: its name, a function that builds a request with a field of a given size (in bytes, names or
/// members), the largest accepted size (zero if no size is accepted), and sizes that are refused.
pub(crate) type Field = (&'static str, fn(usize) -> String, usize, &'static [usize]);

pub(crate) fn post(path: &str, body: &str) -> String {
    format!("POST {path}\nhost: a\ncontent-type: application/json\n\n{body}")
}

pub(crate) fn get(path: &str) -> String {
    format!("GET {path}\nhost: a")
}

fn acquire(field: &str) -> String {
    post("/v1/locks/l/acquire", &format!(r#"{{"owner_id":"o","ttl_ms":1000{field}}}"#))
}

pub(crate) fn x(n: usize) -> String {
    "x".repeat(n)
}

pub(crate) fn nested(n: usize) -> String {
    "[".repeat(n) + &"]".repeat(n)
}

/// Returns a path with `n` segments.
pub(crate) fn deep(n: usize) -> String {
    "/a".repeat(n)
}

pub(crate) fn joined(n: usize, piece: impl Fn(usize) -> String) -> String {
    (0..n).map(piece).collect::<Vec<_>>().join(",")
}

#[track_caller]
pub(crate) fn check_all(server: &Bare, fields: &[Field]) {
    let mut wrong = Vec::new();
    for (name, request, accepted, refused) in fields {
        let most = Some(*accepted).filter(|n| *n > 0).map(|n| (n, true));
        for (n, is_good) in most.into_iter().chain(refused.iter().map(|n| (*n, false))) {
            let (status, told) = answer(server, &request(n), &format!("{name}, {n}"));
            let is_refused = [400, 413, 414, 422, 431].contains(&status);
            let is_so = if is_good { !is_refused } else { (400..500).contains(&status) };
            if !is_so {
                let told: String = told.chars().take(300).collect();
                wrong.push(format!("{name}, {n}, should be accepted: {is_good}: {status} {told}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

const NATIVE: &[Field] = &[
    (
        "lock",
        |n| post(&format!("/v1/locks/{}/acquire", x(n)), r#"{"owner_id":"o","ttl_ms":1}"#),
        512,
        &[513, HEAD],
    ),
    ("encoded lock", |n| get(&format!("/v1/locks/{}", "%C3%A9".repeat(n))), 256, &[257, HEAD / 6]),
    ("names in a path", |n| get(&format!("/v1/locks{}", deep(n))), 1, &[2, HEAD / 2]),
    ("namespace", |n| get(&format!("/v1/namespaces/{}/locks", x(n))), 128, &[129, HEAD]),
    (
        "owner_id",
        |n| post("/v1/locks/l/acquire", &format!(r#"{{"owner_id":"{}","ttl_ms":1}}"#, x(n))),
        256,
        &[257, BODY],
    ),
    ("request_id", |n| acquire(&format!(r#","request_id":"{}""#, x(n))), 128, &[129, BODY]),
    ("metadata", |n| acquire(&format!(r#","metadata":"{}""#, x(n - 2))), 16_384, &[16_385, BODY]),
    ("nested metadata", |n| acquire(&format!(r#","metadata":{}"#, nested(n))), 64, &[65, BODY / 2]),
    (
        "wide metadata",
        |n| acquire(&format!(r#","metadata":{{{}}}"#, joined(n, |n| format!(r#""{n}":0"#)))),
        1_800,
        &[6_000],
    ),
    ("digits", |n| acquire(&format!(r#","wait_ms":{}"#, "9".repeat(n))), 0, &[20, BODY]),
    (
        "escapes",
        |n| acquire(&format!(r#","request_id":"{}""#, "\\u00e9".repeat(n))),
        64,
        &[65, BODY / 6],
    ),
    (
        "unknown fields",
        |n| acquire(&(0..n).map(|n| format!(r#","f{n}":0"#)).collect::<String>()),
        0,
        &[1, 6_000],
    ),
    ("one field again", |n| acquire(&r#","wait_ms":0"#.repeat(n)), 1, &[2, 5_000]),
    ("a nested body", |n| post("/v1/locks/l/acquire", &nested(n)), 0, &[1, BODY / 2]),
    (
        "locks of a group",
        |n| {
            let locks = joined(n, |n| format!(r#"{{"lock_name":"{n}"}}"#));
            post("/v1/acquire", &format!(r#"{{"owner_id":"o","ttl_ms":1,"locks":[{locks}]}}"#))
        },
        64,
        &[65, 2_500],
    ),
    (
        "leases of a group",
        |n| {
            let lease = |n| format!(r#"{{"lock_name":"{n}","lease_id":"{n}","fencing_token":1}}"#);
            let leases = joined(n, lease);
            post(
                "/v1/renew",
                &format!(r#"{{"owner_id":"o","extend_by_ms":1,"leases":[{leases}]}}"#),
            )
        },
        64,
        &[65, 1_000],
    ),
    (
        "lease_id",
        |n| {
            let proof = format!(r#""owner_id":"o","lease_id":"{}","fencing_token":1"#, x(n));
            post("/v1/locks/l/renew", &format!(r#"{{{proof},"extend_by_ms":1}}"#))
        },
        0,
        &[1, BODY],
    ),
    (
        "request_id of a wait",
        |n| post("/v1/cancel", &format!(r#"{{"owner_id":"o","request_id":"{}"}}"#, x(n))),
        128,
        &[129, BODY],
    ),
    (
        "lock of a token",
        |n| {
            let body = format!(r#"{{"lock_name":"{}","fencing_token":1}}"#, x(n));
            post("/v1/fence/check", &body)
        },
        512,
        &[513, BODY],
    ),
    (
        "owner of a session",
        |n| post("/v1/sessions", &format!(r#"{{"owner_id":"{}","ttl_ms":1000}}"#, x(n))),
        256,
        &[257, BODY],
    ),
    ("owner of a past lease", |n| get(&format!("/v1/history?owner={}", x(n))), 256, &[]),
    ("prefix", |n| get(&format!("/v1/locks?prefix={}", x(n))), 512, &[]),
    ("cursor", |n| get(&format!("/v1/locks?cursor={}", "61".repeat(n))), 512, &[]),
    ("limit", |n| get(&format!("/v1/locks?limit={}", "9".repeat(n))), 2, &[5, HEAD]),
    ("parameters", |n| get(&format!("/v1/locks?{}", "a=b&".repeat(n))), 0, &[1, HEAD / 4]),
    (
        "one parameter again",
        |n| get(&format!("/v1/locks?{}", "limit=1&".repeat(n))),
        1,
        &[2, HEAD / 8],
    ),
    (
        "reason",
        |n| post("/v1/revoke", &format!(r#"{{"owner":"o","reason":"{}"}}"#, x(n))),
        1024,
        &[1025, BODY],
    ),
    ("session", |n| post(&format!("/v1/sessions/{}/keepalive", x(n)), "{}"), 0, &[1, HEAD]),
    ("since", |n| get(&format!("/v1/events?since={}", "9".repeat(n))), 0, &[30, HEAD]),
];

#[test]
fn native() {
    let _alone = alone();
    check_all(&Bare::new(), NATIVE);
}

const STICKY_LEASES_AND_CLAIMS: &[Field] = &[
    ("client", |n| post(&format!("/lock?client={}", x(n)), ""), 256, &[257, HEAD]),
    ("job", |n| post(&format!("/lock?client=c&job={}", x(n)), ""), 512, &[513, HEAD]),
    ("ttl in parts", |n| post(&format!("/lock?client=d&ttl={}", "1us".repeat(n)), ""), 400, &[]),
    (
        "ttl in hours",
        |n| post(&format!("/lock?client=d&ttl={}", "1h".repeat(n)), ""),
        24,
        &[25, HEAD / 2],
    ),
    (
        "ttl in digits",
        |n| post(&format!("/lock?client=e&ttl={}s", "1".repeat(n)), ""),
        4,
        &[6, HEAD],
    ),
    (
        "tenant_id",
        |n| {
            post(
                "/leases/acquire",
                &format!(
                    r#"{{"tenant_id":"{}","lock_key":"k","owner_id":"o","ttl_seconds":30,"request_id":"r"}}"#,
                    x(n)
                ),
            )
        },
        128,
        &[129, BODY],
    ),
    (
        "lock_key",
        |n| {
            post(
                "/leases/acquire",
                &format!(
                    r#"{{"tenant_id":"t","lock_key":"{}","owner_id":"o","ttl_seconds":30,"request_id":"r"}}"#,
                    x(n)
                ),
            )
        },
        512,
        &[513, BODY],
    ),
    (
        "owner_id",
        |n| {
            post(
                "/leases/acquire",
                &format!(
                    r#"{{"tenant_id":"t","lock_key":"k{n}","owner_id":"{}","ttl_seconds":30,"request_id":"r"}}"#,
                    x(n)
                ),
            )
        },
        256,
        &[257, BODY],
    ),
    (
        "x-owner-id",
        |n| {
            format!(
                "{}\nx-owner-id: {}\n\n{{}}",
                "POST /leases/acquire\nhost: a\ncontent-type: application/json",
                x(n)
            )
        },
        0,
        &[1, HEAD],
    ),
    ("lease", |n| get(&format!("/leases/{}", x(n))), 0, &[1, HEAD]),
    (
        "resource",
        |n| post("/v1/claims/", &format!(r#"{{"resource":"{}","timeout":20}}"#, x(n))),
        512,
        &[513, BODY],
    ),
    (
        "timeout",
        |n| post("/v1/claims/", &format!(r#"{{"resource":"r","timeout":1.{}}}"#, "0".repeat(n))),
        BODY,
        &[],
    ),
    (
        "user_data",
        |n| {
            post(
                "/v1/claims/",
                &format!(r#"{{"resource":"r","timeout":1,"user_data":{}}}"#, nested(n)),
            )
        },
        64,
        &[65, BODY / 2],
    ),
    (
        "unknown parameters",
        |n| post("/v1/claims/", &format!("{{{}}}", joined(n, |n| format!(r#""p{n}":0"#)))),
        0,
        &[1, 6_000],
    ),
    ("filters", |n| get(&format!("/v1/claims/?{}", "resource=r&".repeat(n))), 1, &[HEAD / 11]),
    (
        "dates",
        |n| get(&format!("/v1/claims/?minimum_created=2026-11-15T05:59:26.{}Z", "1".repeat(n))),
        9,
        &[HEAD],
    ),
    ("claim", |n| get(&format!("/v1/claims/{}/", "9".repeat(n))), 0, &[1, HEAD]),
];

#[test]
fn sticky_leases_and_claims() {
    let _alone = alone();
    check_all(&Bare::new(), STICKY_LEASES_AND_CLAIMS);
}
