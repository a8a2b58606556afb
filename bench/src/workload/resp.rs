//! (j) the same RESP commands to Redis and to Leasehold: `SET NX PX` and delete if equal, one at a time and sixteen at
//! once.

use super::Setting;
use super::rates::add_table;
use crate::contest::{self, Contender};
use crate::load::Work;
use crate::peer::Resp;
use crate::report::Report;

/// For each number of connections, the goal for our rate as a multiple of the rate of Redis.
const GOALS: [(usize, f64); 3] = [(1, 0.95), (64, 1.2), (256, 1.2)];
/// Number of commands in a pipeline.
const PIPELINE: usize = 16;

pub(crate) fn run(setting: &Setting, report: &mut Report) {
    let progress = setting.progress("(j) RESP", 2 * 2 * GOALS.len() * setting.pace.rounds);
    for n_at_once in [1, PIPELINE] {
        let contenders = [
            Contender::new(Resp::leasehold(&setting.data, &setting.binary, n_at_once)),
            Contender::new(Resp::redis(&setting.data, n_at_once)),
        ];
        for (n, goal) in GOALS {
            let series = contest::compare(&contenders, n, setting.pace, Work::Cycle, &progress);
            let title = match n_at_once {
                1 => format!("(j) SET NX PX + delete if equal by RESP, {n} connections"),
                _ => format!(
                    "(j) the same in pipelines of {n_at_once}, {n} connections; each counts as one"
                ),
            };
            add_table(report, &title, &series);
            if n_at_once == 1 {
                let ratio = series[0].ratio(&series[1]);
                report.at_least(format!("(j) {n} connections, of {}", series[1].name), goal, ratio);
            }
        }
    }
    progress.finish_and_clear();
}
