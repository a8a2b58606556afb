//! One record of the journal: a moment and what changed in it, with a version and a checksum.

use leasehold_core::{Change, Timestamp};

use super::change;
use super::codec::{Damaged, Reader, Writer};
use crate::clock::Moment;

/// The format. A newer one is refused, not guessed at.
const VERSION: u8 = 1;
const CHECKSUM_BYTES: usize = 4;

/// What one batch did. No changes: a tick, written so that a restart knows how late it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// When.
    pub moment: Moment,
    /// What.
    pub changes: Vec<Change>,
}

impl Record {
    /// As bytes.
    pub fn encode(moment: Moment, changes: &[Change]) -> Vec<u8> {
        let mut w = Writer(Vec::with_capacity(64 + 96 * changes.len()));
        w.byte(VERSION);
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

    /// From bytes; an error says in words what is wrong with them.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        decode(bytes).map_err(|Damaged(why)| why.to_owned())
    }
}

fn decode(bytes: &[u8]) -> Result<Record, Damaged> {
    let split = bytes.len().checked_sub(CHECKSUM_BYTES).ok_or(Damaged("it is too short"))?;
    let (content, checksum) = bytes.split_at(split);
    if content.first().is_some_and(|version| *version > VERSION) {
        return Err(Damaged("it was written by a newer version"));
    }
    if crc32fast::hash(content).to_le_bytes() != *checksum {
        return Err(Damaged("its checksum is wrong"));
    }
    let mut r = Reader(content);
    if r.byte()? != VERSION {
        return Err(Damaged("its version is not known"));
    }
    let moment = Moment {
        boot_id: r.fixed()?,
        boottime: r.number()?,
        lock_time: Timestamp::from_nanos(r.number()?),
        wall_ms: i64::from_le_bytes(r.fixed()?),
    };
    let n_changes = r.number()?;
    let changes = (0..n_changes).map(|_| change::read(&mut r)).collect::<Result<_, _>>()?;
    if !r.0.is_empty() {
        return Err(Damaged("it goes on after its end"));
    }
    Ok(Record { moment, changes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_core::*;

    fn changes() -> Vec<Change> {
        let request =
            Request { operation: Operation::Renew, id: "r-1".into(), fingerprint: u64::MAX };
        let lock = LockKey::new("default", "döner/lock");
        let (lease, session) = (LeaseNumber(7), SessionNumber(9));
        let at = Timestamp::from_nanos(12_345_678_901);
        let owner = Owner::new("ann", "laptop");
        let added = LeaseRecord {
            number: lease,
            secret: Secret([3; 16]),
            lock: lock.clone(),
            owner: owner.clone(),
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
            group: None,
            metadata: Some(b"{}".as_slice().into()),
            requests: vec![request.clone()],
            reason: Some("because".into()),
        };
        let opened = SessionRecord {
            number: session,
            digest: SessionDigest([8; 32]),
            owner,
            dialect: Dialect(1),
            ttl: Span::from_secs(60),
            opened_at: at,
            deadline: at,
            ended: Some(Ending::Expired),
        };
        let (how, reason) = (Ending::Expired, Some("why".into()));
        vec![
            Change::LeaseAdded(Box::new(added)),
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
        ]
    }

    #[test]
    fn every_kind_of_change_comes_back_as_it_was() {
        let moment = Moment { boot_id: [1; 16], wall_ms: -5, ..Moment::default() };
        let bytes = Record::encode(moment, &changes());
        assert_eq!(Record::decode(&bytes), Ok(Record { moment, changes: changes() }));
    }

    #[test]
    fn any_damaged_bit_is_noticed() {
        let bytes = Record::encode(Moment::default(), &changes());
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
        let mut bytes = Record::encode(Moment::default(), &[]);
        bytes[0] = VERSION + 1;
        assert_eq!(Record::decode(&bytes), Err("it was written by a newer version".into()));
    }
}
