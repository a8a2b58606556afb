//! The numbers that encode enum values in records and in tables. The meaning of a number never changes.

use leasehold_core::*;

use super::codec::Damaged;

pub(super) fn mode_number(mode: Mode) -> u64 {
    match mode {
        Mode::Exclusive => 0,
        Mode::Shared => 1,
        Mode::Counted(limit) => 2 + u64::from(limit),
    }
}

pub(super) fn mode_of(number: u64) -> Result<Mode, Damaged> {
    match number {
        0 => Ok(Mode::Exclusive),
        1 => Ok(Mode::Shared),
        n => u32::try_from(n - 2).map(Mode::Counted).map_err(|_| Damaged("a count is too large")),
    }
}

pub(super) fn phase_tag(phase: Phase) -> u8 {
    match phase {
        Phase::Waiting => 0,
        Phase::Parked => 1,
        Phase::Active => 2,
        Phase::Ended(how) => 3 + ending_tag(how),
    }
}

pub(super) fn phase_of(tag: u8) -> Result<Phase, Damaged> {
    match tag {
        0 => Ok(Phase::Waiting),
        1 => Ok(Phase::Parked),
        2 => Ok(Phase::Active),
        tag => ending_of(tag - 3).map(Phase::Ended),
    }
}

pub(super) fn note_tag(what: Note) -> u8 {
    match what {
        Note::HeldLong => 0,
        Note::WaitedLong => 1,
        Note::DeadlockSuspected => 2,
    }
}

pub(super) fn note_of(tag: u8) -> Result<Note, Damaged> {
    match tag {
        0 => Ok(Note::HeldLong),
        1 => Ok(Note::WaitedLong),
        2 => Ok(Note::DeadlockSuspected),
        _ => Err(Damaged("unknown note")),
    }
}

pub(super) fn ending_tag(how: Ending) -> u8 {
    match how {
        Ending::Released => 0,
        Ending::Expired => 1,
        Ending::Revoked => 2,
    }
}

pub(super) fn ending_of(tag: u8) -> Result<Ending, Damaged> {
    match tag {
        0 => Ok(Ending::Released),
        1 => Ok(Ending::Expired),
        2 => Ok(Ending::Revoked),
        _ => Err(Damaged("unknown ending")),
    }
}

pub(super) fn operation_tag(operation: Operation) -> u8 {
    match operation {
        Operation::Acquire => 0,
        Operation::Renew => 1,
        Operation::Release => 2,
    }
}

pub(super) fn operation_of(tag: u8) -> Result<Operation, Damaged> {
    match tag {
        0 => Ok(Operation::Acquire),
        1 => Ok(Operation::Renew),
        2 => Ok(Operation::Release),
        _ => Err(Damaged("unknown operation")),
    }
}
