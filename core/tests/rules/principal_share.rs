//! One principal that uses as much as it can does not affect the others. The test fails for a machine that does not
//! check this.

use leasehold_core::mutant::{Mutant, switch};
use leasehold_core::*;

const N_STEPS: usize = 600;

fn limits() -> Limits {
    Limits {
        metadata_total_bytes_max: 4000,
        principal_metadata_bytes_max: 1000,
        names_total_bytes_max: 8000,
        principal_names_bytes_max: 2000,
        requests_total_bytes_max: 16_000,
        principal_requests_bytes_max: 4000,
        queues_total_bytes_max: 4096,
        principal_queues_bytes_max: 1024,
        answered_max: 40,
        principal_answered_max: 10,
        ended_max: 40,
        principal_ended_max: 10,
        ..Limits::default()
    }
}

fn acquire(who: &str, n: usize, lock: String) -> Acquire {
    let owner = Owner::new(who, format!("instance-{}", n % 50));
    let secret = Secret([n as u8; 16]);
    let plain = Acquire::new(LockKey::new("default", lock), owner, Dialect(0), secret);
    Acquire { ttl: Some(Span::from_secs(80_000)), ..plain }
}

/// Returns an acquire that uses as much as possible of every budget.
fn greedy(n: usize) -> Acquire {
    let plain = acquire("greedy", n, format!("greedy-{}", n % 97));
    let wait =
        if n.is_multiple_of(2) { Wait::Unattended(Span::from_secs(80_000)) } else { Wait::No };
    let metadata = (!n.is_multiple_of(3)).then(|| vec![b'x'; 1 + n % 100].into());
    let request_id = (!n.is_multiple_of(5)).then(|| format!("request-{n}").into());
    Acquire { wait, metadata, request_id, keep: n.is_multiple_of(7), ..plain }
}

fn release(machine: &mut Machine, now: Timestamp, number: LeaseNumber, id: Option<&str>) {
    let Some(lease) = machine.lease(number) else { return };
    let proof = Proof::Id { id: lease.id, owner: lease.owner, token: None, lock: None };
    let release = Release { proof, dialect: Dialect(0), request_id: id.map(Box::from) };
    let _ = machine.apply(now, release);
}

/// Returns how often the modest principal was rejected, or one of its ended leases was forgotten.
fn n_wronged() -> usize {
    let mut machine = Machine::new(limits(), 1);
    let mut n_wronged = 0;
    let mut done: Vec<(LeaseNumber, String)> = Vec::new();
    for n in 0..N_STEPS {
        let now = Timestamp::ZERO + Span::from_millis(n as u64);
        for m in 0..5 {
            let outcome = machine.apply(now, greedy(5 * n + m)).outcome;
            if let (Ok(Acquired::Granted(grant)), true) = (outcome, (n + m).is_multiple_of(2)) {
                release(&mut machine, now, grant.lease.id.number, Some(&format!("end-{n}")));
            }
        }
        if n.is_multiple_of(100) {
            let plain = acquire("modest", n, format!("modest-{n}"));
            let metadata = Some(vec![b'y'; 50].into());
            let request_id = Some(format!("modest-{n}").into());
            match machine.apply(now, Acquire { metadata, request_id, ..plain }).outcome {
                Ok(Acquired::Granted(grant)) => {
                    let (number, id) = (grant.lease.id.number, format!("done-{n}"));
                    release(&mut machine, now, number, Some(&id));
                    done.push((number, id));
                }
                _ => n_wronged += 1,
            }
        }
        assert_eq!(invariant::check(&machine), Ok(()));
        if n % 150 == 149 {
            machine = Machine::import(limits(), 1, machine.export()).expect("its rows");
            machine.absorbed();
        }
    }
    n_wronged + done.iter().filter(|(number, _)| machine.lease(*number).is_none()).count()
}

#[test]
fn who_asks_for_everything_takes_nothing_from_others() {
    assert_eq!(n_wronged(), 0);
}

#[test]
fn a_machine_that_does_not_look_is_noticed() {
    switch(Some(Mutant::PrincipalShareIgnored));
    let n_wronged = n_wronged();
    switch(None);
    assert!(n_wronged > 0);
}
