//! The steps of a random story.

/// A small pseudo-random generator, good enough for tests.
pub(super) struct Chance(pub(super) u64);

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

/// One action of one tenant.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) who: &'static str,
    /// The tenant whose names the step uses.
    pub(super) whose: &'static str,
    pub(super) what: u64,
    /// Number of the lock, file or other name to use.
    pub(super) n: u64,
    /// Selects a variant of the action.
    pub(super) way: u64,
    /// Row of `OTHERS` to use.
    pub(super) row: u64,
}

pub(super) const N_KINDS: u64 = 35;
pub(super) const OTHER: u64 = 33;

/// Every call without its own kind of step. In a row, `W` is the tenant whose names are used, `N` the number of the
/// name and `I` the sender. `LEASE`, `TOKEN`, `PROOF` and `CLAIM` stand for ids that the sender got.
pub(super) const OTHERS: &[(&str, &str)] = &[
    ("POST /locks/W-lN/force-release", r#"{"tenant_id":"W","actor":"a"}"#),
    ("POST /v1/locks/W-nN/cancel", r#"{"owner_id":"W-owner","request_id":"r"}"#),
    ("POST /v1/cancel", r#"{"owner_id":"W-owner","request_id":"r"}"#),
    ("POST /v1/renew", r#"{"owner_id":"I-owner","extend_by_ms":9000,"leases":[PROOF]}"#),
    ("POST /v1/release", r#"{"owner_id":"I-owner","leases":[PROOF]}"#),
    (
        "POST /v1/locks/W-nN/watch",
        r#"{"owner_id":"W-owner","lease_id":"LEASE","fencing_token":TOKEN}"#,
    ),
    (
        "POST /v1/locks/W-nN/renew",
        r#"{"owner_id":"W-owner","lease_id":"LEASE","fencing_token":TOKEN,"extend_by_ms":9}"#,
    ),
    (
        "POST /v1/locks/W-nN/release",
        r#"{"owner_id":"W-owner","lease_id":"LEASE","fencing_token":TOKEN}"#,
    ),
    ("GET /v1/events", ""),
    ("GET /v1/events?lock=W-nN", ""),
    ("GET /v1/namespaces/W/events", ""),
    ("GET /v1/namespaces/W/history", ""),
    ("GET /v1/namespaces/W/locks", ""),
    ("GET /v1/namespaces/W/locks/W-mN", ""),
    ("GET /v1/namespaces/W/locks/W-mN/history", ""),
    ("POST /v1/namespaces/W/locks/W-mN/revoke", r#"{"reason":"r"}"#),
    ("POST /v1/namespaces/W/locks/W-mN/cancel", r#"{"owner_id":"W-owner","request_id":"r"}"#),
    (
        "POST /v1/namespaces/W/locks/W-mN/renew",
        r#"{"owner_id":"W-owner","lease_id":"LEASE","fencing_token":TOKEN,"extend_by_ms":9}"#,
    ),
    (
        "POST /v1/namespaces/W/locks/W-mN/release",
        r#"{"owner_id":"W-owner","lease_id":"LEASE","fencing_token":TOKEN}"#,
    ),
    (
        "POST /v1/namespaces/W/locks/W-mN/watch",
        r#"{"owner_id":"W-owner","lease_id":"LEASE","fencing_token":TOKEN}"#,
    ),
    (
        "POST /v1/namespaces/W/acquire",
        r#"{"owner_id":"I-owner","ttl_ms":9000,"locks":[{"lock_name":"W-mN"}]}"#,
    ),
    (
        "POST /v1/namespaces/W/renew",
        r#"{"owner_id":"I-owner","extend_by_ms":9000,"leases":[PROOF]}"#,
    ),
    ("POST /v1/namespaces/W/release", r#"{"owner_id":"I-owner","leases":[PROOF]}"#),
    ("POST /v1/namespaces/W/cancel", r#"{"owner_id":"W-owner","request_id":"r"}"#),
    ("GET /v1/claims/", ""),
    ("POST /v1/claims/", r#"{"resource":"W-cN","timeout":30}"#),
    ("GET CLAIM", ""),
    ("PUT CLAIM", r#"{"ttl":45}"#),
    ("PATCH CLAIM", r#"{"status":"aborted"}"#),
    ("GET CLAIMBARE", ""),
    ("PUT CLAIMBARE", r#"{"timeout":45}"#),
    ("PATCH CLAIMBARE", r#"{"ttl":45}"#),
    ("DELETE /admin/locks/W/fN.txt", ""),
    ("GET /files/W/fN.txt", ""),
    ("GET /auth/sessions", ""),
    ("GET /auth/session", ""),
    ("DELETE /auth/session", ""),
    ("PUT /", "x"),
    ("POST /", ""),
    ("DELETE /", ""),
    ("PUT /files/W/fN.txt", "x"),
    ("POST /files/W/fN.txt", ""),
    ("DELETE /files/W/fN.txt", ""),
    ("POST /W/fN.txt", ""),
    ("POST /v1/admin/backup", ""),
    ("GET /v1/admin/auth", ""),
    ("GET /v1/admin/maintenance", ""),
    ("PUT /v1/admin/maintenance", r#"{"on":true}"#),
    ("DELETE /v1/admin/sessions/N", ""),
    ("GET /terraform", ""),
    ("GET /terraform/W-tN", ""),
    ("POST /terraform/W-tN", r#"{"serial":1}"#),
    ("PUT /terraform/W-tN?ID=W-i", r#"{"serial":2}"#),
    ("POST /terraform/W-tN/lock", r#"{"ID":"W-i"}"#),
    ("PUT /terraform/W-tN/lock", r#"{"ID":"W-i"}"#),
    ("DELETE /terraform/W-tN/lock", r#"{"ID":"W-i"}"#),
    ("GET /terraform/W-tN/versions", ""),
    ("GET /terraform/W-tN/versions/1", ""),
    ("POST /terraform/W-tN/versions/1/restore", ""),
    ("GET /lfs/W-rN/locks", ""),
    ("GET /lfs/W-rN/locks?path=x.bin", ""),
    ("POST /lfs/W-rN/locks", r#"{"path":"x.bin"}"#),
    ("POST /lfs/W-rN/locks/verify", r#"{"limit":1}"#),
    ("POST /lfs/W-rN/locks/9999999N/unlock", r#"{"force":true}"#),
    ("POST /lfs/W-rN/objects/batch", r#"{"operation":"upload","objects":[]}"#),
    (
        "PUT /lfs/W-rN/objects/44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
        "{}",
    ),
    ("GET /lfs/W-rN/objects/44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a", ""),
    (
        "POST /lfs/W-rN/objects/44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a/verify",
        r#"{"oid":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","size":2}"#,
    ),
    ("GET /dav/W/fN.txt", ""),
    ("PUT /dav/W/fN.txt", "x"),
    ("DELETE /dav/W/fN.txt", ""),
];

impl Step {
    pub(super) fn draw(chance: &mut Chance) -> Self {
        let who = chance.of(&["red", "blue"]);
        // `blue` also uses names of `red`.
        let whose = if who == "blue" { chance.of(&["blue", "blue", "red"]) } else { "red" };
        // A third of all steps use a row of `OTHERS`.
        let what = if chance.below(3) == 0 { OTHER } else { chance.below(N_KINDS) };
        let (n, way, row) = (chance.below(3), chance.below(4), chance.below(OTHERS.len() as u64));
        Self { who, whose, what, n, way, row }
    }
}
