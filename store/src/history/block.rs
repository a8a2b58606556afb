//! Packs many events into few bytes: one block of history.
//!
//! Names recur often, so each is written once. The rest is numbers, most of which are small. A compressor removes the
//! remaining redundancy.

use std::collections::HashMap;
use std::sync::Arc;

use leasehold_core::{
    Dialect, Ending, Fact, LeaseNumber, LockKey, Owner, Span, Timestamp, Token, What,
};

use super::filter::{self, Trait};
use crate::codec::{Damaged, Reader, Writer};
use crate::event::{Event, EventId};
use crate::tag::{note_of, note_tag};

/// The version of the format. Newer versions are rejected.
const VERSION: u8 = 1;
/// The minimum size of an event. A damaged block can claim any number of events, so this bounds the allocation.
const EVENT_BYTES_MIN: usize = 22;

/// A packed block.
pub(super) struct Packed {
    pub(super) bytes: Vec<u8>,
    pub(super) filter: Vec<u8>,
}

/// Events for one block, in order. They are encoded as they arrive, so that no other code has to store them.
pub(crate) struct Block {
    names: TextTable,
    entries: Vec<Trait>,
    body: Writer,
    n_events: u64,
    /// Events up to this record are in earlier blocks.
    after: u64,
    /// The record and the wall-clock time of the first and the last event.
    pub(super) span: Option<[(u64, i64); 2]>,
}

impl Block {
    pub(super) fn after(seq: u64) -> Self {
        let (names, entries, body) = (TextTable::default(), Vec::new(), Writer::default());
        Self { names, entries, body, n_events: 0, after: seq, span: None }
    }

    /// Adds an event, unless an earlier block contains it.
    pub(crate) fn add(&mut self, event: &Event) {
        if event.id.seq <= self.after {
            return;
        }
        let here = (event.id.seq, event.at_ms);
        let [first, (before, _)] = self.span.unwrap_or([here, (0, 0)]);
        self.entries.push(Trait::lock(&event.fact.lock.namespace, &event.fact.lock.name));
        self.entries.push(Trait::owner(&event.fact.owner.instance));
        write(&mut self.body, &mut self.names, event, before);
        self.n_events += 1;
        self.span = Some([first, here]);
    }

    pub(super) fn pack(self) -> Packed {
        let Self { names, entries, body, n_events, .. } = self;
        let n_bytes_of_names: usize = names.texts.iter().map(|text| text.len() + 2).sum();
        let mut whole = Writer(Vec::with_capacity(body.0.len() + n_bytes_of_names + 32));
        whole.byte(VERSION);
        whole.number(names.texts.len() as u64);
        names.texts.iter().for_each(|text| whole.text(text));
        whole.number(n_events);
        whole.fixed(&body.0);
        let mut bytes = lz4_flex::compress_prepend_size(&whole.0);
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        Packed { bytes, filter: filter::build(entries) }
    }
}

/// Unpacks a block. The error states in words what is wrong with it.
pub(super) fn unpack(bytes: &[u8]) -> Result<Vec<Event>, Damaged> {
    let (content, checksum) = bytes.split_last_chunk().ok_or(Damaged("it is too short"))?;
    if crc32fast::hash(content).to_le_bytes() != *checksum {
        return Err(Damaged("its checksum is wrong"));
    }
    let whole = lz4_flex::decompress_size_prepended(content)
        .map_err(|_| Damaged("it cannot be unpacked"))?;
    let mut r = Reader(&whole);
    if r.byte()? != VERSION {
        return Err(Damaged("unknown version"));
    }
    let texts = (0..r.number()?).map(|_| r.shared()).collect::<Result<Vec<_>, _>>()?;
    let (n_events, mut seq) = (r.number()?, 0);
    let n_possible = whole.len() / EVENT_BYTES_MIN;
    let mut events = Vec::with_capacity(n_possible.min(usize::try_from(n_events).unwrap_or(0)));
    for _ in 0..n_events {
        let event = read(&mut r, &texts, seq)?;
        seq = event.id.seq;
        events.push(event);
    }
    Ok(events)
}

/// Each text once, with a number.
#[derive(Default)]
struct TextTable {
    texts: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, u64>,
    /// The numbers of the previous event's texts in the same places, because most events repeat them.
    recent: [u64; PLACES],
}

/// The places of an event's texts: namespace, lock, principal, instance.
const PLACES: usize = 4;

impl TextTable {
    fn number_at(&mut self, place: usize, text: &str) -> u64 {
        let recent = self.recent[place];
        if self.texts.get(recent as usize).is_some_and(|known| **known == *text) {
            return recent;
        }
        self.recent[place] = self.number(text);
        self.recent[place]
    }

    fn number(&mut self, text: &str) -> u64 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let (text, number) = (Arc::<str>::from(text), self.texts.len() as u64);
        self.texts.push(text.clone());
        self.numbers.insert(text, number);
        number
    }
}

fn write(w: &mut Writer, names: &mut TextTable, event: &Event, seq_before: u64) {
    let Event { id, fact, at_ms, .. } = event;
    w.number(id.seq - seq_before);
    w.number(id.index.into());
    w.fixed(&at_ms.to_le_bytes());
    w.byte(what_tag(fact.what));
    w.number(fact.lease.0);
    let texts: [&str; PLACES] =
        [&fact.lock.namespace, &fact.lock.name, &fact.owner.principal, &fact.owner.instance];
    for (place, text) in texts.into_iter().enumerate() {
        w.number(names.number_at(place, text));
    }
    w.byte(fact.dialect.0);
    w.number(fact.token.get());
    w.number(fact.at.as_nanos());
    w.number(fact.waited.as_nanos());
    w.number(fact.held.as_nanos());
    w.option(fact.reason.as_deref(), |w, reason| w.number(names.number(reason)));
}

fn read(r: &mut Reader<'_>, texts: &[Arc<str>], seq_before: u64) -> Result<Event, Damaged> {
    let name = |r: &mut Reader<'_>| {
        let at = usize::try_from(r.number()?).unwrap_or(usize::MAX);
        texts.get(at).cloned().ok_or(Damaged("it refers to a name that it does not contain"))
    };
    let seq = seq_before.checked_add(r.number()?).ok_or(Damaged("a number is too large"))?;
    let id = EventId { seq, index: r.small()? };
    let at_ms = i64::from_le_bytes(r.fixed()?);
    let what = what_of(r.byte()?)?;
    let lease = LeaseNumber(r.number()?);
    let lock = LockKey { namespace: name(r)?, name: (&*name(r)?).into() };
    let owner = Owner { principal: name(r)?, instance: name(r)? };
    let fact = Fact {
        what,
        lease,
        lock,
        owner,
        dialect: Dialect(r.byte()?),
        token: Token::new(r.number()?).ok_or(Damaged("a token is too large"))?,
        at: Timestamp::from_nanos(r.number()?),
        waited: Span::from_nanos(r.number()?),
        held: Span::from_nanos(r.number()?),
        reason: r.option(name)?,
        asker: None,
    };
    Ok(Event::new(id, fact, at_ms))
}

fn what_tag(what: What) -> u8 {
    let ending = |how| match how {
        Ending::Released => 0,
        Ending::Expired => 1,
        Ending::Revoked => 2,
    };
    match what {
        What::Queued => 0,
        What::Granted => 1,
        What::Ended(how) => 2 + ending(how),
        What::WaitEnded(how) => 5 + ending(how),
        What::Noted(note) => 8 + note_tag(note),
    }
}

fn what_of(tag: u8) -> Result<What, Damaged> {
    let ending = |tag| [Ending::Released, Ending::Expired, Ending::Revoked][usize::from(tag % 3)];
    match tag {
        0 => Ok(What::Queued),
        1 => Ok(What::Granted),
        2..=4 => Ok(What::Ended(ending(tag - 2))),
        5..=7 => Ok(What::WaitEnded(ending(tag - 5))),
        8..=10 => note_of(tag - 8).map(What::Noted),
        _ => Err(Damaged("it contains an unknown event")),
    }
}
