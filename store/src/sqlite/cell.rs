//! Converts values of the core to and from column values.

use std::collections::HashMap;
use std::sync::Arc;

use leasehold_core::*;
use rusqlite::types::{FromSqlError, FromSqlResult, ToSqlOutput, ValueRef};

use crate::tag::{mode_number, mode_of};

/// A type that can be stored in a column.
pub(super) trait Cell: Sized {
    fn write(&self) -> ToSqlOutput<'_>;
    fn read(value: ValueRef<'_>, names: &mut Names) -> FromSqlResult<Self>;
}

/// Texts that occur in many rows, each stored once while rows are read.
#[derive(Default)]
pub(super) struct Names {
    known: HashMap<Box<str>, Arc<str>>,
    /// The most recent texts: a row often has the same namespace, principal and owner as the row before.
    recent: [Option<Arc<str>>; 4],
    n_asked: usize,
}

impl Names {
    fn get(&mut self, text: &str) -> Arc<str> {
        /// Limits the cache, because many distinct names would only make it large.
        const N_MAX: usize = 10_000;
        if let Some(name) = self.recent.iter().flatten().find(|name| ***name == *text) {
            return name.clone();
        }
        let known = self.known.get(text).cloned();
        let name = known.unwrap_or_else(|| {
            let name: Arc<str> = text.into();
            if self.known.len() < N_MAX {
                self.known.insert(text.into(), name.clone());
            }
            name
        });
        self.recent[self.n_asked % self.recent.len()] = Some(name.clone());
        self.n_asked += 1;
        name
    }
}

/// Implements [`Cell`] for types that are stored as a number.
macro_rules! numbers {
    ($($type:ty: |$it:ident| $write:expr, |$n:ident| $read:expr;)*) => {$(
        impl Cell for $type {
            fn write(&self) -> ToSqlOutput<'_> {
                let $it = self;
                ToSqlOutput::from($write as i64)
            }

            fn read(value: ValueRef<'_>, _: &mut Names) -> FromSqlResult<Self> {
                let $n = value.as_i64()?;
                $read
            }
        }
    )*};
}

numbers! {
    LeaseNumber: |it| it.0, |n| Ok(LeaseNumber(n as u64));
    Peer: |it| it.0, |n| Ok(Peer(n as u64));
    SessionNumber: |it| it.0, |n| Ok(SessionNumber(n as u64));
    Span: |it| it.as_nanos(), |n| Ok(Span::from_nanos(n as u64));
    Token: |it| it.get(), |n| Token::new(n as u64).ok_or_else(|| damaged("a token is too large"));
    Dialect: |it| it.0, |n| Ok(Dialect(fits(n)?));
    u32: |it| *it, |n| fits(n);
    bool: |it| *it, |n| match n {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(damaged("a flag has an invalid value")),
    };
}

/// Never is stored as `NULL`.
impl Cell for Timestamp {
    fn write(&self) -> ToSqlOutput<'_> {
        self.finite().map_or(NULL, |at| ToSqlOutput::from(at.as_nanos() as i64))
    }

    fn read(value: ValueRef<'_>, _: &mut Names) -> FromSqlResult<Self> {
        let nanos = value.as_i64_or_null()?;
        Ok(nanos.map_or(Timestamp::NEVER, |nanos| Timestamp::from_nanos(nanos as u64)))
    }
}

impl Cell for Arc<str> {
    fn write(&self) -> ToSqlOutput<'_> {
        ToSqlOutput::from(&**self)
    }

    fn read(value: ValueRef<'_>, names: &mut Names) -> FromSqlResult<Self> {
        value.as_str().map(|text| names.get(text))
    }
}

impl Cell for Box<str> {
    fn write(&self) -> ToSqlOutput<'_> {
        ToSqlOutput::from(&**self)
    }

    fn read(value: ValueRef<'_>, _: &mut Names) -> FromSqlResult<Self> {
        value.as_str().map(Into::into)
    }
}

impl Cell for Arc<[u8]> {
    fn write(&self) -> ToSqlOutput<'_> {
        ToSqlOutput::from(&**self)
    }

    fn read(value: ValueRef<'_>, _: &mut Names) -> FromSqlResult<Self> {
        value.as_blob().map(Into::into)
    }
}

impl Cell for Secret {
    fn write(&self) -> ToSqlOutput<'_> {
        ToSqlOutput::from(&self.0[..])
    }

    fn read(value: ValueRef<'_>, _: &mut Names) -> FromSqlResult<Self> {
        fixed(value).map(Secret)
    }
}

impl Cell for SessionDigest {
    fn write(&self) -> ToSqlOutput<'_> {
        ToSqlOutput::from(&self.0[..])
    }

    fn read(value: ValueRef<'_>, _: &mut Names) -> FromSqlResult<Self> {
        fixed(value).map(SessionDigest)
    }
}

/// Stored as JSON, so that operators can read it.
impl Cell for Vec<Arc<str>> {
    fn write(&self) -> ToSqlOutput<'_> {
        let texts: Vec<&str> = self.iter().map(|text| &**text).collect();
        ToSqlOutput::from(serde_json::json!(texts).to_string())
    }

    fn read(value: ValueRef<'_>, names: &mut Names) -> FromSqlResult<Self> {
        let texts: Vec<String> = serde_json::from_str(value.as_str()?)
            .map_err(|_| damaged("a list of names is malformed"))?;
        Ok(texts.iter().map(|text| names.get(text)).collect())
    }
}

impl Cell for Mode {
    fn write(&self) -> ToSqlOutput<'_> {
        match self {
            Mode::Exclusive => ToSqlOutput::from("exclusive"),
            Mode::Shared => ToSqlOutput::from("shared"),
            Mode::Counted(_) => ToSqlOutput::from((mode_number(*self) - 2).to_string()),
        }
    }

    fn read(value: ValueRef<'_>, _: &mut Names) -> FromSqlResult<Self> {
        match value.as_str()? {
            "exclusive" => Ok(Mode::Exclusive),
            "shared" => Ok(Mode::Shared),
            count => {
                let count = count.parse::<u32>().ok();
                let mode = count.and_then(|n| mode_of(2 + u64::from(n)).ok());
                mode.ok_or_else(|| damaged("unknown mode"))
            }
        }
    }
}

const PHASES: [(Phase, &str); 6] = [
    (Phase::Waiting, "waiting"),
    (Phase::Parked, "parked"),
    (Phase::Active, "active"),
    (Phase::Ended(Ending::Released), "released"),
    (Phase::Ended(Ending::Expired), "expired"),
    (Phase::Ended(Ending::Revoked), "revoked"),
];

impl Cell for Phase {
    fn write(&self) -> ToSqlOutput<'_> {
        ToSqlOutput::from(
            PHASES.iter().find(|(known, _)| known == self).map_or("", |(_, text)| text),
        )
    }

    fn read(value: ValueRef<'_>, _: &mut Names) -> FromSqlResult<Self> {
        let text = value.as_str()?;
        let phase = PHASES.iter().find(|(_, known)| *known == text);
        phase.map(|(phase, _)| *phase).ok_or_else(|| damaged("unknown phase"))
    }
}

/// Stored as the phase that follows it.
impl Cell for Ending {
    fn write(&self) -> ToSqlOutput<'_> {
        let phase = Phase::Ended(*self);
        ToSqlOutput::from(
            PHASES.iter().find(|(known, _)| *known == phase).map_or("", |(_, text)| text),
        )
    }

    fn read(value: ValueRef<'_>, names: &mut Names) -> FromSqlResult<Self> {
        match Phase::read(value, names)? {
            Phase::Ended(how) => Ok(how),
            _ => Err(damaged("unknown ending")),
        }
    }
}

impl<T: Cell> Cell for Option<T> {
    fn write(&self) -> ToSqlOutput<'_> {
        self.as_ref().map_or(NULL, T::write)
    }

    fn read(value: ValueRef<'_>, names: &mut Names) -> FromSqlResult<Self> {
        if matches!(value, ValueRef::Null) { Ok(None) } else { T::read(value, names).map(Some) }
    }
}

const NULL: ToSqlOutput<'static> = ToSqlOutput::Borrowed(ValueRef::Null);

fn fits<T: TryFrom<i64>>(n: i64) -> FromSqlResult<T> {
    T::try_from(n).map_err(|_| FromSqlError::OutOfRange(n))
}

fn fixed<const N: usize>(value: ValueRef<'_>) -> FromSqlResult<[u8; N]> {
    let bytes = value.as_blob()?;
    bytes
        .try_into()
        .map_err(|_| FromSqlError::InvalidBlobSize { expected_size: N, blob_size: bytes.len() })
}

fn damaged(why: &'static str) -> FromSqlError {
    FromSqlError::Other(why.into())
}
