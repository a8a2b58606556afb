//! Encodes a journal record: its position in the chain, the time and the changes, with a version and a checksum.

use leasehold_base::clock::Moment;
use leasehold_core::{Change, Timestamp};

use super::codec::{Damaged, Reader, Writer};
use super::{Hash, change};

/// The version of the format. Newer versions are rejected.
const VERSION: u8 = 2;
/// The version of the first format, which had no head.
const VERSION_WITHOUT_HEAD: u8 = 1;
const CHECKSUM_BYTES: usize = 4;

/// The changes of one batch. A record without changes is a tick, which tells a restart how much time has passed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// The record's position. `None` in the first format, which did not contain it.
    pub head: Option<Head>,
    /// When the record was written.
    pub moment: Moment,
    /// The changes, in order.
    pub changes: Vec<Change>,
}

/// The position of a record in the chain, and its writer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Head {
    /// The number of the record. Numbers start at 1 and have no gaps.
    pub seq: u64,
    /// The epoch of the writer, which grows with every leader change. In an embedded store: how often the store was
    /// opened.
    pub epoch: u64,
    /// The purpose of the record.
    pub kind: Kind,
    /// The name of the node that wrote it. Empty in an embedded store.
    pub node: Box<str>,
    /// The hash of the previous record.
    pub previous: Hash,
}

/// The contents of a record, without its position in the journal.
#[derive(Clone, Copy, Debug)]
pub struct Draft<'a> {
    /// The purpose of the record.
    pub kind: Kind,
    /// When the record is written.
    pub moment: Moment,
    /// The changes, in order.
    pub changes: &'a [Change],
}

/// The purpose of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Kind {
    /// The changes of a batch.
    #[default]
    Batch,
    /// A mark that time has passed.
    Tick,
    /// The first record of an epoch.
    Epoch,
    /// The last record: the store has moved elsewhere, and no record may follow.
    Closed,
}

impl Record {
    /// Encodes a record.
    pub fn encode(head: &Head, moment: Moment, changes: &[Change]) -> Vec<u8> {
        let mut w = Writer(Vec::with_capacity(96 + 96 * changes.len()));
        w.byte(VERSION);
        w.number(head.seq);
        w.number(head.epoch);
        w.byte(kind_tag(head.kind));
        w.text(&head.node);
        w.fixed(&head.previous.0);
        w.fixed(&moment.boot_id);
        w.number(moment.boottime);
        w.number(moment.lock_time.as_nanos());
        w.fixed(&moment.wall_ms.to_le_bytes());
        w.number(changes.len() as u64);
        changes.iter().for_each(|change| change::write(&mut w, change));
        let checksum = crc32fast::hash(&w.0);
        w.fixed(&checksum.to_le_bytes());
        w.0
    }

    /// Decodes a record. The error states in words what is wrong with the bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        decode(bytes).map_err(|Damaged(why)| why.to_owned())
    }
}

fn decode(bytes: &[u8]) -> Result<Record, Damaged> {
    let split = bytes.len().checked_sub(CHECKSUM_BYTES).ok_or(Damaged("it is too short"))?;
    let (content, checksum) = bytes.split_at(split);
    let is_newer = content.first().is_some_and(|version| *version > VERSION);
    let is_sound = crc32fast::hash(content).to_le_bytes() == *checksum;
    match (is_newer, is_sound) {
        (false, true) => {}
        (false, false) => return Err(Damaged("its checksum is wrong")),
        (true, true) => return Err(Damaged("it was written by a newer version")),
        // A newer version might use another checksum, so the record must not be reported as certainly damaged.
        (true, false) => {
            return Err(Damaged("its checksum is wrong, unless it was written by a newer version"));
        }
    }
    let mut r = Reader(content);
    let head = match r.byte()? {
        VERSION => Some(read_head(&mut r)?),
        VERSION_WITHOUT_HEAD => None,
        _ => return Err(Damaged("unknown version")),
    };
    let moment = Moment {
        boot_id: r.fixed()?,
        boottime: r.number()?,
        lock_time: Timestamp::from_nanos(r.number()?),
        wall_ms: i64::from_le_bytes(r.fixed()?),
    };
    let n_changes = r.number()?;
    let changes = (0..n_changes).map(|_| change::read(&mut r)).collect::<Result<_, _>>()?;
    if !r.0.is_empty() {
        return Err(Damaged("it has data after its end"));
    }
    Ok(Record { head, moment, changes })
}

fn read_head(r: &mut Reader<'_>) -> Result<Head, Damaged> {
    Ok(Head {
        seq: r.number()?,
        epoch: r.number()?,
        kind: kind_of(r.byte()?)?,
        node: r.text()?.into(),
        previous: Hash(r.fixed()?),
    })
}

fn kind_tag(kind: Kind) -> u8 {
    match kind {
        Kind::Batch => 0,
        Kind::Tick => 1,
        Kind::Epoch => 2,
        Kind::Closed => 3,
    }
}

fn kind_of(tag: u8) -> Result<Kind, Damaged> {
    match tag {
        0 => Ok(Kind::Batch),
        1 => Ok(Kind::Tick),
        2 => Ok(Kind::Epoch),
        3 => Ok(Kind::Closed),
        _ => Err(Damaged("unknown kind")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use leasehold_core::*;

    fn session_opened() -> SessionRecord {
        let at = Timestamp::from_nanos(12_345_678_901);
        SessionRecord {
            number: SessionNumber(9),
            digest: SessionDigest([8; 32]),
            owner: Owner::new("ann", "laptop"),
            dialect: Dialect(1),
            ttl: Span::from_secs(60),
            opened_at: at,
            deadline: at,
            ended: Some(Ending::Expired),
            credential: None,
            peer: None,
        }
    }

    fn asker() -> Asker {
        Asker {
            principal: "ann".into(),
            credential: "key-1".into(),
            rule: "rule 3".into(),
            peer: "192.0.2.7".into(),
            call: None,
        }
    }

    fn changes() -> Vec<Change> {
        let request =
            Request { operation: Operation::Renew, id: "r-1".into(), fingerprint: u64::MAX };
        let lock = LockKey::new("default", "döner/lock");
        let (lease, session) = (LeaseNumber(7), SessionNumber(9));
        let at = Timestamp::from_nanos(12_345_678_901);
        let added = LeaseRecord {
            number: lease,
            secret: Secret([3; 16]),
            lock: lock.clone(),
            owner: Owner::new("ann", "laptop"),
            session: Some(session),
            dialect: Dialect(4),
            mode: Mode::Counted(5),
            phase: Phase::Ended(Ending::Revoked),
            tethered: true,
            keep: true,
            version: 3,
            token: Token::MAX,
            created_at: at,
            granted_at: at + Span::from_secs(1),
            renewed_at: at + Span::from_secs(2),
            deadline: Timestamp::NEVER,
            ttl: Some(Span::from_millis(1500)),
            grace: Span::from_secs(5),
            metadata: Some(b"{}".as_slice().into()),
            requests: vec![request.clone()],
            reason: Some("because".into()),
            group: None,
            peer: None,
        };
        let opened = session_opened();
        let grouped =
            LeaseRecord { group: Some(Group { first: LeaseNumber(6), size: 3 }), ..added.clone() };
        let anonymous = LeaseRecord { peer: Some(Peer(u64::MAX)), ..grouped.clone() };
        let credential =
            Credential { id: "key-1".into(), groups: vec!["a".into(), "b".into()], not_after: at };
        let proven = SessionRecord { credential: Some(Arc::new(credential)), ..opened.clone() };
        let of_peer = SessionRecord { peer: Some(Peer(0)), ..proven.clone() };
        let (how, reason) = (Ending::Expired, Some("why".into()));
        vec![
            Change::LeaseAdded(Box::new(added)),
            Change::LeaseAdded(Box::new(anonymous)),
            Change::SessionOpened(Box::new(of_peer)),
            Change::Granted { lease, token: Token::MAX, at, deadline: Timestamp::NEVER },
            Change::Renewed { lease, at, deadline: at, request: Some(request.clone()) },
            Change::Amended { lease, ttl: None },
            Change::Parked { lease, deadline: at },
            Change::Attached { lease, deadline: at },
            Change::Ended { lease, how, at, kept: true, request: Some(request), reason },
            Change::RequestForgotten { lease, operation: Operation::Acquire, id: "x".into() },
            Change::LeaseForgotten { lease },
            Change::GraceForgone { lock: lock.clone() },
            Change::LockForgotten { lock },
            Change::SessionOpened(Box::new(opened)),
            Change::SessionKept { session, deadline: at },
            Change::SessionEnded { session, how: Ending::Released, at },
            Change::SessionForgotten { session },
            Change::Restored { raise: 1 << 40 },
            Change::LeaseAdded(Box::new(grouped)),
            Change::SessionOpened(Box::new(proven)),
            Change::NamespaceForgotten { namespace: "shop".into() },
            Change::Maintenance { on: true },
            Change::Asked { asker: Arc::new(asker()), n_changes: 3 },
            noted(lease, at),
        ]
    }

    fn noted(lease: LeaseNumber, at: Timestamp) -> Change {
        let (what, reason) = (Note::DeadlockSuspected, Some("a circle".into()));
        Change::Noted { lease, what, at, reason }
    }

    fn head(kind: Kind) -> Head {
        Head { seq: 300, epoch: 7, kind, node: "node-1".into(), previous: Hash([5; 16]) }
    }

    #[test]
    fn every_kind_of_change_comes_back_as_it_was() {
        let moment = Moment { boot_id: [1; 16], wall_ms: -5, ..Moment::default() };
        for kind in [Kind::Batch, Kind::Tick, Kind::Epoch, Kind::Closed] {
            let bytes = Record::encode(&head(kind), moment, &changes());
            let record = Record { head: Some(head(kind)), moment, changes: changes() };
            assert_eq!(Record::decode(&bytes), Ok(record));
        }
    }

    #[test]
    fn any_damaged_bit_is_noticed() {
        let bytes = Record::encode(&head(Kind::Batch), Moment::default(), &changes());
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Record::decode(&damaged).is_err(), "bit {bit}");
        }
        for n in 0..bytes.len() {
            assert!(Record::decode(&bytes[..n]).is_err(), "cut to {n} bytes");
        }
    }

    #[test]
    fn a_newer_version_is_refused_by_name() {
        let mut bytes = Record::encode(&head(Kind::Tick), Moment::default(), &[]);
        bytes[0] = VERSION + 1;
        let unsure = "its checksum is wrong, unless it was written by a newer version";
        assert_eq!(Record::decode(&bytes), Err(unsure.into()));
        assert_eq!(Record::decode(b"nonsense"), Err(unsure.into()));
        let split = bytes.len() - CHECKSUM_BYTES;
        let checksum = crc32fast::hash(&bytes[..split]).to_le_bytes();
        bytes[split..].copy_from_slice(&checksum);
        assert_eq!(Record::decode(&bytes), Err("it was written by a newer version".into()));
    }

    /// Builds a batch as the first release wrote it.
    #[test]
    fn a_record_of_the_first_format_can_still_be_read() {
        let changes = changes()[..16].to_vec();
        let mut w = Writer(vec![1]);
        w.fixed(&[1; 16]);
        w.number(5);
        w.number(6);
        w.fixed(&7_i64.to_le_bytes());
        w.number(changes.len() as u64);
        changes.iter().for_each(|change| change::write(&mut w, change));
        let checksum = crc32fast::hash(&w.0);
        w.fixed(&checksum.to_le_bytes());
        let lock_time = Timestamp::from_nanos(6);
        let moment = Moment { boot_id: [1; 16], boottime: 5, lock_time, wall_ms: 7 };
        assert_eq!(Record::decode(&w.0), Ok(Record { head: None, moment, changes }));
    }
}
