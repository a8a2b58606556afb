//! Runs all drivers in one cluster, and causes faults of its leaders.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::part::{Part, Step, prefix};
use super::{Cluster, N_SERVERS};
use crate::flaw::{Flaw, Outcome, broken};
use crate::lag::Lag;
use crate::report::{Report, Verdict};
use crate::run::{is_to_be_repeated, trace};
use crate::subject::{Setup, Subject};

/// The faults of a leader, in order. Each is a separate line in the table.
pub const NAMES: [&str; 2] = ["leader_killed", "leader_paused"];
const KILLED: usize = 0;
const PAUSED: usize = 1;

/// The time limit of a step of a driver.
const STEP_MAX: Duration = Duration::from_secs(240);

/// Runs all these drivers at the same time. Returns a report for each.
pub async fn run(setups: &[Setup]) -> Vec<Report> {
    let mut n_tries = 0;
    loop {
        n_tries += 1;
        let lag = Lag::watch();
        let mut told = try_once(setups).await;
        // A flaw of a driver with a deliberate bug is not a reason to repeat the run.
        let sound = setups.iter().zip(&told).filter(|(setup, _)| setup.environment.is_empty());
        let flaws = sound.flat_map(|(_, it)| &it.verdicts).filter_map(|it| it.flaw.as_ref());
        if !is_to_be_repeated(flaws, &lag, n_tries) {
            for verdict in told.iter_mut().flat_map(|it| &mut it.verdicts) {
                (verdict.n_tries, verdict.lag) = (n_tries, lag.max());
            }
            return told;
        }
    }
}

async fn try_once(setups: &[Setup]) -> Vec<Report> {
    let start = Instant::now();
    let untold = |setup: &Setup| Report {
        driver: setup.driver.join(" "),
        verdicts: NAMES.map(Verdict::new).into(),
    };
    let mut told: Vec<_> = setups.iter().map(untold).collect();
    let befallen = befall(setups, &mut told).await;
    for verdict in told.iter_mut().flat_map(|report| &mut report.verdicts) {
        if let Err(flaw) = &befallen {
            verdict.flaw.get_or_insert_with(|| flaw.clone());
        }
        verdict.took = start.elapsed();
    }
    told
}

/// Causes the faults. An error is a flaw of the suite or of the servers, and is reported for every driver without a
/// flaw.
async fn befall(setups: &[Setup], told: &mut [Report]) -> Outcome {
    let Some(first) = setups.first() else { return Ok(()) };
    let cluster = Arc::new(Cluster::start(&first.server).await?);
    let mut scene = Scene::open(cluster.clone(), setups, told).await?;

    let (killed, since) = (scene.leader, Instant::now());
    cluster.kill(killed).await;
    let leader = cluster.leader(&[killed]).await?;
    let follower = (0..N_SERVERS).find(|n| ![killed, leader].contains(n)).unwrap_or(leader);
    scene.each(KILLED, Step::IsRenewed { since, but: killed }).await;
    scene.each(KILLED, Step::GoesOn { leader, follower, newcomer: "erin" }).await;
    scene.each(KILLED, Step::Wait { leader }).await;

    let (paused, since) = (leader, Instant::now());
    cluster.servers[paused].stop();
    let leader = cluster.leader(&[killed, paused]).await;
    if leader.is_ok() {
        // While the leader is suspended, another server must lead.
        scene.each(PAUSED, Step::IsRenewed { since, but: paused }).await;
    }
    cluster.servers[paused].go_on();
    let leader = leader?;
    scene.each(PAUSED, Step::GoesOn { leader, follower: paused, newcomer: "frank" }).await;
    scene.end(PAUSED, leader).await;
    Ok(())
}

/// The drivers without a flaw so far, and the reports of all drivers.
struct Scene<'a> {
    cluster: Arc<Cluster>,
    /// The leader at the start.
    leader: usize,
    subjects: Vec<Arc<Subject>>,
    parts: Vec<(usize, Part)>,
    told: &'a mut [Report],
}

impl<'a> Scene<'a> {
    async fn open(
        cluster: Arc<Cluster>,
        setups: &[Setup],
        told: &'a mut [Report],
    ) -> Outcome<Self> {
        let leader = cluster.leader(&[]).await?;
        let mut subjects = Vec::new();
        for (setup, report) in setups.iter().zip(&mut *told) {
            let subject = Subject::start(setup).await?;
            report.driver.clone_from(&subject.name);
            subjects.push(Arc::new(subject));
        }
        let begin = |(n, subject): (usize, &Arc<Subject>)| {
            let (cluster, subject) = (cluster.clone(), subject.clone());
            (n, in_time(async move { Part::begin(cluster, subject, n, leader).await }))
        };
        let begun = at_once(subjects.iter().enumerate().map(begin)).await;
        let mut scene = Self { cluster, leader, subjects, parts: Vec::new(), told };
        for (n, begun) in begun {
            match begun {
                Ok(part) => scene.parts.push((n, part)),
                Err(flaw) => scene.fails(n, KILLED, &flaw),
            }
        }
        Ok(scene)
    }

    /// Makes each driver take this step. A driver with a flaw is removed.
    async fn each(&mut self, name: usize, step: Step) {
        let parts = std::mem::take(&mut self.parts);
        let live = |(n, mut part): (usize, Part)| {
            let lived = async move { part.live(step).await.map(|()| part) };
            (n, in_time(lived))
        };
        for (n, lived) in at_once(parts.into_iter().map(live)).await {
            match lived {
                Ok(part) => self.parts.push((n, part)),
                Err(flaw) => self.fails(n, name, &flaw),
            }
        }
    }

    async fn end(&mut self, name: usize, leader: usize) {
        let parts = std::mem::take(&mut self.parts);
        let end = |(n, part): (usize, Part)| (n, in_time(part.end(leader)));
        for (n, ended) in at_once(parts.into_iter().map(end)).await {
            if let Err(flaw) = ended {
                self.fails(n, name, &flaw);
            }
        }
    }

    /// Reports a flaw of a driver for the current fault and for all later ones.
    fn fails(&mut self, n: usize, name: usize, flaw: &Flaw) {
        let seen = self.cluster.log.show(self.cluster.start, &prefix(n));
        for verdict in &mut self.told[n].verdicts[name..] {
            verdict.flaw = Some(flaw.clone());
            verdict.trace = trace(&self.subjects[n], &seen);
        }
    }
}

async fn in_time<T>(step: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    let late = |_| Flaw::Wrong(format!("not done after {STEP_MAX:?}"));
    tokio::time::timeout(STEP_MAX, step).await.map_err(late)?
}

/// Runs all futures at the same time.
async fn at_once<T: Send + 'static>(
    asked: impl Iterator<Item = (usize, impl Future<Output = Outcome<T>> + Send + 'static)>,
) -> Vec<(usize, Outcome<T>)> {
    let running: Vec<_> = asked.map(|(n, asked)| (n, tokio::spawn(asked))).collect();
    let mut done = Vec::new();
    for (n, running) in running {
        let panicked = |why| Err(broken(format!("it panicked: {why}")));
        done.push((n, running.await.unwrap_or_else(panicked)));
    }
    done
}
