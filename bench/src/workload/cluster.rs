//! (k) three servers on three etcd members, compared with etcd's own lock service on the same members.

use super::Setting;
use super::rates::add_table;
use crate::contest::{self, Contender};
use crate::load::Work;
use crate::peer::{EtcdLock, LeaseholdOnEtcd, Members};
use crate::report::Report;

const N_CONNECTIONS: usize = 64;

pub(crate) fn run(setting: &Setting, report: &mut Report) {
    let members = Members::start(&setting.data);
    let servers =
        |name, binary: &str| LeaseholdOnEtcd::start(name, &setting.data, binary, &members);
    let mut contenders = vec![
        Contender::new(servers("leasehold-on-etcd", &setting.binary)),
        Contender::new(EtcdLock(members.clone())),
    ];
    if let Some(rival) = &setting.rival {
        contenders.push(Contender::new(servers("rival-on-etcd", rival)).called("rival"));
    }
    let works = [
        (Work::Cycle, "acquire + release of locks of one's own", 5.0),
        (Work::Hot, "one lock that all clients want", 2.0),
    ];
    let n_steps = works.len() * contenders.len() * setting.pace.rounds;
    let progress = setting.progress("(k) etcd", n_steps);
    for (work, what, goal) in works {
        let series = contest::compare(&contenders, N_CONNECTIONS, setting.pace, work, &progress);
        add_table(report, &format!("(k) on etcd, {what}, {N_CONNECTIONS} connections"), &series);
        report.at_least(
            format!("(k) {what}, of {}", series[1].name),
            goal,
            series[0].ratio(&series[1]),
        );
    }
    progress.finish_and_clear();
}
