//! `conformance --server BINARY --driver COMMAND... [--only SCRIPT...] [--jobs N] [--write PAGE]`: runs the
//! suite and prints a table.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it is a command")]

use std::process::ExitCode;

use leasehold_conformance::cluster;
use leasehold_conformance::report::{Report, table};
use leasehold_conformance::run::run;
use leasehold_conformance::script::{SCRIPTS, Script, names};
use leasehold_conformance::subject::Setup;

const USAGE: &str =
    "usage: conformance --server BINARY --driver COMMAND... [--only SCRIPT...] [--jobs N] [--write PAGE]

Runs every script, or those named, with each driver against servers of its own, then all drivers together in one
cluster, and prints a table. Fails if a script failed. With --write, the table also goes between the marks in PAGE. A
driver's command is split at white space.
scripts/conformance builds all that is needed.";

/// How many scripts run at the same time. They spend most of their time waiting.
const N_JOBS: usize = 8;

struct Arguments {
    server: String,
    drivers: Vec<String>,
    scripts: Vec<Script>,
    has_cluster: bool,
    n_jobs: usize,
    page: Option<String>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = match read(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(why) => {
            eprintln!("{why}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let Arguments { server, drivers, scripts, has_cluster, n_jobs, page } = arguments;
    let setup = |driver: &String| Setup {
        server: server.clone().into(),
        driver: driver.split_whitespace().map(Into::into).collect(),
        environment: Vec::new(),
    };
    let setups: Vec<_> = drivers.iter().map(setup).collect();
    let mut reports = Vec::new();
    for setup in &setups {
        reports.push(run(setup, &scripts, n_jobs).await);
    }
    if has_cluster {
        for (report, together) in reports.iter_mut().zip(cluster::run(&setups).await) {
            report.driver = together.driver;
            report.verdicts.extend(together.verdicts);
        }
    }
    tell_apart(&mut reports, &setups);
    let is_good = reports.iter().all(|report| report.is_good());
    for report in &reports {
        eprint!("{}{}", report.repeated(), report.failures());
    }
    print!("{}", table(&reports));
    if let Some(Err(why)) = page.map(|page| write(&page, &table(&reports))) {
        eprintln!("{why}");
        return ExitCode::FAILURE;
    }
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Distinguishes two drivers of one SDK by the last argument of their commands.
fn tell_apart(reports: &mut [Report], setups: &[Setup]) {
    for (n, setup) in setups.iter().enumerate() {
        let (before, rest) = reports.split_at_mut(n);
        let is_second = before.iter().any(|other| other.driver == rest[0].driver);
        if let Some(last) = setup.driver.last().filter(|_| is_second) {
            rest[0].driver = format!("{} {last}", rest[0].driver);
        }
    }
}

/// Writes the table to its place in the page.
fn write(page: &str, table: &str) -> Result<(), String> {
    const MARKS: [&str; 2] = ["<!-- results -->\n", "<!-- end of results -->\n"];
    let text = std::fs::read_to_string(page).map_err(|why| format!("{page}: {why}"))?;
    let split = text.split_once(MARKS[0]);
    let split = split.and_then(|(before, rest)| Some((before, rest.split_once(MARKS[1])?.1)));
    let (before, after) = split.ok_or_else(|| format!("{page}: it has no {MARKS:?}"))?;
    let text = format!("{before}{}{table}{}{after}", MARKS[0], MARKS[1]);
    std::fs::write(page, text).map_err(|why| format!("{page}: {why}"))
}

fn read(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let (mut server, mut drivers, mut only, mut n_jobs) = (None, Vec::new(), Vec::new(), N_JOBS);
    let mut page = None;
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--server" => server = Some(value()?),
            "--driver" => drivers.push(value()?),
            "--only" => only.push(value()?),
            "--write" => page = Some(value()?),
            "--jobs" => n_jobs = value()?.parse().map_err(|_| "--jobs needs a number")?,
            _ => return Err(format!("{word} is not known")),
        }
    }
    let names: Vec<_> = names().collect();
    if let Some(name) = only.iter().find(|name| !names.contains(&name.as_str())) {
        return Err(format!("there is no script {name}; there are: {}", names.join(", ")));
    }
    let is_wanted = |name: &str| only.is_empty() || only.iter().any(|it| it == name);
    let scripts = SCRIPTS.iter().filter(|script| is_wanted(script.name)).copied().collect();
    let has_cluster = cluster::NAMES.into_iter().any(is_wanted);
    let server = server.ok_or("--server is missing")?;
    if drivers.is_empty() {
        return Err("--driver is missing".into());
    }
    Ok(Arguments { server, drivers, scripts, has_cluster, n_jobs: n_jobs.max(1), page })
}
