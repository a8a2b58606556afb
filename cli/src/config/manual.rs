//! Generates docs/reference/settings.md, the page with all settings, from the help texts. A test keeps the page up to
//! date.

use std::fmt::Write;
use std::path::Path;

use clap::Arg;

use super::file;

/// The heading for settings that have none.
const SERVER: &str = "Server";
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/settings.md");
const HEAD: &str = "\
# Settings

Every setting of `leasehold serve` has three forms:

- a flag: `--fold-interval 5s`
- an environment variable: `LEASEHOLD_FOLD_INTERVAL=5s`
- a key in the TOML file of `--config`: `fold-interval = \"5s\"`

A flag overrides the variable, the variable overrides the file, and the file overrides the default. To see which values
your server would use and where each one comes from, run `leasehold check-config`.

You need few of these settings. [Run as a service](../operate/service.md) and [Sizing](../operate/sizing.md) explain the
important ones. [Ports and firewall](ports.md) lists every setting that opens a port.

`UPDATE_DOCS=1 cargo test -p leasehold-cli manual` generates this page from the text of `leasehold serve --help`.
";

fn page() -> String {
    let command = file::settings();
    let heading = |arg: &Arg| arg.get_help_heading().unwrap_or(SERVER).to_owned();
    let settings: Vec<_> = command
        .get_arguments()
        .filter(|arg| arg.get_long().is_some() && arg.get_env().is_some())
        .collect();
    let mut headings: Vec<String> = Vec::new();
    for setting in &settings {
        if !headings.contains(&heading(setting)) {
            headings.push(heading(setting));
        }
    }
    let mut text = String::from(HEAD);
    for group in headings {
        let _ =
            writeln!(text, "\n## {group}\n\n| setting | default | meaning |\n| --- | --- | --- |");
        for setting in settings.iter().filter(|setting| heading(setting) == group) {
            let _ = writeln!(text, "{}", row(setting));
        }
    }
    text
}

fn row(arg: &Arg) -> String {
    let defaults: Vec<_> =
        arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    // A default that is not a fixed value is the end of the help text.
    let (help, described) =
        match help.strip_suffix(']').and_then(|help| help.rsplit_once(" [default: ")) {
            Some((help, default)) => (help.to_owned(), default.to_owned()),
            None => (help, "none".to_owned()),
        };
    let default = match defaults.join(",") {
        none if none.is_empty() => described,
        value => format!("`{value}`"),
    };
    let possible = arg.get_possible_values();
    let possible: Vec<_> = possible.iter().map(|value| format!("`{}`", value.get_name())).collect();
    let is_choice = !possible.is_empty()
        && !matches!(possible.as_slice(), [t, f] if t == "`true`" && f == "`false`");
    let choice =
        if is_choice { format!(" One of {}.", possible.join(", ")) } else { String::new() };
    let about = format!("{help}{}{choice}", if help.ends_with(['.', ')']) { "" } else { "." });
    format!(
        "| `{}` | {default} | {} |",
        arg.get_long().unwrap_or_default(),
        about.replace('|', "\\|")
    )
}

#[test]
fn the_manual_has_every_setting_as_help_shows_it() {
    let page = page();
    assert!(page.matches("\n| `").count() > 100, "{page}");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(PAGE, &page).expect("the page");
    }
    let written = std::fs::read_to_string(Path::new(PAGE)).unwrap_or_default();
    for (line, (is, should)) in written.lines().zip(page.lines()).enumerate() {
        let at = line + 1;
        assert_eq!(is, should, "docs/reference/settings.md:{at}: UPDATE_DOCS=1 regenerates it");
    }
    assert_eq!(
        written.lines().count(),
        page.lines().count(),
        "docs/reference/settings.md: UPDATE_DOCS=1 regenerates it"
    );
}
