//! The records, and guarded writes.

use super::{MemoryContents, MemoryShared};
use crate::Place;
use crate::shared::{
    BackendFailure, Guard, HeadEntry, Journal, Look, Records, Refusal, Verdict, Write,
};

/// Maximum records in one read. It is small, so that readers have to read more than once.
const RECORDS_MAX: usize = 32;

impl MemoryContents {
    fn records_from(&self, from: u64) -> Records {
        let some = self.records.range(from..).take(RECORDS_MAX);
        let all = some.map(|(seq, bytes)| (*seq, bytes.clone())).collect();
        Records { all, stray: None }
    }

    fn holds(&self, guard: &Guard) -> bool {
        let is_at_head = self.head.is_some_and(|head| head.at == guard.head_at);
        self.is_led_by(&guard.tenure) && is_at_head && self.rewound.is_none()
    }

    fn put_record(&mut self, place: Place, bytes: &[u8]) {
        self.records.insert(place.seq, bytes.to_vec());
        self.head = Some(HeadEntry { place, at: self.version });
    }
}

impl Journal for MemoryShared {
    fn look(&self, from: u64) -> Result<Look, BackendFailure> {
        let state = self.state();
        Ok(Look {
            id: state.id.clone(),
            leader: state.leader_entry(),
            head: Ok(state.head),
            records: state.records_from(from),
            is_rewound: state.rewound.is_some(),
            closed: state.closed.clone(),
            is_paused: state.is_paused,
            drained: state.drained(),
        })
    }

    fn records(&self, from: u64) -> Result<Records, BackendFailure> {
        Ok(self.state().records_from(from))
    }

    fn first_record(&self) -> Result<Option<u64>, BackendFailure> {
        Ok(self.state().records.keys().next().copied())
    }

    fn id(&self) -> Result<Option<Vec<u8>>, BackendFailure> {
        Ok(self.state().id.clone())
    }

    fn write(&self, guard: &Guard, what: &Write<'_>) -> Result<Verdict, BackendFailure> {
        self.change(|state| {
            if !state.holds(guard) {
                let leader = state.leader_entry();
                let is_rewound = state.rewound.is_some();
                let refusal = Refusal { leader, head: state.head, is_rewound };
                return guard.judge(&refusal, what.place());
            }
            match what {
                Write::Nothing => return Verdict::Held(guard.head_at),
                Write::Record { place, bytes, trims } => {
                    state.put_record(*place, bytes);
                    state.records.retain(|seq, _| !trims.contains(seq));
                }
                Write::Closing { place, bytes, closed } => {
                    state.put_record(*place, bytes);
                    state.closed = Some(closed.to_vec());
                }
                Write::Resignation => state.leader = None,
            }
            Verdict::Held(state.version)
        })
    }

    fn note_rewound(&self, value: &[u8], id: Option<&[u8]>) -> Result<(), BackendFailure> {
        self.change(|state| {
            let is_same = id.is_none_or(|id| state.id.as_deref() == Some(id));
            if is_same && state.rewound.is_none() {
                state.rewound = Some(value.to_vec());
            }
        })
    }
}
