//! (b) one lock that all clients want: grants per second.

use super::Setting;
use crate::contest::{self, Contender, Series};
use crate::load::Work;
use crate::peer::{Etcd, Leasehold, Redis, Rows, Sync};
use crate::report::Report;

const N_CONTENDERS: usize = 64;

pub(crate) fn run(setting: &Setting, report: &mut Report) {
    let data = &setting.data;
    let contenders = [
        Contender::new(Leasehold::start(data, &setting.binary)),
        Contender::new(Redis::start(data, Sync::Always)),
        Contender::new(Etcd::start(data)),
        Contender::new(Rows::start(data)),
    ];
    let progress = setting.progress("(b) hot", contenders.len() * setting.pace.rounds);
    let series = contest::compare(&contenders, N_CONTENDERS, setting.pace, Work::Hot, &progress);
    progress.finish_and_clear();
    let ours = contest::named(&series, "leasehold");
    let row = |series: &Series| {
        let (rate, ratio) = (series.spread(), ours.ratio(series));
        vec![
            series.name.into(),
            format!("{:.0} ({:.0}..{:.0})", rate.median, rate.min, rate.max),
            format!("{:.1} ({:.1}..{:.1})", ratio.median, ratio.min, ratio.max),
            format!("{:.1}", series.total.ms(0.5)),
            format!("{:.1}", series.total.ms(0.99)),
        ]
    };
    let columns = ["peer", "grants/s", "leasehold is so many times that", "wait p50 ms", "p99"];
    let title = format!(
        "(b) one lock, {N_CONTENDERS} contenders (leasehold, etcd: queue; others poll every 5 ms)"
    );
    report.table(&title, &columns, series.iter().map(row).collect());
    let of = |name| ours.ratio(contest::named(&series, name));
    report.at_least("(b) grants, of etcd Lock", 5.0, of("etcd"));
    report.at_least("(b) grants, of redis polling", 3.0, of("redis, fsync always"));
}
