//! No namespace has more leases than its quota, regardless of the principal and the command. The test fails for a
//! machine that does not check this.

use leasehold_core::mutant::{Mutant, switch};
use leasehold_core::*;

const QUOTA: Quota = Quota { max: 3, line: 31 };

fn acquire(n: usize) -> Acquire {
    let owner = Owner::new(format!("key:{}", n % 4), format!("owner-{n}"));
    let lock = LockKey::new("shop", format!("lock-{}", n % 5));
    let wait = if n.is_multiple_of(2) { Wait::No } else { Wait::Unattended(Span::from_secs(60)) };
    let ttl = Some(Span::from_secs(5 + n as u64 % 7));
    let secret = Secret([n as u8; 16]);
    let plain = Acquire::new(lock, owner, Dialect(0), secret);
    Acquire { wait, ttl, namespace_quota: Some(QUOTA), ..plain }
}

fn pair(n: usize) -> AcquireAll {
    let other = Other { name: "pair".into(), mode: Mode::Exclusive, secret: Secret([7; 16]) };
    AcquireAll { first: acquire(n), others: vec![other] }
}

/// Returns the maximum number of leases that the namespace had, while many clients acquired leases.
fn most(n_commands: usize) -> usize {
    let mut machine = Machine::new(Limits::default(), 1);
    let (mut most, mut n_refused) = (0, 0);
    for n in 0..n_commands {
        let now = Timestamp::ZERO + Span::from_secs(n as u64);
        machine.apply(now, Sweep { n_changes_max: 100 });
        let outcome = match n % 6 {
            5 => machine.apply(now, pair(n)).outcome.map(drop),
            _ => machine.apply(now, acquire(n)).outcome.map(drop),
        };
        if let Err(Rejection::Limit(exceeded)) = outcome {
            let expected = Exceeded { limit: Limit::NamespaceQuota, allowed: 3, line: Some(31) };
            assert_eq!(exceeded, expected);
            n_refused += 1;
        }
        let (leases, _) = machine.leases_of(&Whose::All, 0, 1000);
        most = most.max(leases.len());
        assert_eq!(invariant::check(&machine), Ok(()));
        if n % 50 == 49 {
            machine = Machine::import(Limits::default(), 1, machine.export()).expect("its rows");
            machine.absorbed();
        }
    }
    assert!(n_refused > 0 || most > QUOTA.max as usize);
    most
}

#[test]
fn all_principals_of_a_namespace_share_its_quota() {
    assert_eq!(most(500), QUOTA.max as usize);
}

#[test]
fn a_machine_that_does_not_look_is_noticed() {
    switch(Some(Mutant::NamespaceQuotaIgnored));
    let most = most(500);
    switch(None);
    assert!(most > QUOTA.max as usize, "{most}");
}
