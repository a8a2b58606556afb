//! A cluster of three servers with etcd, with the same clients and checks as the parent module: the leader is killed,
//! or stopped for longer than it can stay leader.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use leasehold_testkit::{Etcd, EtcdOptions, Host, Method, Process, TempDir, folder, json, wrapped};

use super::fault::Fault;
use super::{BINARY, N_CLIENTS, Random, World, judge, seed, work};

pub(super) const N_SERVERS: usize = 3;
/// Storage quota of each etcd member, in bytes. [`Fault::NoSpace`] fills it up.
pub(super) const QUOTA: u64 = 128 << 20;
/// `UPGRADE_FROM=leasehold-0.1` starts the cluster with that program. [`Fault::RollingRestart`] upgrades the servers to
/// the program under test.
const UPGRADE_FROM: &str = "UPGRADE_FROM";
/// Number of faults. `CLUSTER_ROUNDS=100` runs more of them, with three etcd members instead of one.
const N_ROUNDS: u64 = 5;
/// TTL of the lease that is renewed after each fault.
const KEPT_MS: u64 = 600_000;
/// Time limit for a new leader. Most of a fail-over is the time until the etcd lease of the old leader expires.
const FAIL_OVER_MAX: Duration = Duration::from_secs(120);

/// Returns the program under test. `LEASEHOLD_BIN` names another one, such as an optimized build.
pub(super) fn binary() -> String {
    std::env::var("LEASEHOLD_BIN").unwrap_or_else(|_| BINARY.into())
}

/// Returns the number in this environment variable, if it is set.
pub(super) fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|number| number.parse().ok())
}

pub(super) struct Cluster {
    pub(super) etcd: Etcd,
    pub(super) servers: Vec<Option<Process>>,
    /// The hosts of the etcd members, followed by those of the servers. Empty if everything runs on this host.
    pub(super) hosts: Vec<Host>,
    /// For each server, the command that starts its program, if it is not started directly.
    within: [Option<String>; N_SERVERS],
    /// The program that servers are started with.
    pub(super) binary: String,
    /// Additional flags for each server.
    flags: Vec<String>,
    folder: TempDir,
}

impl Cluster {
    pub(super) fn start(n_members: usize, hosts: Vec<Host>) -> Self {
        Self::start_with(n_members, hosts, QUOTA, &[])
    }

    /// Starts a cluster with another quota and additional flags for each server.
    pub(super) fn start_with(
        n_members: usize,
        hosts: Vec<Host>,
        quota: u64,
        flags: &[&str],
    ) -> Self {
        let own_quota = format!("--etcd-quota={quota}");
        let quota = format!("--quota-backend-bytes={quota}");
        let quota = [&*quota];
        let options =
            EtcdOptions { hosts: &hosts, flags: &quota, syncs: true, ..EtcdOptions::default() };
        let etcd = Etcd::cluster(n_members, &options);
        let folder = folder();
        std::fs::write(folder.path().join("secret"), "a-secret-that-only-servers-know").unwrap();
        let mut flags: Vec<_> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        flags.push(own_quota);
        let mut cluster = Self {
            etcd,
            servers: Vec::new(),
            hosts,
            within: Default::default(),
            binary: std::env::var(UPGRADE_FROM).unwrap_or_else(|_| binary()),
            flags,
            folder,
        };
        cluster.operate(&["init"]);
        for n in 0..N_SERVERS {
            let server = cluster.serve(n);
            cluster.servers.push(Some(server));
        }
        cluster
    }

    /// Runs an operator's command on the store and returns its output.
    pub(super) fn operate(&self, words: &[&str]) -> String {
        let mut command = Command::new(&self.binary);
        let output = command.args(words).arg("--store").arg(self.etcd.url("test")).output();
        let output = output.expect("the binary");
        let [said, why] =
            [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
        assert!(output.status.success(), "{words:?}: {why}");
        said
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn host_of(&self, n: usize) -> Option<&Host> {
        self.hosts.get(self.hosts.len().saturating_sub(N_SERVERS) + n)
    }

    /// Restarts a server through this command. Later starts of the server use the command too.
    pub(super) fn serve_within(&mut self, n: usize, words: &str) {
        self.within[n] = Some(words.into());
        self.servers[n].take().expect("a server").kill();
        self.servers[n] = Some(self.serve(n));
    }

    pub(super) fn serve(&self, n: usize) -> Process {
        let mut flags = self.flags.clone();
        flags.extend([format!("--store={}", self.etcd.url("test")), format!("--node-name=n{n}")]);
        let data = self.path(&format!("n{n}"));
        let wrapper = data.with_extension("on");
        let Some(host) = self.host_of(n) else {
            let binary = &*self.binary;
            let within = self.within[n].as_ref().map(|words| wrapped(&wrapper, words, binary));
            return start(within.as_deref().unwrap_or(binary), &data, &flags);
        };
        let at = host.address;
        flags.extend([
            format!("--listen={at}:8080"),
            format!("--advertise=http://{at}:8080"),
            format!("--peer-listen={at}:8081"),
            format!("--peer-secret-file={}", self.path("secret").display()),
            "--insecure-no-auth".into(),
        ]);
        start(&wrapped(&wrapper, &host.words(), &self.binary), &data, &flags)
    }

    pub(super) fn clients(&self) -> Vec<leasehold_testkit::Client> {
        self.servers.iter().flatten().map(|server| server.client.clone()).collect()
    }

    /// Returns the leader and how long it took to find it. The server `but` does not count.
    pub(super) async fn leader(&self, but: Option<usize>) -> (usize, Duration) {
        let others: Vec<_> = (0..self.servers.len()).filter(|n| Some(*n) != but).collect();
        self.which_is("/leaderz", &others).await
    }

    /// Returns the first of these servers that answers the path with 200, and how long it took to find it.
    pub(super) async fn which_is(&self, path: &str, of: &[usize]) -> (usize, Duration) {
        let began = Instant::now();
        while began.elapsed() < FAIL_OVER_MAX {
            for n in of {
                let Some(server) = &self.servers[*n] else { continue };
                let asked = server.client.send(Method::GET, path, None, "");
                let asked = tokio::time::timeout(Duration::from_secs(1), asked).await;
                if asked.is_ok_and(|asked| asked.is_ok_and(|leader| leader.status == 200)) {
                    return (*n, began.elapsed());
                }
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("none of {of:?} says yes to {path} within {FAIL_OVER_MAX:?}");
    }
}

fn start(binary: &str, data: &Path, flags: &[String]) -> Process {
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    Process::start(binary, data, &flags)
}

/// Applies the faults to a cluster one after the other while clients send requests, then judges the recorded history.
pub(super) async fn endure(mut cluster: Cluster, faults: impl Iterator<Item = Fault>) {
    let seed = seed();
    let mut random = Random(seed);
    let mut fail_overs = Vec::new();
    cluster.leader(None).await;
    let world = World::new(cluster.clients());
    // Until a server answers: a follower may not know yet who leads.
    let wish = json!({"owner_id": "keeper", "ttl_ms": KEPT_MS, "request_id": "kept"});
    let kept = world.ask("/v1/locks/kept/acquire", &wish).await.expect("an answer");
    assert_eq!(kept.status, 200, "{kept:?}");
    let tasks: Vec<_> =
        (0..N_CLIENTS).map(|n| tokio::spawn(work(world.clone(), n, seed))).collect();
    for fault in faults {
        tokio::time::sleep(Duration::from_millis(300 + random.below(300))).await;
        world.until_recorded(25).await;
        let before = world.n_recorded();
        if let Some(took) = fault.befall(&mut cluster, &world).await {
            fail_overs.push(took.as_millis());
        }
        let (leader, took) = cluster.leader(None).await;
        println!(
            "{fault:?}: {} answers, then n{leader} led after {took:?}",
            world.n_recorded() - before
        );
        // A lease survives every fault: its holder can still renew it.
        let proof = json!({
            "owner_id": "keeper", "lease_id": kept.get("lease_id"), "extend_by_ms": KEPT_MS,
            "fencing_token": kept.get("fencing_token"),
        });
        let renewed = world.ask("/v1/locks/kept/renew", &proof).await.expect("an answer");
        assert_eq!(renewed.status, 200, "after {fault:?}: {renewed:?}");
    }
    fail_overs.sort_unstable();
    if let Some(worst) = fail_overs.last() {
        let median = fail_overs[fail_overs.len() / 2];
        println!(
            "{} leaders killed: another led after {median} ms, {worst} ms at most",
            fail_overs.len()
        );
    }
    judge(&world, tasks, seed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_clients_see_while_leaders_are_killed_and_stopped_is_linearizable() {
    let n_rounds = number("CLUSTER_ROUNDS");
    let cluster = Cluster::start(if n_rounds.is_some() { 3 } else { 1 }, Vec::new());
    let faults = match std::env::var("CLUSTER_KILLS_ONLY").is_ok() {
        true => [Fault::LeaderKilled; 2],
        false => [Fault::LeaderKilled, Fault::LeaderStopped],
    };
    let faults = faults.into_iter().cycle();
    endure(cluster, faults.take(n_rounds.unwrap_or(N_ROUNDS) as usize)).await;
}

#[test]
fn a_folder_with_a_store_of_its_own_is_not_used_for_a_shared_one() {
    let (etcd, folder) = (Etcd::start(), folder());
    let store = etcd.url("test");
    let leasehold = |arguments: &[&str]| {
        let output = Command::new(BINARY).args(arguments).output().expect("the binary");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), said)
    };
    let data = folder.path().join("data");
    let flag = format!("--store={store}");
    let Err(why) = Process::try_start(BINARY, &data, &[&flag]) else {
        panic!("there is no store yet");
    };
    assert!(why.contains("otherwise create one"), "{why}");
    assert!(leasehold(&["init", "--store", &store]).0);
    let (is_made, why) = leasehold(&["init", "--store", &store]);
    assert!(!is_made && why.contains("is not empty"), "{why}");
    Process::start(BINARY, &folder.path().join("own"), &[]).terminate();
    let Err(why) = Process::try_start(BINARY, &folder.path().join("own"), &[&flag]) else {
        panic!("it has a store");
    };
    assert!(why.contains("contains a store"), "{why}");
    // The reverse: a server of a cluster is started without --store.
    let node = folder.path().join("node");
    std::fs::create_dir(&node).unwrap();
    std::fs::set_permissions(&node, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    std::fs::write(node.join("node.json"), "{}").unwrap();
    let Err(why) = Process::try_start(BINARY, &node, &[]) else {
        panic!("tokens would start from 1 again");
    };
    assert!(why.contains("belongs to a server of a cluster"), "{why}");
    for (flags, words) in [
        (["serve", &flag, "--ephemeral"], "--ephemeral"),
        (["serve", &flag, "--backup-dir=b"], "--backup-dir"),
        (["serve", &flag, "--node-name=a b"], "--node-name"),
        (["serve", &flag, "--dialects=files,dav"], "--dialects files, dav: with --store"),
        (["serve", "--store=http://a", "--log=info"], "must be etcd://HOST:PORT"),
        (["serve", &flag, "--etcd-user=a"], "--etcd-password-file"),
        (["serve", &flag, "--advertise=n1:8080"], "must be http://HOST:PORT"),
        (
            ["serve", &flag, "--listen=unix:x.sock"],
            "--advertise is required with --listen unix:x.sock",
        ),
        (["serve", &flag, "--peer-listen=0.0.0.0:0"], "--peer-secret-file is required"),
        (["serve", "--peer-listen=127.0.0.1:0", "--log=info"], "--store"),
    ] {
        let (is_started, why) = leasehold(&flags);
        assert!(!is_started && why.contains(words), "{flags:?}: {why}");
    }
}
