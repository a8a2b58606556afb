//! `conformance --server BINARY --driver COMMAND... [--only SCRIPT...] [--jobs N] [--write PAGE]`: runs the
//! suite and prints a table.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it is a command")]

use std::process::ExitCode;

use leasehold_conformance::report::{Report, table};
use leasehold_conformance::run::run;
use leasehold_conformance::script::{SCRIPTS, Script};
use leasehold_conformance::world::Setup;

const USAGE: &str =
    "usage: conformance --server BINARY --driver COMMAND... [--only SCRIPT...] [--jobs N] [--write PAGE]

Runs every script, or those named, with each driver against servers of its own, and prints a table. Fails if a script
failed. With --write, the table also goes between the marks in PAGE. A driver's command is split at white space.
scripts/conformance builds all that is needed.";

/// How many scripts run at the same time. They mostly wait.
const N_JOBS: usize = 8;

struct Arguments {
    server: String,
    drivers: Vec<String>,
    scripts: Vec<Script>,
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
    let Arguments { server, drivers, scripts, n_jobs, page } = arguments;
    let mut reports = Vec::new();
    for driver in drivers {
        let setup = Setup {
            server: server.clone().into(),
            driver: driver.split_whitespace().map(Into::into).collect(),
            environment: Vec::new(),
        };
        let mut report = run(&setup, &scripts, n_jobs).await;
        // Two drivers of one SDK are told apart by what they were told last.
        let is_second = reports.iter().any(|other: &Report| other.driver == report.driver);
        if let Some(last) = setup.driver.last().filter(|_| is_second) {
            report.driver = format!("{} {last}", report.driver);
        }
        reports.push(report);
    }
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

/// Puts the table where the page wants it.
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
    if let Some(name) = only.iter().find(|name| !SCRIPTS.iter().any(|it| it.name == **name)) {
        let names: Vec<_> = SCRIPTS.iter().map(|script| script.name).collect();
        return Err(format!("there is no script {name}; there are: {}", names.join(", ")));
    }
    let is_wanted = |script: &&Script| only.is_empty() || only.iter().any(|it| it == script.name);
    let scripts = SCRIPTS.iter().filter(is_wanted).copied().collect();
    let server = server.ok_or("--server is missing")?;
    if drivers.is_empty() {
        return Err("--driver is missing".into());
    }
    Ok(Arguments { server, drivers, scripts, n_jobs: n_jobs.max(1), page })
}
