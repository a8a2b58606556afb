//! Checks documents against running servers: `walk [name=]ADDRESS... FILE...`.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it is a command")]

use std::collections::BTreeMap;
use std::process::ExitCode;

use leasehold_testkit::Client;
use leasehold_testkit::walk::{Script, Walker};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match walk(std::env::args().skip(1).collect()).await {
        Ok((n_shown, 0)) => {
            println!("{n_shown} sentences, all as the documents say");
            ExitCode::SUCCESS
        }
        Ok((n_shown, n_false)) => {
            eprintln!("{n_false} of {} sentences are not so", n_shown + n_false);
            ExitCode::FAILURE
        }
        Err(why) => {
            eprintln!("walk: {why}");
            ExitCode::from(2)
        }
    }
}

/// Returns how many sentences are true, and how many are not.
async fn walk(arguments: Vec<String>) -> Result<(usize, usize), String> {
    let (files, servers): (Vec<_>, Vec<_>) =
        arguments.into_iter().partition(|argument| argument.ends_with(".txt"));
    let mut clients = BTreeMap::new();
    for server in servers {
        let (name, address) = server.split_once('=').unwrap_or(("default", &server));
        let address = address.parse().map_err(|_| format!("{address} is no address"))?;
        clients.insert(name.to_owned(), Client::new(address));
    }
    let run = format!("{:x}", std::process::id());
    let (mut n_shown, mut n_false) = (0, 0);
    for file in files {
        let text = std::fs::read_to_string(&file).map_err(|error| format!("{file}: {error}"))?;
        let name = file.rsplit('/').next().unwrap_or(&file).trim_end_matches(".txt");
        let script = Script::parse(name, &text)?;
        let mut walker = Walker::new(clients.clone(), &run)?;
        for sentence in &script.sentences {
            match walker.show(sentence).await {
                Ok(()) => {
                    n_shown += 1;
                    println!("ok    {name}  {}", sentence.text);
                }
                Err(why) => {
                    n_false += 1;
                    println!("FALSE {name}  {}\n      {why}", sentence.text);
                }
            }
        }
    }
    Ok((n_shown, n_false))
}
