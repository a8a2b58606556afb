//! Runs a walk-through step by step.

use std::collections::BTreeMap;
use std::time::Duration;

use super::answer::differs;
use super::script::{Call, Sentence, Step};
use crate::client::{Client, Response};

/// The state of a walk: the servers, and the values kept so far.
pub struct Walker {
    servers: BTreeMap<String, Client>,
    here: Client,
    kept: BTreeMap<String, String>,
    last: Option<Response>,
    raced: Vec<u16>,
}

impl Walker {
    /// Starts at the server named `default`, among others. `run` should be different each time.
    pub fn new(servers: BTreeMap<String, Client>, run: &str) -> Result<Self, String> {
        let here = servers.get("default").cloned().ok_or("there is no default server")?;
        let kept = BTreeMap::from([("run".into(), run.into())]);
        Ok(Self { servers, here, kept, last: None, raced: Vec::new() })
    }

    /// Shows that a sentence is true. The error names the step at which it is not.
    pub async fn show(&mut self, sentence: &Sentence) -> Result<(), String> {
        for step in &sentence.steps {
            self.step(step).await.map_err(|why| format!("{step:?}: {why}"))?;
        }
        Ok(())
    }

    async fn step(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Call(call) => {
                self.last = Some(self.send(call).await?);
                Ok(())
            }
            Step::Race(n, call) => self.race(*n, call).await,
            Step::Once(one, others) => self.check_race(*one, *others),
            Step::Expect(status, body) => self.expect(*status, body),
            Step::Header(name, text) => self.expect_header(name, &self.filled(text)),
            Step::Contains(text) => self.expect_text(&self.filled(text)),
            Step::Keep(name, pointer) => self.keep(name, pointer),
            Step::Compare(a, sign, b) => self.compare(a, *sign, b),
            Step::Wait(ms) => {
                tokio::time::sleep(Duration::from_millis(*ms)).await;
                Ok(())
            }
            Step::Server(name) => {
                let there = self.servers.get(name).ok_or("there is no such server")?;
                self.here = there.clone();
                Ok(())
            }
        }
    }

    async fn send(&self, call: &Call) -> Result<Response, String> {
        let (path, body) = (self.filled(&call.path), self.filled(&call.body));
        // A response might contain a whole URL.
        let path = path
            .strip_prefix("http://")
            .map_or(path.as_str(), |rest| rest.find('/').map_or("/", |slash| &rest[slash..]));
        let mut headers: Vec<_> =
            call.headers.iter().map(|(name, value)| (name.as_str(), self.filled(value))).collect();
        if body.starts_with('{') {
            headers.push(("content-type", "application/json".into()));
        }
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let sent = self.here.send_with(call.method.clone(), path, &headers, body);
        sent.await.map_err(|error| error.to_string())
    }

    async fn race(&mut self, n: usize, call: &Call) -> Result<(), String> {
        let mut runners = tokio::task::JoinSet::new();
        for number in 0..n {
            let kept = self.kept.iter().map(|(k, v)| (k.clone(), v.clone()));
            let kept = kept.chain([("n".into(), number.to_string())]).collect();
            let (servers, here) = (BTreeMap::new(), self.here.clone());
            let runner = Self { servers, here, kept, last: None, raced: Vec::new() };
            let call = call.clone();
            runners.spawn(async move { runner.send(&call).await.map(|answer| answer.status) });
        }
        self.raced = runners.join_all().await.into_iter().collect::<Result<_, _>>()?;
        Ok(())
    }

    fn check_race(&self, one: u16, others: u16) -> Result<(), String> {
        let n = |status| self.raced.iter().filter(|raced| **raced == status).count();
        let is_right = n(one) == 1 && n(others) + 1 == self.raced.len();
        if is_right { Ok(()) } else { Err(format!("{:?}", self.raced)) }
    }

    fn expect(&self, status: u16, body: &str) -> Result<(), String> {
        let last = self.last()?;
        if last.status != status {
            return Err(format!("answered {} {}", last.status, last.text));
        }
        if body.is_empty() {
            return Ok(());
        }
        let expected =
            serde_json::from_str(&self.filled(body)).map_err(|error| error.to_string())?;
        match differs(&expected, &last.body, "") {
            Some(why) => Err(format!("{why} in {}", last.text)),
            None => Ok(()),
        }
    }

    fn expect_header(&self, name: &str, text: &str) -> Result<(), String> {
        let value = self.last()?.headers.get(name).and_then(|value| value.to_str().ok());
        let contains = value.is_some_and(|value| value.contains(text));
        if contains { Ok(()) } else { Err(format!("the header is {value:?}")) }
    }

    fn expect_text(&self, text: &str) -> Result<(), String> {
        let last = self.last()?;
        if last.text.contains(text) { Ok(()) } else { Err(format!("not in {}", last.text)) }
    }

    fn keep(&mut self, name: &str, pointer: &str) -> Result<(), String> {
        let value = self.last()?.body.pointer(pointer).ok_or("there is no such member")?;
        let text = value.as_str().map_or_else(|| value.to_string(), Into::into);
        self.kept.insert(name.into(), text);
        Ok(())
    }

    fn compare(&self, a: &str, sign: char, b: &str) -> Result<(), String> {
        let number = |text: &str| {
            let text = self.filled(text);
            text.parse::<f64>().map_err(|_| format!("{text} is no number"))
        };
        let (a, b) = (number(a)?, number(b)?);
        let holds = match sign {
            '<' => a < b,
            '>' => a > b,
            _ => a == b,
        };
        if holds { Ok(()) } else { Err(format!("{a} {sign} {b} is not so")) }
    }

    fn last(&self) -> Result<&Response, String> {
        self.last.as_ref().ok_or_else(|| "nothing was asked yet".into())
    }

    /// Replaces the names of kept values in a text by their values. Longer names come first, because `$ab` is not `$a`
    /// followed by b.
    fn filled(&self, text: &str) -> String {
        let mut names: Vec<_> = self.kept.iter().collect();
        names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        names
            .into_iter()
            .fold(text.to_owned(), |text, (name, value)| text.replace(&format!("${name}"), value))
    }
}
