//! Two tenants can never see each other: whatever one of them asks, in every dialect, is answered the same whether or
//! not the other one was ever there.
//!
//! A random story is told to two servers. In one both tenants act, in the other only blue does. Blue also asks about
//! what is red's. All of blue's answers have to be the same, but for numbers that count everything on the server.

use std::fmt::Write;

use leasehold_testkit::{Local, Response, Value, json};

use crate::Scene;
use crate::apart::RULES;

/// Stories told; `SECLUDED_SEEDS` for more.
const N_SEEDS: u64 = 24;
const N_STEPS: usize = 120;

/// Small and good enough.
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// One thing somebody does.
#[derive(Clone, Debug)]
struct Step {
    who: &'static str,
    /// Whose names it is about.
    whose: &'static str,
    what: u64,
    /// Which of several.
    n: u64,
    /// Whatever else has to be chosen.
    way: u64,
}

const N_KINDS: u64 = 34;

impl Step {
    fn draw(chance: &mut Chance) -> Self {
        let who = chance.of(&["red", "blue"]);
        // Blue is curious.
        let whose = if who == "blue" { chance.of(&["blue", "blue", "red"]) } else { "red" };
        let (what, n, way) = (chance.below(N_KINDS), chance.below(3), chance.below(4));
        Self { who, whose, what, n, way }
    }
}

/// What somebody got hold of, on one server.
#[derive(Default)]
struct Pockets {
    /// The lock's path and what proves the lease.
    leases: Vec<(String, Value)>,
    /// Ids of the dialect `leases`.
    ids: Vec<String>,
    claims: Vec<String>,
    sessions: Vec<String>,
    files: Vec<String>,
}

struct World {
    scene: Scene,
    red: Pockets,
    blue: Pockets,
}

impl World {
    async fn new() -> Self {
        let scene = Scene::with(RULES, &["red", "blue", "admin"], |_| {}).await;
        Self { scene, red: Pockets::default(), blue: Pockets::default() }
    }

    fn shown(&self, answer: &Response) -> String {
        shown(answer, self.scene.local.address)
    }

    fn pockets(&mut self, who: &str) -> &mut Pockets {
        if who == "red" { &mut self.red } else { &mut self.blue }
    }

    /// What the step is answered; `None` if there is nothing to do it with.
    async fn take(&mut self, step: &Step) -> Option<Response> {
        let Step { who, whose, .. } = step.clone();
        let pockets = if whose == "red" { &self.red } else { &self.blue };
        let asked = asked(step, pockets);
        let answer = match asked {
            Asked::Nothing => return None,
            Asked::Time(ms) => {
                self.scene.local.advance_ms(ms);
                // What falls due is worked off by the next who asks the engine.
                self.scene.send("admin", "GET /v1/locks/nobody", Value::Null).await;
                return None;
            }
            Asked::Call(line, body) => self.scene.send(who, &line, body).await,
            Asked::File(line, session, body) => {
                in_session(&self.scene.local, &line, &session, body).await
            }
        };
        self.remember(step, &answer);
        Some(answer)
    }

    fn remember(&mut self, step: &Step, answer: &Response) {
        let Step { who, whose, what, n, .. } = step.clone();
        let pockets = self.pockets(who);
        match what {
            0 | 1 if answer.status == 200 => {
                let path = if what == 0 {
                    format!("/v1/locks/{whose}-n{n}")
                } else {
                    format!("/v1/namespaces/{whose}/locks/{whose}-m{n}")
                };
                let proof = json!({
                    "owner_id": format!("{who}-owner"), "lease_id": answer.get("lease_id"),
                    "fencing_token": answer.get("fencing_token"),
                });
                pockets.leases.push((path, proof));
            }
            10 if answer.status == 201 => pockets.ids.push(answer.text_of("lease_id")),
            14 if answer.status < 300 => {
                let url = answer.text_of("url");
                pockets.claims.push(url[url.find("/v1/").expect("an address")..].to_owned());
            }
            20 if answer.status == 201 => pockets.sessions.push(answer.text_of("session_id")),
            24 if answer.status == 201 => pockets.files.push(answer.text_of("sessionId")),
            _ => {}
        }
    }
}

enum Asked {
    Nothing,
    Time(u64),
    Call(String, Value),
    /// With the id of a session of files.
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

/// What a step sends. `pockets` are those of whose names it is about: blue may have found something of red's.
fn asked(step: &Step, pockets: &Pockets) -> Asked {
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
        _ => Asked::Time(step.way * 7_000),
    }
}

fn of_locks(step: &Step, pockets: &Pockets) -> Asked {
    let Step { who, whose, what, n, way } = step;
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
    let Step { who, whose, what, n, way } = step;
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
    let Step { who, whose, what, n, way } = step;
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

/// What is done in a session of files: only with one's own, because another's is a credential that was stolen.
fn file(step: &Step, pockets: &Pockets) -> Asked {
    let Step { who, whose, what, n, way } = step;
    if who != whose {
        return Asked::Nothing;
    }
    let Some(session) = last(&pockets.files, 0) else { return Asked::Nothing };
    // A curious one tries the other's path too.
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

async fn in_session(local: &Local, line: &str, session: &str, body: String) -> Response {
    let (method, path) = line.split_once(' ').expect("a method");
    let bearer = format!("Bearer {session}");
    let body = if method == "PUT" { body } else { String::new() };
    let method = method.parse().expect("a method");
    let headers = [("authorization", bearer.as_str())];
    local.client.send_with(method, path, &headers, body).await.expect("an answer")
}

/// An answer without what is random or counts everything on the server: ids of leases, claims, events and sessions.
fn shown(answer: &Response, address: std::net::SocketAddr) -> String {
    let plain = |text: &str| plain(&text.replace(&address.to_string(), "HOST"));
    let mut shown = format!("{} {}", answer.status, plain(&answer.text));
    for name in ["link", "location", "retry-after", "content-type", "content-length"] {
        if let Some(value) = answer.headers.get(name) {
            let value = plain(value.to_str().expect("text"));
            let is_length = name == "content-length";
            let _ = write!(shown, "\n{name}: {}", if is_length { "N".into() } else { value });
        }
    }
    shown
}

/// Numbers that follow each other with dashes, long hexadecimal ones, and those of claims.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_ascii_hexdigit()) {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = rest.find(|c: char| !c.is_ascii_hexdigit() && c != '-').unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        // A date has two dashes as well.
        let is_event = word.matches('-').count() == 2 && !word.starts_with("20");
        // So is the time of a file, which is the disk's.
        let is_id = word.len() >= 13 || word.len() > 5 && is_event;
        let numbered = ["/v1/claims/", "active_claim_id\":", "claim:", "lease_id\":\""];
        let is_number = numbered.iter().any(|before| plain.ends_with(before));
        plain.push_str(if is_id || is_number { "ID" } else { word });
        rest = after;
    }
    plain + rest
}

async fn tell(seed: u64) {
    let mut chance = Chance(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let steps: Vec<_> = (0..N_STEPS).map(|_| Step::draw(&mut chance)).collect();
    let (mut both, mut alone) = (World::new().await, World::new().await);
    for (n, step) in steps.iter().enumerate() {
        // What ends at the very same instant may be told in any order, so nothing does.
        [&both, &alone].iter().for_each(|world| world.scene.local.advance_ms(1));
        let is_time = step.what >= N_KINDS - 1;
        if step.who == "red" && !is_time {
            both.take(step).await;
            continue;
        }
        // What blue found of red's is there in one world only; in the other it asks with something that never was.
        if step.whose == "red" && !is_time {
            let Some(answer) = both.take(step).await else { continue };
            let unknown = alone.stand_in(step, &both.red).await;
            let (answer, unknown) = (both.shown(&answer), alone.shown(&unknown));
            assert_eq!(answer, unknown, "seed {seed}, step {n}: {step:?}");
            continue;
        }
        let (with, without) = (both.take(step).await, alone.take(step).await);
        let with = with.map(|answer| both.shown(&answer));
        let without = without.map(|answer| alone.shown(&answer));
        assert_eq!(with, without, "seed {seed}, step {n}: {step:?}");
    }
    both.scene.stop().await;
    alone.scene.stop().await;
}

impl World {
    /// The same step where there is nothing of red's: about the same names, with ids of nothing.
    async fn stand_in(&mut self, step: &Step, red: &Pockets) -> Response {
        let none = Pockets {
            leases: red.leases.iter().map(|(path, _)| (path.clone(), proof_of_nothing())).collect(),
            ids: vec![LEASE.into(); red.ids.len()],
            claims: vec!["/v1/claims/999999/".into(); red.claims.len()],
            sessions: vec!["0".repeat(64); red.sessions.len()],
            files: Vec::new(),
        };
        let Asked::Call(line, body) = asked(step, &none) else { panic!("{step:?}") };
        let answer = self.scene.send(step.who, &line, body).await;
        self.remember(step, &answer);
        answer
    }
}

const LEASE: &str = "999999.00000000000000000000000000000000";

fn proof_of_nothing() -> Value {
    json!({"owner_id": "red-owner", "lease_id": LEASE, "fencing_token": 1})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_can_tell_whether_the_other_is_there() {
    let n_seeds = std::env::var("SECLUDED_SEEDS").ok().and_then(|n| n.parse().ok());
    for seed in 1..=n_seeds.unwrap_or(N_SEEDS) {
        tell(seed).await;
    }
}
