//! Members of a real etcd cluster, each in a separate process on this machine.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::hosts::Host;
use crate::port::ReservedPort;

/// How long a cluster may take to start before a test gives up.
const PATIENCE: Duration = Duration::from_secs(180);
/// Maximum writes of 1 MiB, more than any quota in a test.
const FILLS_MAX: usize = 1024;
/// Maximum attempts to start, because another process can take a port that was free a moment ago.
const STARTS_MAX: usize = 5;

/// A cluster. Dropping this value kills its members and deletes its data.
pub struct Etcd {
    members: Vec<Member>,
    /// The value of `--initial-cluster`, with all members.
    all: String,
    /// So that a member can be started again.
    _ports: Vec<ReservedPort>,
    _folder: TempDir,
}

struct Member {
    name: String,
    child: Child,
    command: Command,
    address: SocketAddr,
    peer: String,
    health: SocketAddr,
    data: PathBuf,
}

/// Slows down disks until this value is dropped.
pub struct SlowDisks(Vec<Child>);

/// The options of a cluster.
#[derive(Default)]
pub struct EtcdOptions<'a> {
    /// Additional flags for each member.
    pub flags: &'a [&'a str],
    /// The certificate, key and CA for TLS. Members require client certificates signed by this CA.
    pub tls: Option<(&'a Path, &'a Path, &'a Path)>,
    /// A separate host for each member. Empty: all run on this one.
    pub hosts: &'a [Host],
    /// They sync what they write, so that [`Etcd::slow_disks`] delays them.
    pub syncs: bool,
    /// The program to run instead of etcd.
    pub program: Option<&'a str>,
}

impl Etcd {
    /// Starts a cluster with one member.
    pub fn start() -> Self {
        Self::cluster(1, &EtcdOptions::default())
    }

    /// Starts a cluster with this many members, and waits until it is ready.
    pub fn cluster(n_members: usize, options: &EtcdOptions<'_>) -> Self {
        for _ in 0..STARTS_MAX {
            if let Some(cluster) = Self::try_cluster(n_members, options) {
                return cluster;
            }
        }
        panic!("etcd did not start within {STARTS_MAX} tries");
    }

    fn try_cluster(n_members: usize, options: &EtcdOptions<'_>) -> Option<Self> {
        let folder = crate::folder();
        let mut ports = Vec::new();
        let mut address = |n: usize, port| match options.hosts.get(n) {
            Some(host) => SocketAddr::new(IpAddr::V4(host.address), port),
            None => {
                ports.push(ReservedPort::any());
                ports[ports.len() - 1].address
            }
        };
        let peers: Vec<_> = (0..n_members).map(|n| address(n, 2380)).collect();
        let name = |n: usize| format!("m{n}");
        let all: Vec<_> = peers
            .iter()
            .enumerate()
            .map(|(n, peer)| format!("{}=http://{peer}", name(n)))
            .collect();
        let all = all.join(",");
        let members = peers.iter().enumerate().map(|(n, peer)| {
            let (address, health) = (address(n, 2379), address(n, 2381));
            let program = options.program.unwrap_or("etcd");
            let host = options.hosts.get(n);
            let mut command =
                host.map_or_else(|| Command::new(program), |host| host.command(program));
            let data = folder.path().join(name(n));
            command.arg("--name").arg(name(n)).arg("--data-dir").arg(&data);
            command.args(["--initial-cluster", &all]);
            let peer = format!("http://{peer}");
            command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
            let scheme = if options.tls.is_some() { "https" } else { "http" };
            let clients = format!("{scheme}://{address}");
            command.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
            command.args(["--listen-metrics-urls", &format!("http://{health}")]);
            // One member leads at once. Several must not elect another because one is late on a busy machine.
            let [heartbeat, election] =
                if n_members == 1 { ["50", "500"] } else { ["100", "2000"] };
            command.args(["--heartbeat-interval", heartbeat, "--election-timeout", election]);
            // No test cuts the power. The syncs of other programs must not delay etcd until a seat is lost.
            if !options.syncs && options.program.is_none() {
                command.arg("--unsafe-no-fsync");
            }
            command.args(["--log-level", "error"]).args(options.flags);
            if let Some((certificate, key, ca)) = options.tls {
                command.arg("--cert-file").arg(certificate).arg("--key-file").arg(key);
                command.arg("--client-cert-auth").arg("--trusted-ca-file").arg(ca);
            }
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let child = command.spawn().expect("etcd");
            Member { name: name(n), child, command, address, peer, health, data }
        });
        let members = members.collect();
        let mut cluster = Self { members, all, _ports: ports, _folder: folder };
        cluster.is_up().then_some(cluster)
    }

    /// Waits until every member is healthy. Returns `false` if one has ended instead.
    fn is_up(&mut self) -> bool {
        let began = Instant::now();
        for member in &mut self.members {
            while !is_well(member.health) {
                if member.child.try_wait().expect("a child").is_some() {
                    return false;
                }
                assert!(began.elapsed() < PATIENCE, "etcd is not well");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        true
    }

    /// Returns the hosts and ports at which the members serve clients.
    pub fn addresses(&self) -> Vec<String> {
        self.members.iter().map(|member| member.address.to_string()).collect()
    }

    /// Returns the URL of a store under this prefix.
    pub fn url(&self, prefix: &str) -> String {
        format!("etcd://{}/{prefix}", self.addresses().join(","))
    }

    /// Kills a member with SIGKILL, and waits for its end.
    pub fn kill(&mut self, n: usize) {
        let child = &mut self.members[n].child;
        let _ = child.kill();
        let _ = child.wait();
    }

    /// Restarts a member that was killed, with its data.
    pub fn restart(&mut self, n: usize) {
        let member = &mut self.members[n];
        member.child = member.command.spawn().expect("etcd");
    }

    /// Restarts all members with the data that `etcdctl snapshot save` saved.
    pub fn put_back(&mut self, saved: &Path) {
        for n in 0..self.members.len() {
            self.kill(n);
        }
        for member in &self.members {
            std::fs::remove_dir_all(&member.data).expect("its data");
            let mut command = Command::new("etcdctl");
            command.env("ETCDCTL_API", "3").args(["snapshot", "restore"]).arg(saved);
            command.args(["--name", &member.name, "--initial-cluster", &self.all]);
            command.args(["--initial-advertise-peer-urls", &member.peer]);
            let done = command.arg("--data-dir").arg(&member.data).output().expect("etcdctl");
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        }
        (0..self.members.len()).for_each(|n| self.restart(n));
        assert!(self.is_up(), "a member has ended");
    }

    /// Delays every sync of all members by this time.
    pub fn slow_disks(&self, by: Duration) -> SlowDisks {
        let inject = format!("inject=fdatasync,fsync:delay_exit={}", by.as_micros());
        let slow = |member: &Member| {
            let mut strace = Command::new("strace");
            strace.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync,fsync", "-e"]);
            strace.args([&inject, "-p", &member.child.id().to_string()]);
            strace.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            strace.spawn().expect("strace")
        };
        SlowDisks(self.members.iter().map(slow).collect())
    }

    /// Fills etcd up to its quota, with keys outside any store.
    pub fn fill_up(&self) {
        let value = vec![b'x'; 1 << 20];
        for n in 0..FILLS_MAX {
            let mut command = self.members[0].ctl_command();
            command.args(["put", &format!("/fill/{n}")]).stdin(Stdio::piped());
            command.stdout(Stdio::null()).stderr(Stdio::piped());
            let mut putting = command.spawn().expect("etcdctl");
            // The process can end before it has read all of the value.
            let _ = putting.stdin.take().expect("a pipe").write_all(&value);
            let mut said = String::new();
            let _ = putting.stderr.take().expect("a pipe").read_to_string(&mut said);
            if !putting.wait().expect("a child").success() {
                assert!(said.contains("database space exceeded"), "{said}");
                return;
            }
        }
        panic!("etcd is not full after {FILLS_MAX} MiB");
    }

    /// Sends a signal to a member.
    pub fn signal(&self, n: usize, signal: Signal) {
        kill_process(Pid::from_child(&self.members[n].child), signal).expect("it is there");
    }

    /// Returns the index of the member that leads.
    pub fn leader(&self) -> usize {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            let leads = |member: &Member| {
                let mut command = member.ctl_command();
                // As a variable: etcdctl refuses a flag beside the variable of the same name.
                command.env("ETCDCTL_COMMAND_TIMEOUT", "5s");
                command.args(["endpoint", "status", "--write-out=json"]);
                let said = command.output().expect("etcdctl").stdout;
                let said: serde_json::Value = serde_json::from_slice(&said).ok()?;
                let status = &said[0]["Status"];
                Some(status["leader"] == status["header"]["member_id"])
            };
            if let Some(leader) = self.members.iter().position(|member| leads(member) == Some(true))
            {
                return leader;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("no member leads");
    }

    /// Moves etcd's leadership to another member.
    pub fn move_leader(&self) {
        let (leader, other) = (self.leader(), (self.leader() + 1) % self.members.len());
        let said = self.members[other].ctl(&["endpoint", "status", "--write-out=json"]);
        let said: serde_json::Value = serde_json::from_str(&said.expect("a status")).expect("JSON");
        let id = said[0]["Status"]["header"]["member_id"].as_u64().expect("an id");
        let moved = self.members[leader].ctl(&["move-leader", &format!("{id:x}")]);
        moved.expect("it may be moved");
    }

    /// Runs `etcdctl` with these arguments against the first member. Returns its output.
    pub fn ctl(&self, arguments: &[&str]) -> String {
        self.try_ctl(arguments).unwrap_or_else(|why| panic!("etcdctl {arguments:?}: {why}"))
    }

    /// Runs `etcdctl` too. Returns its error output if it fails.
    pub fn try_ctl(&self, arguments: &[&str]) -> Result<String, String> {
        self.members[0].ctl(arguments)
    }
}

impl Member {
    fn ctl_command(&self) -> Command {
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3");
        // The default timeout is 5 s.
        command.envs([("ETCDCTL_DIAL_TIMEOUT", "60s"), ("ETCDCTL_COMMAND_TIMEOUT", "60s")]);
        command.arg("--endpoints").arg(format!("http://{}", self.address));
        command
    }

    fn ctl(&self, arguments: &[&str]) -> Result<String, String> {
        let mut command = self.ctl_command();
        let output = command.args(arguments).output().expect("etcdctl");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }
}

impl Drop for SlowDisks {
    fn drop(&mut self) {
        for strace in &mut self.0 {
            // On SIGTERM, strace detaches from the process and ends.
            let _ = kill_process(Pid::from_child(strace), Signal::TERM);
            let _ = strace.wait();
        }
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        for member in &mut self.members {
            let _ = member.child.kill();
            let _ = member.child.wait();
        }
    }
}

fn is_well(address: SocketAddr) -> bool {
    let asked = || {
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        stream.write_all(b"GET /health HTTP/1.0\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer.contains("\"health\":\"true\""))
    };
    asked().unwrap_or(false)
}
