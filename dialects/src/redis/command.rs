//! Commands: parses the words of a request, and reports why they are invalid.

use leasehold_core::Span;

use super::reply::{Protocol, Reply};
use super::script::Script;

/// A parsed command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Command<'a> {
    Ping(Option<&'a str>),
    /// `HELLO`, with the protocol version and the password, if they were sent.
    Hello(Option<Protocol>, Option<&'a str>),
    Auth(&'a str),
    Select(u32),
    Client(Client),
    Info,
    Quit,
    /// `SET key value NX`, with an expiry or without.
    Set(&'a str, &'a str, Option<Span>),
    /// `SETNX key value`: like `Set` without an expiry, but the reply is a number.
    SetNew(&'a str, &'a str),
    Get(&'a str),
    /// `TTL` or `PTTL`: the time left, in units of this many milliseconds.
    Remaining(&'a str, u64),
    Exists(Vec<&'a str>),
    Delete(Vec<&'a str>),
    /// `PEXPIRE` or `EXPIRE`; with `None`, the key expires immediately.
    Expire(&'a str, Option<Span>),
    Leave(&'a str, Vec<&'a str>),
    Run(Script, Vec<&'a str>, Vec<&'a str>),
    /// `SCRIPT LOAD`, with the SHA-1 of the known script that does the same.
    Load(&'static str),
    /// `SCRIPT EXISTS`: for each script, whether it is known.
    Known(Vec<bool>),
}

/// The subcommands of `CLIENT`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Client {
    /// `SETNAME` and `SETINFO`, which have no effect.
    Told,
    Id,
    Name,
}

/// The name under which unknown commands are counted, so that clients cannot create any number of metric labels.
pub(super) const OTHER: &str = "other";
const NAMES: [&str; 24] = [
    "ping", "hello", "auth", "select", "client", "info", "quit", "set", "setnx", "get", "ttl",
    "pttl", "exists", "del", "expire", "pexpire", "zrem", "eval", "evalsha", "script", "command",
    "multi", "exec", "discard",
];

/// Returns the known name of a command, or [`OTHER`].
pub(super) fn name(words: &[&str]) -> &'static str {
    let first = words.first().copied().unwrap_or_default();
    NAMES.into_iter().find(|name| name.eq_ignore_ascii_case(first)).unwrap_or(OTHER)
}

impl<'a> Command<'a> {
    /// Parses the words of a request. The error is the reply.
    pub(super) fn parse(words: &[&'a str]) -> Result<Self, Reply> {
        let command = name(words);
        let rest = words.get(1..).unwrap_or_default();
        let wrong = || {
            let first = words.first().copied().unwrap_or_default().to_lowercase();
            Reply::error(format_args!("wrong number of arguments for '{first}' command"))
        };
        Ok(match (command, rest) {
            ("ping", []) => Command::Ping(None),
            ("ping", [text]) => Command::Ping(Some(text)),
            ("hello", rest) => hello(rest)?,
            ("auth", [password]) | ("auth", [_, password]) => Command::Auth(password),
            ("select", [database]) => Command::Select(number(database)?),
            ("client", [sub, rest @ ..]) => client(sub, rest)?,
            ("info", _) => Command::Info,
            ("quit", _) => Command::Quit,
            ("set", [key, value, options @ ..]) => Command::Set(key, value, set(options)?),
            ("setnx", [key, value]) => Command::SetNew(key, value),
            ("get", [key]) => Command::Get(key),
            ("ttl", [key]) => Command::Remaining(key, 1000),
            ("pttl", [key]) => Command::Remaining(key, 1),
            ("exists", [_, ..]) => Command::Exists(rest.to_vec()),
            ("del", [_, ..]) => Command::Delete(rest.to_vec()),
            ("expire", [key, seconds]) => Command::Expire(key, expiry(seconds, 1000)?),
            ("pexpire", [key, ms]) => Command::Expire(key, expiry(ms, 1)?),
            ("expire" | "pexpire", [_, _, _, ..]) => {
                return Err(Reply::error("NX, XX, GT and LT are not supported here"));
            }
            ("zrem", [key, members @ ..]) if !members.is_empty() => {
                Command::Leave(key, members.to_vec())
            }
            ("eval", [text, n, rest @ ..]) => run(by_text(text)?.0, n, rest)?,
            ("evalsha", [sha, n, rest @ ..]) => {
                let unknown = "NOSCRIPT No matching script. Please use EVAL.";
                let script = Script::by_sha(sha).ok_or_else(|| Reply::Error(unknown.into()))?;
                run(script, n, rest)?
            }
            ("script", [sub, rest @ ..]) => scripts(sub, rest)?,
            (OTHER | "command" | "multi" | "exec" | "discard", _) => return Err(unknown(words)),
            _ => return Err(wrong()),
        })
    }
}

/// Maximum characters of an unknown command's name that the error repeats.
const NAME_CHARS_MAX: usize = 32;

fn unknown(words: &[&str]) -> Reply {
    let first = words.first().copied().unwrap_or_default();
    let name: String = first.chars().take(NAME_CHARS_MAX).collect();
    Reply::error(format_args!(
        "unknown command '{}': this is Leasehold, not Redis; it supports only the commands of Redis lock clients (see \
         docs/reference/redis.md)",
        name.escape_debug()
    ))
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, Reply> {
    text.parse().map_err(|_| Reply::error("value is not an integer or out of range"))
}

/// Parses a time from now, in units of this many milliseconds. Returns `None` if it is zero or negative.
fn expiry(text: &str, unit_ms: u64) -> Result<Option<Span>, Reply> {
    let n: i64 = number(text)?;
    let ms = u64::try_from(n).unwrap_or(0).saturating_mul(unit_ms);
    // A span in milliseconds cannot be longer than this, and no lock lasts nearly as long.
    Ok((ms > 0).then(|| Span::from_millis(ms.min(u64::MAX / 1_000_000))))
}

/// Parses a time from now that must be positive.
pub(super) fn lasting(text: &str, unit_ms: u64, command: &str) -> Result<Span, Reply> {
    let invalid = || Reply::error(format_args!("invalid expire time in '{command}' command"));
    expiry(text, unit_ms)?.ok_or_else(invalid)
}

fn hello<'a>(words: &[&'a str]) -> Result<Command<'a>, Reply> {
    let [version, options @ ..] = words else { return Ok(Command::Hello(None, None)) };
    let protocol = match *version {
        "2" => Protocol::Resp2,
        "3" => Protocol::Resp3,
        _ => return Err(Reply::Error("NOPROTO unsupported protocol version".into())),
    };
    let (mut password, mut rest) = (None, options);
    loop {
        rest = match rest {
            [] => return Ok(Command::Hello(Some(protocol), password)),
            [auth, _, given, rest @ ..] if auth.eq_ignore_ascii_case("auth") => {
                password = Some(*given);
                rest
            }
            [setname, _, rest @ ..] if setname.eq_ignore_ascii_case("setname") => rest,
            [option, ..] => {
                let option = option.escape_debug();
                return Err(Reply::error(format_args!("syntax error in HELLO option '{option}'")));
            }
        };
    }
}

fn client<'a>(sub: &str, rest: &[&str]) -> Result<Command<'a>, Reply> {
    let told = ["setinfo", "setname", "no-evict", "no-touch"];
    let is = |name: &str| sub.eq_ignore_ascii_case(name);
    Ok(Command::Client(match rest {
        [_, ..] if told.into_iter().any(is) => Client::Told,
        [] if is("id") => Client::Id,
        [] if is("getname") => Client::Name,
        _ => {
            let sub = sub.escape_debug();
            return Err(Reply::error(format_args!("unknown subcommand '{sub}' of CLIENT")));
        }
    }))
}

/// Parses what follows `SET key value`: `NX` and the expiry.
fn set(options: &[&str]) -> Result<Option<Span>, Reply> {
    let (mut is_new, mut ttl, mut rest) = (false, None, options);
    loop {
        rest = match rest {
            [] if is_new => return Ok(ttl),
            [] => {
                return Err(Reply::error(
                    "SET acquires a lock here and needs NX: SET key value NX PX milliseconds",
                ));
            }
            [nx, rest @ ..] if nx.eq_ignore_ascii_case("nx") && !is_new => {
                is_new = true;
                rest
            }
            [px, ms, rest @ ..] if px.eq_ignore_ascii_case("px") && ttl.is_none() => {
                ttl = Some(lasting(ms, 1, "set")?);
                rest
            }
            [ex, seconds, rest @ ..] if ex.eq_ignore_ascii_case("ex") && ttl.is_none() => {
                ttl = Some(lasting(seconds, 1000, "set")?);
                rest
            }
            [option, ..] => {
                return Err(Reply::error(format_args!("syntax error: {}", odd(option))));
            }
        };
    }
}

/// Returns the error for an option of `SET` that is unknown or in the wrong position.
fn odd(option: &str) -> String {
    let is = |name: &str| option.eq_ignore_ascii_case(name);
    if is("nx") {
        return "NX appears twice".into();
    }
    let option = option.escape_debug();
    match is("px") || is("ex") {
        true => format!("{option} needs a number, and only one of PX and EX is possible"),
        false => format!("SET acquires a lock here and supports NX, PX and EX, not '{option}'"),
    }
}

fn by_text(text: &str) -> Result<(Script, &'static str), Reply> {
    Script::by_text(text).map_err(|sha| {
        Reply::error(format_args!(
            "unknown script {sha}: this is Leasehold, which runs no Lua and supports only the scripts of common lock \
             clients (see docs/reference/redis.md)"
        ))
    })
}

fn run<'a>(script: Script, n_keys: &str, rest: &[&'a str]) -> Result<Command<'a>, Reply> {
    let n_keys: usize = number(n_keys)?;
    let too_many = "Number of keys can't be greater than number of args";
    let (keys, arguments) = rest.split_at_checked(n_keys).ok_or_else(|| Reply::error(too_many))?;
    let fits = if script.is_for_many() { n_keys > 0 } else { n_keys == 1 };
    if !fits || arguments.len() != script.n_arguments() {
        return Err(Reply::error(format_args!(
            "this script takes {} and {} argument{}",
            if script.is_for_many() { "one key or more" } else { "one key" },
            script.n_arguments(),
            if script.n_arguments() == 1 { "" } else { "s" }
        )));
    }
    Ok(Command::Run(script, keys.to_vec(), arguments.to_vec()))
}

fn scripts<'a>(sub: &str, rest: &[&str]) -> Result<Command<'a>, Reply> {
    let is = |name: &str| sub.eq_ignore_ascii_case(name);
    match rest {
        [text] if is("load") => Ok(Command::Load(by_text(text)?.1)),
        [_, ..] if is("exists") => {
            Ok(Command::Known(rest.iter().map(|sha| Script::by_sha(sha).is_some()).collect()))
        }
        _ => Err(Reply::error(format_args!(
            "unknown subcommand '{}' of SCRIPT; supported: LOAD, EXISTS",
            sub.escape_debug()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Command<'_>, String> {
        let words: Vec<_> = line.split(' ').collect();
        Command::parse(&words).map_err(|reply| match reply {
            Reply::Error(why) => why,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn set_takes_nx_and_an_expiry_in_any_order() {
        let ms = |ms| Some(Span::from_millis(ms));
        for (line, ttl) in [
            ("SET k v NX PX 1500", ms(1500)),
            ("set k v px 1500 nx", ms(1500)),
            ("Set k v EX 2 NX", ms(2000)),
            ("SET k v NX", None),
        ] {
            assert_eq!(parse(line), Ok(Command::Set("k", "v", ttl)), "{line}");
        }
        for line in [
            "SET k v",
            "SET k v PX 10",
            "SET k v XX PX 10",
            "SET k v NX NX",
            "SET k v NX PX 10 EX 1",
            "SET k v NX PX",
            "SET k v NX PX 0",
            "SET k v NX PX -5",
            "SET k v NX PX 1.5",
            "SET k v NX PX 99999999999999999999",
            "SET k v NX GET",
            "SET k",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn malformed_commands_get_the_same_errors_as_from_redis() {
        for (line, why) in [
            ("GET", "ERR wrong number of arguments for 'get' command"),
            ("ping a b", "ERR wrong number of arguments for 'ping' command"),
            ("SELECT x", "ERR value is not an integer or out of range"),
            ("HELLO 4", "NOPROTO unsupported protocol version"),
            ("HELLO 3 BYE", "ERR syntax error in HELLO option 'BYE'"),
            ("CLIENT KILL x", "ERR unknown subcommand 'KILL' of CLIENT"),
            (
                "SET k v NX PX",
                "ERR syntax error: PX needs a number, and only one of PX and EX is possible",
            ),
            (
                "SET k v NX PX 5 EX 1",
                "ERR syntax error: EX needs a number, and only one of PX and EX is possible",
            ),
            ("SET k v NX NX", "ERR syntax error: NX appears twice"),
            ("SET k v NX PX 0", "ERR invalid expire time in 'set' command"),
            ("EVALSHA 00 1 k v", "NOSCRIPT No matching script. Please use EVAL."),
            ("PEXPIRE k 5 NX", "ERR NX, XX, GT and LT are not supported here"),
        ] {
            assert_eq!(parse(line), Err(why.into()), "{line}");
        }
        let why = parse("FLUSHALL").expect_err("not here");
        assert!(why.starts_with("ERR unknown command 'FLUSHALL': this is Leasehold"), "{why}");
        assert!(parse("EVAL x 0").expect_err("no Lua").starts_with("ERR unknown script "));
    }

    #[test]
    fn a_script_has_its_keys_and_arguments() {
        let delete = "EVALSHA c3f8721cbb97f72bc19e972846bd7aaf91901658";
        let expected = Command::Run(Script::Delete, vec!["k"], vec!["v"]);
        assert_eq!(parse(&format!("{delete} 1 k v")), Ok(expected));
        for rest in ["0 v", "1 k", "2 k l v", "1 k v w", "9 k", "-1 k"] {
            assert!(parse(&format!("{delete} {rest}")).is_err(), "{rest}");
        }
        let lock = "evalsha e5a322e2634ef59a516e8ea150cb085afafee684 2 a b v 5";
        let expected = Command::Run(Script::TakeAll, vec!["a", "b"], vec!["v", "5"]);
        assert_eq!(parse(lock), Ok(expected));
    }

    #[test]
    fn hello_takes_a_password() {
        assert_eq!(parse("HELLO"), Ok(Command::Hello(None, None)));
        let expected = Command::Hello(Some(Protocol::Resp3), Some("secret"));
        assert_eq!(parse("hello 3 AUTH default secret SETNAME x"), Ok(expected));
    }
}
