//! Parses a walk-through line by line.

use hyper::Method;

/// A walk-through of one document.
pub struct Script {
    /// Its name.
    pub name: String,
    /// The sentences, in order.
    pub sentences: Vec<Sentence>,
}

/// A sentence, and the steps that show that it is true.
pub struct Sentence {
    /// The text in the document.
    pub text: String,
    pub(super) steps: Vec<Step>,
}

#[derive(Clone, Debug)]
pub(super) enum Step {
    Call(Call),
    Race(usize, Call),
    Once(u16, u16),
    Expect(u16, String),
    Header(String, String),
    Contains(String),
    Keep(String, String),
    Compare(String, char, String),
    Wait(u64),
    Server(String),
}

#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) body: String,
    pub(super) headers: Vec<(String, String)>,
}

impl Script {
    /// Parses a walk-through. An error names the line.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        let mut sentences: Vec<Sentence> = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let why = |why: &str| format!("{name}, line {}: {why}: {line}", number + 1);
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(text) = line.strip_prefix("- ") {
                sentences.push(Sentence { text: text.into(), steps: Vec::new() });
                continue;
            }
            let sentence = sentences.last_mut().ok_or_else(|| why("before any sentence"))?;
            match (line.split_once(": "), line.strip_prefix("> ")) {
                (Some((_, value)), Some(header)) => {
                    let name = header.split_once(": ").map_or("", |(name, _)| name);
                    let Some(Step::Call(call)) = sentence.steps.last_mut() else {
                        return Err(why("a header without a call"));
                    };
                    call.headers.push((name.into(), value.into()));
                }
                _ => sentence.steps.push(step(line).ok_or_else(|| why("what is this"))?),
            }
        }
        let empty = sentences.iter().find(|sentence| sentence.steps.is_empty());
        match empty {
            Some(sentence) => Err(format!("{name}: nothing shows {:?}", sentence.text)),
            None => Ok(Self { name: name.into(), sentences }),
        }
    }
}

fn step(line: &str) -> Option<Step> {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    let rest = rest.trim();
    let pair = |text: &str| text.split_once(' ').map(|(a, b)| (a.to_owned(), b.trim().to_owned()));
    Some(match word {
        "wait" => Step::Wait(rest.parse().ok()?),
        "server" => Step::Server(rest.into()),
        "race" => {
            let (n, call) = rest.split_once(' ')?;
            Step::Race(n.parse().ok()?, parse_call(call)?)
        }
        "once" => {
            let (one, others) = rest.split_once(" else ")?;
            Step::Once(one.parse().ok()?, others.parse().ok()?)
        }
        "check" => {
            let words: Vec<_> = rest.split(' ').collect();
            let [a, sign @ (">" | "<" | "="), b] = words[..] else { return None };
            Step::Compare(a.into(), sign.chars().next()?, b.into())
        }
        "=" => {
            let (status, body) = rest.split_once(' ').unwrap_or((rest, ""));
            Step::Expect(status.parse().ok()?, body.trim().into())
        }
        "<" => pair(rest).map(|(name, text)| Step::Header(name, text))?,
        "~" => Step::Contains(rest.into()),
        _ if word.starts_with('$') => {
            let pointer = rest.strip_prefix("= ")?;
            Step::Keep(word[1..].into(), pointer.into())
        }
        _ => Step::Call(parse_call(line)?),
    })
}

fn parse_call(text: &str) -> Option<Call> {
    let (method, rest) = text.split_once(' ')?;
    let is_method = method.bytes().all(|byte| byte.is_ascii_uppercase());
    let method = Method::from_bytes(method.as_bytes()).ok().filter(|_| is_method)?;
    let (path, body) = rest.split_once(' ').unwrap_or((rest, ""));
    Some(Call { method, path: path.into(), body: body.trim().into(), headers: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_sense_is_named_with_its_line() {
        for (text, why) in [
            ("GET /x", "line 1: before any sentence"),
            ("- a\nfoo", "line 2: what is this"),
            ("- a\n= many", "line 2: what is this"),
            ("- a\n> x: y", "line 2: a header without a call"),
            ("- a\n\n- b\nGET /", "nothing shows \"a\""),
        ] {
            let error = Script::parse("walk", text).err().unwrap_or_default();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
