//! A chain of journal records: each record contains the hash of the one before it, so a missing, changed or misplaced
//! record is always noticed.

use std::fmt;

use super::Hash;
use super::record::{Draft, Head, Record};
use leasehold_core::mutant;

/// The end of a journal: the position of its last record, which the next record refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Place {
    /// The number of the last record; the first is 1.
    pub seq: u64,
    /// The hash of the last record. Before the first record: zero.
    pub hash: Hash,
}

/// The reason why the rest of a journal cannot be read, in words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Broken {
    /// A record is missing or damaged. Records before and after it might be intact.
    Damaged(String),
    /// The journal is not the one that was there before.
    Another(String),
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Damaged(why) | Self::Another(why)) = self;
        f.write_str(why)
    }
}

/// A journal that is read or written record by record.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    place: Place,
    epoch: u64,
    /// Whether the last record has a head. After such a record, a record of the first format, without a head, is
    /// invalid.
    has_heads: bool,
    /// An acknowledged record, which the journal must contain.
    acknowledged: Option<Place>,
}

impl Chain {
    /// Returns a chain whose next record follows `place`.
    pub fn after(place: Place) -> Self {
        Self { place, ..Self::default() }
    }

    /// Sets the epoch of the record that precedes the next one.
    pub fn in_epoch(self, epoch: u64) -> Self {
        Self { epoch, has_heads: true, ..self }
    }

    /// Sets a record that was acknowledged. The journal must contain it.
    pub fn with_acknowledged(self, acknowledged: Option<Place>) -> Self {
        Self { acknowledged, ..self }
    }

    /// Checks the end of the journal. The error names the acknowledged records that are missing.
    pub fn end(&self) -> Result<(), Broken> {
        let last = self.acknowledged.map_or(0, |acknowledged| acknowledged.seq);
        if last > self.place.seq && !mutant!(MarkIgnored) {
            let first = self.place.seq + 1;
            return Err(Broken::Another(format!(
                "journal records {first} to {last} are missing, and were acknowledged"
            )));
        }
        self.check_acknowledged()
    }

    /// Checks the acknowledged record, if the chain is at it. A place before the first record that is read cannot be
    /// checked.
    fn check_acknowledged(&self) -> Result<(), Broken> {
        let Place { seq, hash } = self.place;
        let is_another = |place: Place| place.seq == seq && place.hash != hash;
        if self.acknowledged.is_some_and(is_another) && !mutant!(MarkIgnored) {
            let why = format!("journal record {seq} is not the one that was acknowledged");
            return Err(Broken::Another(why));
        }
        Ok(())
    }

    /// Returns the position of the last record.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Returns the epoch of the last record that was read or written here.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Reads the stored bytes of record `seq`, which must be the next record.
    pub fn read(&mut self, seq: u64, bytes: &[u8]) -> Result<Record, Broken> {
        let expected = self.place.seq + 1;
        if seq != expected && !mutant!(ApplyOverGap) {
            let why = format!("journal record {expected} is missing (next is {seq})");
            return Err(Broken::Damaged(why));
        }
        let record = Record::decode(bytes)
            .map_err(|why| Broken::Damaged(format!("journal record {seq} is damaged: {why}")))?;
        if let Err(broken) = self.check(seq, record.head.as_ref())
            && !mutant!(ChainNotChecked)
            && !mutant!(ApplyOverGap)
        {
            return Err(broken);
        }
        self.epoch = record.head.as_ref().map_or(self.epoch, |head| head.epoch);
        self.has_heads |= record.head.is_some();
        self.place = Place { seq, hash: Hash::of(bytes) };
        self.check_acknowledged()?;
        Ok(record)
    }

    fn check(&self, seq: u64, head: Option<&Head>) -> Result<(), Broken> {
        let out_of_place = |why: &str| format!("journal record {seq} is out of place: {why}");
        let damaged = |why: &str| Err(Broken::Damaged(out_of_place(why)));
        let Place { seq: before, hash } = self.place;
        let Some(head) = head else {
            return if self.has_heads {
                damaged("it is older than the one before")
            } else {
                Ok(())
            };
        };
        if head.seq != before + 1 {
            return damaged(&format!("it was written as record {}", head.seq));
        }
        if head.previous != hash {
            let why = format!("it does not follow record {before} as that is now");
            return Err(Broken::Another(out_of_place(&why)));
        }
        if head.epoch < self.epoch {
            return damaged(&format!("its epoch {} is over, by epoch {}", head.epoch, self.epoch));
        }
        Ok(())
    }

    /// Returns the bytes of the next record. The record is part of the chain once [`Chain::wrote`] is called with it.
    pub fn encode(&self, epoch: u64, node: &str, draft: Draft<'_>) -> Vec<u8> {
        let (Place { seq, hash }, Draft { kind, moment, changes }) = (self.place, draft);
        let head = Head { seq: seq + 1, epoch, kind, node: node.into(), previous: hash };
        Record::encode(&head, moment, changes)
    }

    /// Adds a record to the chain after its bytes have become durable.
    pub fn wrote(&mut self, epoch: u64, bytes: &[u8]) {
        self.place = Place { seq: self.place.seq + 1, hash: Hash::of(bytes) };
        self.epoch = epoch;
        self.has_heads = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use leasehold_base::clock::Moment;

    fn empty(kind: Kind) -> Draft<'static> {
        Draft { kind, moment: Moment::default(), changes: &[] }
    }

    fn three() -> Vec<Vec<u8>> {
        let mut chain = Chain::default();
        let mut records = Vec::new();
        for epoch in 1..=3 {
            let bytes = chain.encode(epoch, "", empty(Kind::Tick));
            chain.wrote(epoch, &bytes);
            records.push(bytes);
        }
        records
    }

    fn read(records: &[(u64, &[u8])]) -> Result<Place, Broken> {
        let mut chain = Chain::default();
        records.iter().try_for_each(|(seq, bytes)| chain.read(*seq, bytes).map(drop))?;
        Ok(chain.place())
    }

    #[test]
    fn records_are_read_in_the_order_they_were_written_and_in_no_other() {
        let three = three();
        let [a, b, c] = [&three[0][..], &three[1][..], &three[2][..]];
        assert_eq!(read(&[(1, a), (2, b), (3, c)]), Ok(Place { seq: 3, hash: Hash::of(c) }));
        for (records, words) in [
            (&[(1, a), (3, c)][..], "journal record 2 is missing (next is 3)"),
            (&[(1, a), (2, c)], "journal record 2 is out of place: it was written as record 3"),
            (&[(2, b)], "journal record 1 is missing"),
            (&[(1, a), (2, &b[..9])], "journal record 2 is damaged"),
        ] {
            let Err(Broken::Damaged(why)) = read(records) else { panic!("{words}") };
            assert!(why.starts_with(words), "{why:?} does not begin with {words:?}");
        }
    }

    #[test]
    fn a_record_that_was_acknowledged_must_be_there() {
        let three = three();
        let read = |acknowledged: Place, n: usize| {
            let mut chain = Chain::default().with_acknowledged(Some(acknowledged));
            for (seq, bytes) in (1..).zip(&three[..n]) {
                chain.read(seq, bytes)?;
            }
            chain.end()
        };
        let acknowledged = Place { seq: 2, hash: Hash::of(&three[1]) };
        assert_eq!(read(acknowledged, 3), Ok(()));
        assert_eq!(read(acknowledged, 2), Ok(()));
        let Err(Broken::Another(why)) = read(acknowledged, 1) else { panic!("the second is lost") };
        assert!(why.starts_with("journal records 2 to 2 are missing"), "{why}");
        let another = Place { hash: Hash([1; 16]), ..acknowledged };
        let Err(Broken::Another(why)) = read(another, 3) else { panic!("it is another") };
        assert!(why.contains("record 2 is not the one"), "{why}");
    }

    #[test]
    fn a_record_that_was_changed_with_a_good_checksum_is_noticed_by_the_next() {
        let three = three();
        let twin = Chain::default().encode(9, "", empty(Kind::Tick));
        let broken = read(&[(1, &twin), (2, &three[1])]);
        let Err(Broken::Another(why)) = broken else { panic!("it is another record 1") };
        assert!(why.contains("does not follow record 1"), "{why}");
    }

    #[test]
    fn an_epoch_that_is_over_writes_nothing_more() {
        let mut chain = Chain::default();
        let bytes = chain.encode(2, "", empty(Kind::Epoch));
        chain.wrote(2, &bytes);
        let late = chain.encode(1, "", empty(Kind::Tick));
        let why = read(&[(1, &bytes), (2, &late)]).expect_err("an older epoch").to_string();
        assert!(why.contains("epoch 1 is over"), "{why}");
    }
}
