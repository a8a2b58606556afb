//! The script format: one command per line, `verb target key=value flag ...`.

mod parse;
mod print;

use std::collections::BTreeMap;

use leasehold_core::{Change, Limits, LockKey, Machine, Secret, Timestamp, invariant};

use parse::Line;

/// Runs a script and returns it with the actual results inserted.
pub(crate) fn run(script: &str) -> Result<String, String> {
    let mut world = World::new(Limits::default());
    let mut printed = String::new();
    for (n, text) in script.lines().enumerate().filter(|(_, text)| !text.starts_with("  ")) {
        printed.push_str(text);
        printed.push('\n');
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let output = world.step(text).map_err(|error| format!("line {}: {error}", n + 1))?;
        for line in output {
            printed.push_str(&format!("  {line}\n"));
        }
    }
    Ok(printed)
}

struct World {
    machine: Machine,
    /// Only absorbs the machine's changes. Its state must equal the machine's after every step.
    follower: Machine,
    now: Timestamp,
    locks: BTreeMap<LockKey, ()>,
    n_secrets: u8,
}

impl World {
    fn new(limits: Limits) -> Self {
        Self {
            machine: Machine::new(limits.clone(), 1),
            follower: Machine::new(limits, 2),
            now: Timestamp::ZERO,
            locks: BTreeMap::new(),
            n_secrets: 0,
        }
    }

    fn step(&mut self, text: &str) -> Result<Vec<String>, String> {
        let line = Line::parse(text)?;
        let printed = match line.verb {
            "limits" => {
                *self = Self::new(line.limits()?);
                vec![]
            }
            "at" => {
                self.now = Timestamp::ZERO + parse::span(line.target()?)?;
                vec![]
            }
            "due" => vec![format!("{:?}", self.machine.next_deadline())],
            "reload" => {
                let rows = self.machine.export();
                let limits = self.machine.limits().clone();
                self.machine = Machine::import(limits, 3, rows).map_err(|e| e.to_string())?;
                self.machine.absorbed();
                self.print_state()
            }
            _ => self.command(&line)?,
        };
        line.check_all_used()?;
        Ok(printed)
    }

    fn command(&mut self, line: &Line<'_>) -> Result<Vec<String>, String> {
        self.n_secrets += 1;
        let command = line.command(Secret([self.n_secrets; 16]), &self.machine)?;
        let applied = self.machine.apply(self.now, command);
        let mut printed = vec![print::outcome(&applied.outcome, self.now)];
        printed.extend(applied.changes.iter().map(|change| format!("+ {}", print::change(change))));
        if !applied.wakeups.is_empty() {
            printed.push(format!("wakes {:?}", applied.wakeups));
        }
        for change in &applied.changes {
            if let Change::LeaseAdded(record) = change {
                self.locks.insert(record.lock.clone(), ());
            }
        }
        printed.extend(self.print_state());
        invariant::check(&self.machine)?;
        self.follow(&applied.changes)?;
        Ok(printed)
    }

    fn follow(&mut self, changes: &[Change]) -> Result<(), String> {
        self.follower.absorb(self.machine.now(), changes).map_err(|e| e.to_string())?;
        let [ours, theirs] =
            [&self.machine, &self.follower].map(|machine| machine.export()[1..].to_vec());
        if ours == theirs { Ok(()) } else { Err(format!("absorbed {theirs:#?}, not {ours:#?}")) }
    }

    fn print_state(&self) -> Vec<String> {
        self.locks.keys().map(|key| print::lock(key, &self.machine)).collect()
    }
}
