//! Sizes of files and functions. A larger one hides a concept that deserves a separate file or function.

use crate::tree::Tree;
use crate::{check, planted};

const FILE_LINES_MAX: usize = 450;
const FUNCTION_LINES_MAX: usize = 70;

#[test]
fn no_source_file_is_too_long() {
    check(long_files);
}

#[test]
fn no_function_is_too_long() {
    check(long_functions);
}

fn long_files(tree: &Tree) -> Vec<String> {
    tree.rust()
        .map(|(path, text)| (path, text.lines().count()))
        .filter(|(_, n_lines)| *n_lines > FILE_LINES_MAX)
        .map(|(path, n_lines)| format!("{path}: {n_lines} lines, {FILE_LINES_MAX} at most"))
        .collect()
}

fn long_functions(tree: &Tree) -> Vec<String> {
    let mut offenders = Vec::new();
    for (path, text) in tree.rust() {
        let lines: Vec<_> = text.lines().collect();
        for start in 0..lines.len() {
            let Some(name) = function_name(lines[start]) else { continue };
            let n_lines = function_lines(&lines[start..]);
            if n_lines > FUNCTION_LINES_MAX {
                let at = start + 1;
                offenders.push(format!(
                    "{path}:{at}: `{name}` has {n_lines} lines, {FUNCTION_LINES_MAX} at most"
                ));
            }
        }
    }
    offenders
}

/// Returns the name if a function starts on this line: `fn`, preceded only by its qualifiers.
fn function_name(line: &str) -> Option<&str> {
    let qualifier = |word: &str| {
        matches!(word, "async" | "const" | "default" | "extern" | "unsafe")
            || word.starts_with("pub")
            || word.starts_with('"')
    };
    let mut words = line.split_whitespace().skip_while(|word| qualifier(word));
    let name = words.next().filter(|word| *word == "fn").and_then(|_| words.next())?;
    name.split(['(', '<']).next()
}

/// Returns the number of lines of the function that starts on the first line, including its signature.
///
/// This relies on rustfmt instead of parsing: the signature ends with the first line that ends in `{`, `}` or `;`, and
/// the body with the first `}` at the indentation of the `fn`. So a string with such a `}` in it makes a function
/// appear shorter than it is.
fn function_lines(lines: &[&str]) -> usize {
    let indentation = indentation(lines[0]);
    let signature = lines.iter().position(|line| {
        let code = line.split(" //").next().unwrap_or(line).trim_end();
        code.ends_with(['{', '}', ';'])
    });
    let Some(signature) = signature else { return lines.len() };
    if !lines[signature].split(" //").next().is_some_and(|code| code.trim_end().ends_with('{')) {
        return signature + 1;
    }
    let body = lines[signature + 1..].iter().position(|line| {
        line.trim_start().starts_with('}') && self::indentation(line) == indentation
    });
    body.map_or(lines.len(), |body| signature + 1 + body + 1)
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

#[test]
fn a_long_file_is_found() {
    let long = "// a line\n".repeat(FILE_LINES_MAX + 1);
    let found = planted(long_files, &[("a.rs", &long), ("b.rs", &long[10..]), ("c.txt", &long)]);
    assert_eq!(found, ["a.rs: 451 lines, 450 at most"]);
}

#[test]
fn a_long_function_is_found_wherever_it_stands() {
    let filler = "        work();\n".repeat(FUNCTION_LINES_MAX - 1);
    let body = |head: &str| format!("trait T {{\n    {head}\n{filler}    }}\n}}\n");
    let plain = body("fn plain() {");
    let qualified =
        body("pub(crate) const unsafe extern \"C\" fn qualified<T>(t: T) -> T { // why");
    let wrapped =
        body("async fn wrapped(\n        a: u8,\n    ) -> u8\n    where\n        u8: Copy,\n    {");
    let declared = body(
        "fn declared(\n        a: u8,\n    ) -> u8;\n    fn one_line() {}\n    const X: X = {",
    );
    let found = planted(
        long_functions,
        &[("a.rs", &plain), ("b.rs", &qualified), ("c.rs", &wrapped), ("d.rs", &declared)],
    );
    let expected = [
        "a.rs:2: `plain` has 71 lines, 70 at most",
        "b.rs:2: `qualified` has 71 lines, 70 at most",
        "c.rs:2: `wrapped` has 76 lines, 70 at most",
    ];
    assert_eq!(found, expected);
    let shorter = plain.replacen("        work();\n", "", 1);
    assert_eq!(planted(long_functions, &[("a.rs", &shorter)]), [""; 0]);
}
