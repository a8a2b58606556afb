//! Formats the results of commands for the scenario files.

use leasehold_core::*;

pub(crate) fn outcome(outcome: &Result<Outcome, Rejection>, now: Timestamp) -> String {
    match outcome {
        Ok(outcome) => success(outcome, now),
        Err(rejection) => format!("refused: {}", refusal(rejection)),
    }
}

fn success(outcome: &Outcome, now: Timestamp) -> String {
    match outcome {
        Outcome::Acquire(Acquired::Granted(grant)) => granted(grant, now),
        Outcome::AcquireAll(AcquiredAll::Granted(grants)) => {
            let grants = grants.iter().map(|grant| granted(grant, now));
            format!("all {}", grants.collect::<Vec<_>>().join("; "))
        }
        Outcome::Cancel(true) => "cancelled".into(),
        Outcome::Cancel(false) => "nothing to cancel".into(),
        Outcome::RenewAll(leases) => {
            let leases =
                leases.iter().map(|view| format!("{}, {} left", lease(view), left(view, now)));
            format!("renewed all: {}", leases.collect::<Vec<_>>().join("; "))
        }
        Outcome::ReleaseAll(leases) => {
            let leases = leases.iter().map(|released| match released {
                Ok(view) => lease(view),
                Err(why) => format!("not: {}", refusal(why)),
            });
            format!("released: {}", leases.collect::<Vec<_>>().join("; "))
        }
        Outcome::Acquire(Acquired::Queued(number))
        | Outcome::AcquireAll(AcquiredAll::Queued(number)) => format!("queued: {number:?}"),
        Outcome::Renew(view) => format!("renewed: {}, {} left", lease(view), left(view, now)),
        Outcome::Release(view) => format!("released: {}", lease(view)),
        Outcome::Confirm(record) => format!("active: {:?}", record.number),
        Outcome::Amend(view) => format!("amended: {}, ttl {:?}", lease(view), view.ttl),
        Outcome::Revoke(leases) => {
            format!("revoked: [{}]", leases.iter().map(lease).collect::<Vec<_>>().join("; "))
        }
        Outcome::OpenSession(opened) => format!("opened: {:?}", opened.number),
        Outcome::KeepSession(deadline) => format!("kept: until {deadline:?}"),
        Outcome::CloseSession(()) => "closed".into(),
        Outcome::EndSession(()) => "ended".into(),
        Outcome::Prove(view) => format!("proven: {}", lease(view)),
        Outcome::Maintain(()) => "done".into(),
        Outcome::GiveUp(()) => "given up".into(),
        Outcome::StepAside(_) => "done".into(),
        Outcome::Leave(()) | Outcome::Settle(()) | Outcome::Resume(_) | Outcome::Restore(()) => {
            "done".into()
        }
        Outcome::Sweep(swept) => {
            format!("swept {}{}", swept.n_done, if swept.more { ", more is due" } else { "" })
        }
    }
}

fn granted(grant: &Grant, now: Timestamp) -> String {
    let kind = match grant.kind {
        GrantKind::New => "granted",
        GrantKind::Renewed => "renewed",
        GrantKind::Replayed => "granted before",
    };
    let previous = grant.previous.as_ref();
    let after = previous.map_or(String::new(), |(_, owner)| format!(", after {}", name(owner)));
    format!("{kind}: {}, {} left{after}", lease(&grant.lease), left(&grant.lease, now))
}

fn refusal(rejection: &Rejection) -> String {
    match rejection {
        Rejection::Member { n, why } => format!("the {n}th: {}", refusal(why)),
        Rejection::Held(holding) => {
            let owner = holding.owner.as_ref().map_or("those before in the queue".into(), name);
            let remaining =
                holding.remaining.map_or("forever".into(), |left| format!("{left:?} left"));
            let retry = RetryHint::default().after(holding.remaining, holding.n_waiting);
            format!(
                "held by {owner}, {remaining}, {} waiting, retry in {} ms",
                holding.n_waiting,
                retry.as_millis()
            )
        }
        Rejection::Limit(Exceeded { limit, allowed, .. }) => format!("Limit({limit:?}, {allowed})"),
        Rejection::Grace { owner, expired_at, grace_until } => {
            format!("grace of {}, expired {expired_at:?}, until {grace_until:?}", name(owner))
        }
        other => format!("{other:?}"),
    }
}

pub(crate) fn change(change: &Change) -> String {
    match change {
        Change::LeaseAdded(record) => {
            let requests = record.requests.iter().map(|request| format!(" id={}", request.id));
            let group =
                record.group.map(|Group { first, size }| format!(" of {size} from {first:?}"));
            format!(
                "added {:?} {:?} {} {:?} {:?} token={:?} until {:?}{}{}",
                record.number,
                record.lock,
                name(&record.owner),
                record.mode,
                record.phase,
                record.token,
                record.deadline,
                requests.collect::<String>(),
                group.unwrap_or_default(),
            )
        }
        Change::SessionOpened(record) => {
            format!(
                "session {:?} {} until {:?}",
                record.number,
                name(&record.owner),
                record.deadline
            )
        }
        other => format!("{other:?}"),
    }
}

pub(crate) fn lock(key: &LockKey, machine: &Machine) -> String {
    let view = machine.lock(key, 10);
    let list = |leases: &[LeaseView]| leases.iter().map(lease).collect::<Vec<_>>().join("; ");
    let mut printed = format!("{key:?}: ");
    match view.holders.as_slice() {
        [] => printed.push_str(&format!("free, last token {:?}", view.last_token)),
        holders => printed.push_str(&list(holders)),
    }
    if !view.queue.is_empty() {
        printed.push_str(&format!(" | queue: {}", list(&view.queue)));
    }
    if let Some(lapse) = &view.lapse {
        let state = if machine.now() < lapse.grace_until { "grace of" } else { "lapsed from" };
        printed.push_str(&format!(
            " | {state} {} until {:?}",
            name(&lapse.owner),
            lapse.grace_until
        ));
    }
    printed
}

fn lease(view: &LeaseView) -> String {
    let until = view.deadline.map_or("forever".into(), |deadline| format!("until {deadline:?}"));
    let (number, owner, token) = (view.id.number, name(&view.owner), view.token);
    match view.phase {
        Phase::Active => format!("{number:?} {owner} token={token:?} {until}"),
        Phase::Waiting => format!("{number:?} {owner} waits {until}"),
        Phase::Parked => format!("{number:?} {owner} parked {until}"),
        Phase::Ended(how) => format!("{number:?} {owner} token={token:?} {how:?}"),
    }
}

fn left(view: &LeaseView, now: Timestamp) -> String {
    view.remaining(now).map_or("forever".into(), |left| format!("{left:?}"))
}

fn name(owner: &Owner) -> String {
    match &*owner.principal {
        "anonymous" => owner.instance.to_string(),
        principal => format!("{principal}/{}", owner.instance),
    }
}
