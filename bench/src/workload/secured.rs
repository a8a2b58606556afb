//! (l) the cost of a credential, of TLS and of an audit file per request: each server gets the same number of requests,
//! on 64 connections.
//!
//! At full speed the load itself is slower with a credential, and fewer requests share a commit, so each request seems
//! more expensive than it is. So the goals are judged here, and (a) shows full speed.

use std::time::Duration;

use super::{Setting, rates};
use crate::contest::{self, Contender};
use crate::load::Work;
use crate::peer::{Leasehold, LeaseholdAudit, LeaseholdCredential, LeaseholdTls};
use crate::report::Report;

const N_CONNECTIONS: usize = 64;
/// Together 12,800 requests per second, which is about a third of what one server can handle on two cores.
const EVERY: Duration = Duration::from_millis(10);

/// The goals for the processor time, as a multiple of that of plain HTTP. There is no goal for the audit file.
const GOALS: [(&str, f64); 3] =
    [("leasehold, API key", 1.03), ("leasehold, token", 1.05), ("leasehold, TLS", 1.15)];

pub(crate) fn run(setting: &Setting, report: &mut Report) {
    let (data, binary) = (&setting.data, &setting.binary);
    let contenders = [
        Contender::new(Leasehold::start(data, binary)),
        Contender::new(LeaseholdCredential::key(data, binary)),
        Contender::new(LeaseholdCredential::token(data, binary)),
        Contender::new(LeaseholdTls::start(data, binary)),
        Contender::new(LeaseholdAudit::start(data, binary)),
    ];
    let progress = setting.progress("(l) secured", contenders.len() * setting.pace.rounds);
    let work = Work::Paced { every: EVERY };
    let series = contest::compare(&contenders, N_CONNECTIONS, setting.pace, work, &progress);
    progress.finish_and_clear();
    let title = format!("(l) acquire + release at an equal rate, {N_CONNECTIONS} connections");
    rates::add_table(report, &title, &series);
    let plain = contest::named(&series, "leasehold");
    for (name, wanted) in GOALS {
        let seen = contest::named(&series, name).processor_ratio(plain);
        let what = format!("(l) processor time of {name} over plain HTTP");
        report.ratio_at_most(what, wanted, seen);
    }
}
