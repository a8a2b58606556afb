//! The same with three servers that share a store in etcd: whoever leads is killed, or stopped for longer than it can
//! lead.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use leasehold_testkit::{Etcd, EtcdOptions, Method, Process, Signal, TempDir, folder};

use super::{BINARY, N_CLIENTS, Random, World, judge, work};

const N_SERVERS: usize = 3;
/// `CLUSTER_ROUNDS=100` tries it for longer, with three members of etcd instead of one.
const N_ROUNDS: u64 = 5;
/// Longer than etcd keeps the seat of one who is gone.
const STOPPED: Duration = Duration::from_millis(3500);
/// Most of it is what etcd waits for one who is gone.
const FAIL_OVER_MAX: Duration = Duration::from_secs(10);

struct Cluster {
    etcd: Etcd,
    servers: Vec<Option<Process>>,
    folder: TempDir,
}

impl Cluster {
    fn start(n_members: usize) -> Self {
        let etcd = Etcd::cluster(n_members, &EtcdOptions::default());
        let init = Command::new(BINARY).arg("init").arg("--store").arg(etcd.url("test")).output();
        let init = init.expect("the binary");
        assert!(init.status.success(), "{}", String::from_utf8_lossy(&init.stderr));
        let mut cluster = Self { etcd, servers: Vec::new(), folder: folder() };
        for n in 0..N_SERVERS {
            let server = cluster.serve(n);
            cluster.servers.push(Some(server));
        }
        cluster
    }

    fn data(&self, n: usize) -> PathBuf {
        self.folder.path().join(format!("n{n}"))
    }

    fn serve(&self, n: usize) -> Process {
        let store = format!("--store={}", self.etcd.url("test"));
        let name = format!("--node-name=n{n}");
        Process::start(BINARY, &self.data(n), &[&store, &name])
    }

    fn clients(&self) -> Vec<leasehold_testkit::Client> {
        self.servers.iter().flatten().map(|server| server.client.clone()).collect()
    }

    /// The one that leads, unless it is this one, and how long it took to find one.
    async fn leader(&self, but: Option<usize>) -> (usize, Duration) {
        let began = Instant::now();
        while began.elapsed() < FAIL_OVER_MAX {
            for (n, server) in self.servers.iter().enumerate().filter(|(n, _)| Some(*n) != but) {
                let Some(server) = server else { continue };
                let ready = server.client.send(Method::GET, "/leaderz", None, "").await;
                if ready.is_ok_and(|ready| ready.status == 200) {
                    return (n, began.elapsed());
                }
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("nobody leads within {FAIL_OVER_MAX:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_clients_see_while_leaders_are_killed_and_stopped_is_linearizable() {
    let seed = u64::from(std::process::id());
    println!("SEED={seed}");
    let mut random = Random(seed);
    let n_rounds = std::env::var("CLUSTER_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    let mut cluster = Cluster::start(if n_rounds.is_some() { 3 } else { 1 });
    let mut fail_overs = Vec::new();
    cluster.leader(None).await;
    let world = World::new(cluster.clients());
    let tasks: Vec<_> =
        (0..N_CLIENTS).map(|n| tokio::spawn(work(world.clone(), n, seed))).collect();
    for round in 0..n_rounds.unwrap_or(N_ROUNDS) {
        tokio::time::sleep(Duration::from_millis(300 + random.below(300))).await;
        let (leader, _) = cluster.leader(None).await;
        if round % 2 == 1 {
            let stopped = cluster.servers[leader].as_ref().expect("it leads");
            stopped.signal(Signal::STOP);
            tokio::time::sleep(STOPPED).await;
            stopped.signal(Signal::CONT);
            continue;
        }
        cluster.servers[leader].take().expect("it leads").kill();
        *world.servers.write().unwrap() = cluster.clients();
        let (_, took) = cluster.leader(Some(leader)).await;
        fail_overs.push(took.as_millis());
        cluster.servers[leader] = Some(cluster.serve(leader));
        *world.servers.write().unwrap() = cluster.clients();
    }
    fail_overs.sort_unstable();
    let (median, worst) = (fail_overs[fail_overs.len() / 2], fail_overs[fail_overs.len() - 1]);
    println!(
        "{} leaders killed: another led after {median} ms, {worst} ms at most",
        fail_overs.len()
    );
    judge(&world, tasks, seed).await;
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
    assert!(why.contains("`leasehold init --store` makes one"), "{why}");
    assert!(leasehold(&["init", "--store", &store]).0);
    let (is_made, why) = leasehold(&["init", "--store", &store]);
    assert!(!is_made && why.contains("already"), "{why}");
    Process::start(BINARY, &folder.path().join("own"), &[]).terminate();
    let Err(why) = Process::try_start(BINARY, &folder.path().join("own"), &[&flag]) else {
        panic!("it has a store");
    };
    assert!(why.contains("has a store of its own"), "{why}");
    for (flags, words) in [
        (["serve", &flag, "--ephemeral"], "--ephemeral"),
        (["serve", &flag, "--backup-dir=b"], "--backup-dir"),
        (["serve", &flag, "--node-name=a b"], "--node-name"),
        (["serve", "--store=http://a", "--log=info"], "must be etcd://HOST:PORT"),
        (["serve", &flag, "--etcd-user=a"], "--etcd-password-file"),
        (["serve", &flag, "--advertise=n1:8080"], "must be http://HOST:PORT"),
        (
            ["serve", &flag, "--listen=unix:x.sock"],
            "--advertise: is required with --listen unix:x.sock",
        ),
        (["serve", &flag, "--peer-listen=0.0.0.0:0"], "--peer-secret-file: is required"),
        (["serve", "--peer-listen=127.0.0.1:0", "--log=info"], "--store"),
    ] {
        let (is_started, why) = leasehold(&flags);
        assert!(!is_started && why.contains(words), "{flags:?}: {why}");
    }
}
