//! The report of a run: tables for people, JSON for programs, and a chart.

use serde::Serialize;

use crate::contest::Spread;

/// All results of a run.
#[derive(Default, Serialize)]
pub(crate) struct Report {
    /// The machine, its disk and the versions of the programs.
    pub(crate) facts: Vec<(String, String)>,
    pub(crate) tables: Vec<Table>,
    pub(crate) targets: Vec<Target>,
}

#[derive(Serialize)]
pub(crate) struct Table {
    pub(crate) title: String,
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// A goal: a figure that should be at least, or at most, `wanted`.
#[derive(Serialize)]
pub(crate) struct Target {
    pub(crate) what: String,
    pub(crate) wanted: f64,
    pub(crate) at_least: bool,
    pub(crate) seen: f64,
    pub(crate) spread: Option<Spread>,
}

impl Target {
    fn is_met(&self) -> bool {
        if self.at_least { self.seen >= self.wanted } else { self.seen <= self.wanted }
    }
}

impl Report {
    pub(crate) fn fact(&mut self, name: &str, value: impl Into<String>) {
        self.facts.push((name.into(), value.into()));
    }

    pub(crate) fn table(&mut self, title: &str, columns: &[&str], rows: Vec<Vec<String>>) {
        let columns = columns.iter().map(|column| column.to_string()).collect();
        self.tables.push(Table { title: title.into(), columns, rows });
    }

    /// Adds the goal that a ratio is at least `wanted`.
    pub(crate) fn at_least(&mut self, what: impl Into<String>, wanted: f64, spread: Spread) {
        let (what, seen) = (what.into(), spread.median);
        self.targets.push(Target { what, wanted, at_least: true, seen, spread: Some(spread) });
    }

    /// Adds the goal that a figure is at most `wanted`.
    pub(crate) fn at_most(&mut self, what: impl Into<String>, wanted: f64, seen: f64) {
        let what = what.into();
        self.targets.push(Target { what, wanted, at_least: false, seen, spread: None });
    }

    /// Adds the goal that a ratio is at most `wanted`.
    pub(crate) fn ratio_at_most(&mut self, what: impl Into<String>, wanted: f64, spread: Spread) {
        let (what, seen) = (what.into(), spread.median);
        self.targets.push(Target { what, wanted, at_least: false, seen, spread: Some(spread) });
    }

    pub(crate) fn markdown(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.facts {
            text += &format!("- {name}: {value}\n");
        }
        for table in &self.tables {
            text += &format!("\n### {}\n\n{}", table.title, lines(&table.columns, &table.rows));
        }
        if !self.targets.is_empty() {
            let columns = ["measure", "target", "seen", ""].map(String::from);
            let rows: Vec<_> = self.targets.iter().map(row).collect();
            text += &format!("\n### Targets\n\n{}", lines(&columns, &rows));
        }
        text
    }
}

fn row(target: &Target) -> Vec<String> {
    let sign = if target.at_least { ">=" } else { "<=" };
    let seen = match target.spread {
        Some(Spread { median, min, max }) => format!("{median:.2} ({min:.2}..{max:.2})"),
        None => format!("{:.2}", target.seen),
    };
    let verdict = if target.is_met() { "met" } else { "**not met**" };
    vec![target.what.clone(), format!("{sign} {}", target.wanted), seen, verdict.into()]
}

fn lines(columns: &[String], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let rule: Vec<_> = columns.iter().map(|_| "---".to_owned()).collect();
    let rows: String = rows.iter().map(|row| line(row)).collect();
    line(columns) + &line(&rule) + &rows
}
