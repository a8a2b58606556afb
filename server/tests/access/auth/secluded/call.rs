//! The requests of a random story: one for each step.

use leasehold_testkit::{Value, json};

use super::step::{OTHER, OTHERS, Step};
use super::world::Pockets;

pub(super) enum Asked {
    Nothing,
    Time(u64),
    Call(String, Value),
    /// A request in a files session: request line, session id, body.
    File(String, String, String),
}

fn last<T: Clone>(all: &[T], n: u64) -> Option<T> {
    all.iter().rev().nth(n as usize).cloned()
}

fn call(line: String, body: Value) -> Asked {
    Asked::Call(line, body)
}

fn get(path: String) -> Asked {
    Asked::Call(format!("GET {path}"), Value::Null)
}

/// Returns the request for a step. `pockets` are the ids of the tenant whose names the step uses; `blue` might have
/// found some of `red`'s.
pub(super) fn asked(step: &Step, pockets: &Pockets) -> Asked {
    match step.what {
        0..=9 | 30 | 32 => of_locks(step, pockets),
        10..=13 => of_leases(step, pockets),
        14..=17 => of_claims(step, pockets),
        18 | 19 => of_lock(step),
        20..=23 => of_sessions(step, pockets),
        24..=29 => of_files(step, pockets),
        31 => {
            let paths =
                ["/lock/page", "/metrics", "/v1/admin/sessions", "/v1/namespaces/red/locks"];
            get(paths[step.way as usize].into())
        }
        OTHER => of_others(step, pockets),
        _ => Asked::Time(step.way * 7_000),
    }
}

fn of_others(step: &Step, pockets: &Pockets) -> Asked {
    let Step { who, whose, n, row, .. } = step;
    let (line, body) = OTHERS[*row as usize];
    let held = last(&pockets.leases, 0);
    let needs = |word: &str| line.contains(word) || body.contains(word);
    if needs("CLAIM") && pockets.claims.is_empty()
        || held.is_none() && (needs("LEASE") || needs("PROOF"))
    {
        return Asked::Nothing;
    }
    let (_, proof) = held.unwrap_or_default();
    let name = format!("{whose}-n{n}");
    let lease = json!({
        "lock_name": name, "lease_id": proof["lease_id"], "fencing_token": proof["fencing_token"],
    });
    let claim = last(&pockets.claims, 0).unwrap_or_default();
    let filled = |text: &str| {
        text.replace("PROOF", &lease.to_string())
            .replace("\"LEASE\"", &proof["lease_id"].to_string())
            .replace("TOKEN", &proof["fencing_token"].to_string())
            .replace("CLAIMBARE", claim.trim_end_matches('/'))
            .replace("CLAIM", &claim)
            .replace("W", whose)
            .replace("I-owner", &format!("{who}-owner"))
            .replace('N', &n.to_string())
    };
    let body = filled(body);
    Asked::Call(filled(line), serde_json::from_str(&body).unwrap_or(Value::Null))
}

fn of_locks(step: &Step, pockets: &Pockets) -> Asked {
    let Step { who, whose, what, n, way, .. } = step;
    let acquire = json!({
        "owner_id": format!("{who}-owner"), "ttl_ms": 20_000 + way * 10_000, "metadata": {"of": who},
    });
    match what {
        0 => call(format!("POST /v1/locks/{whose}-n{n}/acquire"), acquire),
        1 => call(format!("POST /v1/namespaces/{whose}/locks/{whose}-m{n}/acquire"), acquire),
        2 | 3 => match last(&pockets.leases, *n) {
            None => Asked::Nothing,
            Some((path, mut proof)) if *what == 2 => {
                proof["extend_by_ms"] = json!(30_000);
                call(format!("POST {path}/renew"), proof)
            }
            Some((path, proof)) => call(format!("POST {path}/release"), proof),
        },
        4 => get(format!("/v1/locks/{whose}-n{n}")),
        5 => {
            let prefix = ["", whose, "b", "r"][*way as usize];
            get(format!("/v1/locks?limit={}&prefix={prefix}", n + 1))
        }
        6 => get(format!("/v1/locks/{whose}-n{n}/history")),
        7 => get(format!("/v1/history?limit={}", n * 5 + 1)),
        8 => call(format!("POST /v1/locks/{whose}-n{n}/revoke"), json!({"reason": "r"})),
        9 if *way < 2 => {
            let body = json!({"owner": format!("{whose}-owner"), "reason": "r"});
            call("POST /v1/revoke".into(), body)
        }
        9 => {
            let body = json!({"principal": format!("key:{whose}"), "reason": "r"});
            call("POST /v1/revoke".into(), body)
        }
        30 => {
            let locks = [format!("{who}-n{n}"), format!("{whose}-n2")];
            let locks = locks.map(|name| json!({"lock_name": name}));
            let owner = format!("{who}-owner");
            let body = json!({"owner_id": owner, "ttl_ms": 10_000, "locks": locks});
            call("POST /v1/acquire".into(), body)
        }
        _ => {
            let body = json!({"lock_name": format!("{whose}-n{n}"), "fencing_token": way});
            call("POST /v1/fence/check".into(), body)
        }
    }
}

fn of_leases(step: &Step, pockets: &Pockets) -> Asked {
    let Step { who, whose, what, n, way, .. } = step;
    match (what, last(&pockets.ids, *n)) {
        (10, _) => {
            let body = json!({
                "tenant_id": whose, "lock_key": format!("{whose}-l{n}"),
                "request_id": format!("{whose}-r{n}-{way}"), "owner_id": who, "ttl_seconds": 60,
            });
            call("POST /leases/acquire".into(), body)
        }
        (13, _) => get(format!("/locks/{whose}-l{n}?tenant_id={whose}")),
        (_, None) => Asked::Nothing,
        (11, Some(id)) => {
            let body = json!({"request_id": format!("n{way}"), "owner_id": who, "ttl_seconds": 60});
            call(format!("POST /leases/{id}/renew"), body)
        }
        (_, Some(id)) => {
            let body = json!({"request_id": format!("m{way}"), "owner_id": who});
            call(format!("POST /leases/{id}/release"), body)
        }
    }
}

fn of_claims(step: &Step, pockets: &Pockets) -> Asked {
    let Step { whose, what, n, way, .. } = step;
    match (what, last(&pockets.claims, *n)) {
        (14, _) => {
            let body = json!({"resource": format!("{whose}-c{n}"), "timeout": 60});
            call("POST /v1/claims".into(), body)
        }
        (15, _) => {
            let queries = ["", "?limit=1", "?offset=1", "?status=waiting"];
            get(format!("/v1/claims{}", queries[*way as usize]))
        }
        (_, None) => Asked::Nothing,
        (16, Some(path)) => get(path),
        (_, Some(path)) => {
            let changes = [
                json!({"status": "released"}),
                json!({"status": "revoked"}),
                json!({"ttl": 90}),
                json!({"status": "active"}),
            ];
            call(format!("PATCH {path}"), changes[*way as usize].clone())
        }
    }
}

fn of_lock(step: &Step) -> Asked {
    let Step { who, whose, what, n, way, .. } = step;
    match (what, way) {
        (18, _) => call(format!("POST /lock?client={who}-client&job={whose}-j{n}"), Value::Null),
        (_, 0) => call(format!("DELETE /lock?client={whose}-client&job={whose}-j{n}"), Value::Null),
        _ => get(format!("/lock?job={whose}-j{n}")),
    }
}

fn of_sessions(step: &Step, pockets: &Pockets) -> Asked {
    let Step { who, what, n, .. } = step;
    match (what, last(&pockets.sessions, *n)) {
        (20, _) => {
            let body = json!({"owner_id": format!("{who}-owner"), "ttl_ms": 60_000});
            call("POST /v1/sessions".into(), body)
        }
        (_, None) => Asked::Nothing,
        (21, Some(id)) => get(format!("/v1/sessions/{id}")),
        (22, Some(id)) => call(format!("POST /v1/sessions/{id}/keepalive"), Value::Null),
        (_, Some(id)) => call(format!("DELETE /v1/sessions/{id}"), Value::Null),
    }
}

fn of_files(step: &Step, pockets: &Pockets) -> Asked {
    let Step { whose, what, n, way, .. } = step;
    match what {
        24 => call("POST /auth/session".into(), Value::Null),
        25 | 26 => file(step, pockets),
        27 => get(format!("/{whose}/f{n}.txt")),
        28 => get(["/", "/red/", "/blue/", "/files/"][*way as usize].into()),
        _ => get(format!("/admin/locks?limit={}", n + 1)),
    }
}

/// Returns a request in a files session. A tenant uses only its own session, because another's id would be a stolen
/// credential.
fn file(step: &Step, pockets: &Pockets) -> Asked {
    let Step { who, whose, what, n, way, .. } = step;
    if who != whose {
        return Asked::Nothing;
    }
    let Some(session) = last(&pockets.files, 0) else { return Asked::Nothing };
    // `blue` also tries the path of `red`.
    let other = if *way == 3 && *who == "blue" { "red" } else { who };
    let path = format!("/{other}/f{n}.txt");
    let line = match (what, way) {
        (25, 0 | 3) => format!("PUT {path}"),
        (25, 1) => format!("DELETE {path}"),
        (25, _) => format!("GET {path}"),
        (_, 0) => format!("GET {path}?lock=acquire"),
        (_, 1) => format!("GET {path}?lock=release"),
        (_, 2) => format!("GET {path}?lock=status"),
        _ => format!("GET {path}?lock=refresh"),
    };
    Asked::File(line, session, format!("{who}'s {n}"))
}
