//! (a) acquire and release, with separate locks for every connection.

use super::Setting;
use crate::chart::{self, Line};
use crate::contest::{self, Contender, Series};
use crate::load::Work;
use crate::peer::{
    Etcd, Hello, Leasehold, LeaseholdAudit, LeaseholdCredential, LeaseholdHttp2, LeaseholdTls,
    Naive, Redis, Rows, Sync,
};
use crate::report::Report;

const HELLO: &str = "hello (bare hyper)";
const REDIS: &str = "redis, fsync always";

pub(crate) fn run(setting: &Setting, report: &mut Report) {
    let contenders = contenders(setting);
    let n_steps = contenders.len() * setting.connections.len() * setting.pace.rounds;
    let progress = setting.progress("(a) rates", n_steps);
    let mut lines: Vec<Line> =
        contenders.iter().map(|c| Line { name: c.name.into(), rates: Vec::new() }).collect();
    for &n in &setting.connections {
        let series = contest::compare(&contenders, n, setting.pace, Work::Cycle, &progress);
        for (line, series) in lines.iter_mut().zip(&series) {
            line.rates.push(series.spread().median);
        }
        add_table(report, &format!("(a) acquire + release, {n} connections"), &series);
        add_targets(report, n, &series);
    }
    progress.finish_and_clear();
    std::fs::write(setting.out.join("rates.svg"), chart::draw(&setting.connections, &lines))
        .expect("a chart");
}

fn contenders(setting: &Setting) -> Vec<Contender> {
    let data = &setting.data;
    let takes_part =
        |name: &str| setting.peers.is_empty() || setting.peers.iter().any(|peer| peer == name);
    let mut all = vec![Contender::new(Leasehold::start(data, &setting.binary))];
    if let Some(rival) = &setting.rival {
        all.push(Contender::new(Leasehold::start(&data.join("rival"), rival)).called("rival"));
    }
    if takes_part("http2") {
        all.push(Contender::new(LeaseholdHttp2::start(data, &setting.binary)));
    }
    if takes_part("key") {
        all.push(Contender::new(LeaseholdCredential::key(data, &setting.binary)));
    }
    if takes_part("token") {
        all.push(Contender::new(LeaseholdCredential::token(data, &setting.binary)));
    }
    // There is no goal for the audit file, so it is measured only on request.
    if setting.peers.iter().any(|peer| peer == "audit") {
        all.push(Contender::new(LeaseholdAudit::start(data, &setting.binary)));
    }
    if takes_part("tls") {
        all.push(Contender::new(LeaseholdTls::start(data, &setting.binary)));
    }
    if takes_part("hello") {
        all.push(Contender::new(Hello::start(data)));
    }
    if takes_part("redis") {
        all.push(Contender::new(Redis::start(data, Sync::Always)));
        all.push(Contender::new(Redis::start(data, Sync::Everysec)));
    }
    if takes_part("etcd") {
        all.push(Contender::new(Etcd::start(data)));
    }
    if takes_part("postgres") {
        let rows = Rows::start(data);
        all.push(Contender::new(rows.advisory()));
        all.push(Contender::new(rows));
    }
    if takes_part("naive") {
        all.push(Contender::new(Naive::start(data)));
    }
    all
}

/// Adds a table with one row for each peer, and our rate as a multiple of the rate of the peer.
pub(super) fn add_table(report: &mut Report, title: &str, series: &[Series]) {
    let ours = contest::named(series, "leasehold");
    let row = |series: &Series| {
        let (rate, ratio) = (series.spread(), ours.ratio(series));
        vec![
            series.name.into(),
            format!("{:.0} ({:.0}..{:.0})", rate.median, rate.min, rate.max),
            format!("{:.2} ({:.2}..{:.2})", ratio.median, ratio.min, ratio.max),
            format!("{:.2}", series.total.ms(0.5)),
            format!("{:.2}", series.total.ms(0.99)),
            format!("{:.2}", series.total.ms(0.999)),
            format!("{:.1}", series.total.processor_us()),
        ]
    };
    let columns = [
        "peer",
        "requests/s",
        "leasehold is so many times that",
        "cycle p50 ms",
        "p99",
        "p99.9",
        "processor us/request",
    ];
    report.table(title, &columns, series.iter().map(row).collect());
}

fn add_targets(report: &mut Report, n: usize, series: &[Series]) {
    let ours = contest::named(series, "leasehold");
    let mut target = |of: &str, wanted: f64| {
        let what = format!("(a) {n} connections, of {of}");
        if let Some(theirs) = series.iter().find(|series| series.name == of) {
            report.at_least(what, wanted, ours.ratio(theirs));
        }
    };
    match n {
        1 => target(REDIS, 0.9),
        8 => target(REDIS, 1.5),
        64 => {
            target(HELLO, 0.70);
            target(REDIS, 1.15);
            target("etcd", 10.0);
            target("postgres, a row", 5.0);
            target("one SQLite transaction each", 14.0);
        }
        256 => {
            target(HELLO, 0.80);
            target(REDIS, 0.95);
        }
        _ => {}
    }
}
