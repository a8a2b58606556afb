//! The same with three servers that share a store in etcd: whoever leads is killed, or stopped for longer than it can
//! lead.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use leasehold_testkit::{Etcd, EtcdOptions, Host, Method, Process, TempDir, folder, wrapped};

use super::fault::Fault;
use super::{BINARY, N_CLIENTS, Random, World, judge, seed, work};

const N_SERVERS: usize = 3;
/// `CLUSTER_ROUNDS=100` tries it for longer, with three members of etcd instead of one.
const N_ROUNDS: u64 = 5;
/// Most of it is what etcd waits for one who is gone.
const FAIL_OVER_MAX: Duration = Duration::from_secs(20);

pub(super) struct Cluster {
    pub(super) etcd: Etcd,
    pub(super) servers: Vec<Option<Process>>,
    /// Those of the members, then those of the servers; none: all are on this one.
    pub(super) hosts: Vec<Host>,
    /// What each server is run by, if not by the system itself.
    within: [Option<String>; N_SERVERS],
    folder: TempDir,
}

impl Cluster {
    pub(super) fn start(n_members: usize, hosts: Vec<Host>) -> Self {
        let options = EtcdOptions { hosts: &hosts, ..EtcdOptions::default() };
        let etcd = Etcd::cluster(n_members, &options);
        let init = Command::new(BINARY).arg("init").arg("--store").arg(etcd.url("test")).output();
        let init = init.expect("the binary");
        assert!(init.status.success(), "{}", String::from_utf8_lossy(&init.stderr));
        let folder = folder();
        std::fs::write(folder.path().join("secret"), "a-secret-that-only-servers-know").unwrap();
        let within = Default::default();
        let mut cluster = Self { etcd, servers: Vec::new(), hosts, within, folder };
        for n in 0..N_SERVERS {
            let server = cluster.serve(n);
            cluster.servers.push(Some(server));
        }
        cluster
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn host_of(&self, n: usize) -> Option<&Host> {
        self.hosts.get(self.hosts.len().saturating_sub(N_SERVERS) + n)
    }

    /// From now on a server is run by this program before it.
    pub(super) fn serve_within(&mut self, n: usize, words: &str) {
        self.within[n] = Some(words.into());
        self.servers[n].take().expect("a server").kill();
        self.servers[n] = Some(self.serve(n));
    }

    pub(super) fn serve(&self, n: usize) -> Process {
        let mut flags =
            vec![format!("--store={}", self.etcd.url("test")), format!("--node-name=n{n}")];
        let data = self.path(&format!("n{n}"));
        let wrapper = data.with_extension("on");
        let Some(host) = self.host_of(n) else {
            let within = self.within[n].as_ref().map(|words| wrapped(&wrapper, words, BINARY));
            return start(within.as_deref().unwrap_or(BINARY), &data, &flags);
        };
        let at = host.address;
        flags.extend([
            format!("--listen={at}:8080"),
            format!("--advertise=http://{at}:8080"),
            format!("--peer-listen={at}:8081"),
            format!("--peer-secret-file={}", self.path("secret").display()),
            "--insecure-no-auth".into(),
        ]);
        start(&wrapped(&wrapper, &host.words(), BINARY), &data, &flags)
    }

    pub(super) fn clients(&self) -> Vec<leasehold_testkit::Client> {
        self.servers.iter().flatten().map(|server| server.client.clone()).collect()
    }

    /// The one that leads, unless it is this one, and how long it took to find one.
    pub(super) async fn leader(&self, but: Option<usize>) -> (usize, Duration) {
        let began = Instant::now();
        while began.elapsed() < FAIL_OVER_MAX {
            for (n, server) in self.servers.iter().enumerate().filter(|(n, _)| Some(*n) != but) {
                let Some(server) = server else { continue };
                let asked = server.client.send(Method::GET, "/leaderz", None, "");
                let asked = tokio::time::timeout(Duration::from_secs(1), asked).await;
                if asked.is_ok_and(|asked| asked.is_ok_and(|leader| leader.status == 200)) {
                    return (n, began.elapsed());
                }
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("nobody leads within {FAIL_OVER_MAX:?}");
    }
}

fn start(binary: &str, data: &Path, flags: &[String]) -> Process {
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    Process::start(binary, data, &flags)
}

/// Has these things happen to a cluster, one after the other, while clients ask, and judges what they saw.
pub(super) async fn endure(mut cluster: Cluster, faults: impl Iterator<Item = Fault>) {
    let seed = seed();
    let mut random = Random(seed);
    let mut fail_overs = Vec::new();
    cluster.leader(None).await;
    let world = World::new(cluster.clients());
    let tasks: Vec<_> =
        (0..N_CLIENTS).map(|n| tokio::spawn(work(world.clone(), n, seed))).collect();
    for fault in faults {
        tokio::time::sleep(Duration::from_millis(300 + random.below(300))).await;
        let before = world.n_recorded();
        if let Some(took) = fault.befall(&mut cluster, &world).await {
            fail_overs.push(took.as_millis());
        }
        let (leader, took) = cluster.leader(None).await;
        println!(
            "{fault:?}: {} answers, then n{leader} led after {took:?}",
            world.n_recorded() - before
        );
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
    let n_rounds = std::env::var("CLUSTER_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    let cluster = Cluster::start(if n_rounds.is_some() { 3 } else { 1 }, Vec::new());
    let faults = [Fault::LeaderKilled, Fault::LeaderStopped].into_iter().cycle();
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
