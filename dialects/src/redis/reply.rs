//! Replies in RESP, the Redis protocol, version 2 or 3.

use std::fmt::Write;

/// The protocol version of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Protocol {
    Resp2 = 2,
    Resp3 = 3,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Reply {
    /// A single word, such as `OK`.
    Status(&'static str),
    /// An error message, which begins with its kind in upper case.
    Error(String),
    Integer(i64),
    Text(String),
    Nil,
    Array(Vec<Reply>),
    /// A map; in version 2 it becomes an array of alternating keys and values.
    Map(Vec<(&'static str, Reply)>),
}

impl Reply {
    pub(super) const OK: Self = Self::Status("OK");

    /// Returns an error of the generic kind, `ERR`.
    pub(super) fn error(why: impl std::fmt::Display) -> Self {
        Self::Error(format!("ERR {why}"))
    }

    pub(super) fn is_error(&self) -> bool {
        matches!(self, Self::Error(_))
    }

    /// Appends the reply to the output.
    pub(super) fn write(&self, protocol: Protocol, out: &mut String) {
        // Writing to a string cannot fail.
        let _ = match self {
            Reply::Status(word) => write!(out, "+{word}\r\n"),
            // An error is one line.
            Reply::Error(why) => write!(out, "-{}\r\n", why.replace(['\r', '\n'], " ")),
            Reply::Integer(n) => write!(out, ":{n}\r\n"),
            Reply::Text(text) => write!(out, "${}\r\n{text}\r\n", text.len()),
            Reply::Nil if protocol == Protocol::Resp3 => write!(out, "_\r\n"),
            Reply::Nil => write!(out, "$-1\r\n"),
            Reply::Array(items) => {
                let written = write!(out, "*{}\r\n", items.len());
                items.iter().for_each(|item| item.write(protocol, out));
                written
            }
            Reply::Map(pairs) => {
                let is_map = protocol == Protocol::Resp3;
                let (sign, n) = if is_map { ('%', pairs.len()) } else { ('*', pairs.len() * 2) };
                let written = write!(out, "{sign}{n}\r\n");
                for (name, value) in pairs {
                    let _ = write!(out, "${}\r\n{name}\r\n", name.len());
                    value.write(protocol, out);
                }
                written
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_protocol_versions_differ_only_in_nil_and_in_maps() {
        let both = |reply: &Reply| {
            [Protocol::Resp2, Protocol::Resp3].map(|protocol| {
                let mut out = String::new();
                reply.write(protocol, &mut out);
                out
            })
        };
        let same = |text: &str| [text.to_owned(), text.to_owned()];
        assert_eq!(both(&Reply::OK), same("+OK\r\n"));
        assert_eq!(both(&Reply::Integer(-2)), same(":-2\r\n"));
        assert_eq!(both(&Reply::Text("ä".into())), same("$2\r\nä\r\n"));
        assert_eq!(both(&Reply::error("a\r\n+OK\r\n")), same("-ERR a  +OK  \r\n"));
        assert_eq!(both(&Reply::Array(vec![Reply::OK])), same("*1\r\n+OK\r\n"));
        assert_eq!(both(&Reply::Nil), ["$-1\r\n", "_\r\n"]);
        let map = Reply::Map(vec![("proto", Reply::Integer(3))]);
        assert_eq!(both(&map), ["*2\r\n$5\r\nproto\r\n:3\r\n", "%1\r\n$5\r\nproto\r\n:3\r\n"]);
    }
}
