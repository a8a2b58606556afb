//! The checker must be able to fail: each deliberate bug is found within a bounded number of seeds, or by its scene.

#![allow(clippy::print_stdout, reason = "what was found is worth seeing")]

use leasehold_core::mutant::{ALL, Mutant, switch};
use sim::Report;
use sim::scene::{self, Scene};

/// Seeds tried for each bug before the test fails because the checker misses it.
const SEEDS_MAX: u64 = 2000;
/// The same for clusters, where a run takes longer.
const CLUSTER_SEEDS_MAX: u64 = 400;

/// Seeds with one server that find bugs that few seeds find. They are tried first. When the simulation draws other
/// values, such a seed may stop finding its bug. Then the bug is searched for among all seeds, and the seed that finds
/// it belongs here.
const KNOWN: &[(Mutant, u64)] = &[
    (Mutant::GrantWithoutRecheck, 165),
    (Mutant::ExpireBySweepOnly, 419),
    (Mutant::UnknownAsBusy, 42),
    (Mutant::GoOnAfterUnknown, 62),
    (Mutant::GiveBackWhatIsKnownElsewhere, 226),
    (Mutant::ForgetWithoutRaising, 226),
    (Mutant::DueWithoutWaking, 1531),
];

/// The bugs in the code of clusters, which the checker finds in runs of a cluster.
const OF_CLUSTER: &[Mutant] = &[
    Mutant::HeadNotCompared,
    Mutant::UnsettledAsCommitted,
    Mutant::UnsettledAsBusy,
    Mutant::NoSpaceAsBusy,
    Mutant::SettleByReading,
    Mutant::SweepWhileUnsettled,
    Mutant::FencedAsCommitted,
    Mutant::ApplyOverGap,
    Mutant::TrimBeforeManifest,
    Mutant::LookStale,
    Mutant::UnsettledNoted,
    Mutant::TimePlusTtl,
    Mutant::ForeignBoottime,
    Mutant::AnswerBeforeAppend,
];

/// The bugs that have a scene, because random runs would hardly ever find them.
const OF_SCENES: &[Mutant] = &[
    Mutant::ConfirmBeforeApplying,
    Mutant::ConfirmStale,
    Mutant::ConfirmSkipped,
    Mutant::SeatNotCompared,
    Mutant::ExpiredIsToldAsGranted,
    Mutant::TimeFromOlderRecord,
    Mutant::LostBatchToldNotLeading,
    Mutant::ReceivedWhenAsked,
    Mutant::StopWithTheStore,
    Mutant::NonceNotDrawn,
    Mutant::ConfirmWithoutHead,
    Mutant::FormatNotReadAgain,
    Mutant::DepartureOfAnyEpoch,
    Mutant::ReceivedByOldClock,
    Mutant::KeptThoughStuck,
    Mutant::DeadlineWithoutTick,
    Mutant::AnswerBeforeEpochRecord,
    Mutant::OrphansDeletedUnguarded,
    Mutant::TrimOfHead,
    Mutant::RestoreWithoutSeat,
    Mutant::EarlierGenerationAccepted,
    Mutant::MendedTooSoon,
];

/// Returns the first seed whose run reveals the bug, and the violation.
fn find(mutant: Mutant, run: fn(u64) -> Report, seeds_max: u64) -> Option<(u64, String)> {
    switch(Some(mutant));
    let known = KNOWN.iter().filter(|(known, _)| *known == mutant).map(|(_, seed)| *seed);
    let mut seeds = known.chain(1..=seeds_max);
    let found = seeds.find_map(|seed| Some((seed, objection(run, seed)?)));
    switch(None);
    found
}

/// Returns the first violation of a run. A failed assertion of the core counts too.
fn objection(run: fn(u64) -> Report, seed: u64) -> Option<String> {
    match std::panic::catch_unwind(|| run(seed)) {
        Ok(report) => report.violations.into_iter().next(),
        Err(_) => Some("an assertion failed".into()),
    }
}

/// Returns whether the variable `MUTANT`, such as `MUTANT=QueueLifo`, is unset or selects this bug.
fn is_wanted(mutant: &Mutant) -> bool {
    let only = std::env::var("MUTANT").unwrap_or_default();
    only.is_empty() || only == format!("{mutant:?}")
}

fn check(mutants: &[Mutant], run: fn(u64) -> Report, seeds_max: u64) {
    let mut missed = Vec::new();
    for mutant in mutants.iter().copied().filter(is_wanted) {
        match find(mutant, run, seeds_max) {
            Some((seed, why)) => println!("{mutant:?}: seed {seed}: {why}"),
            None => missed.push(mutant),
        }
    }
    assert!(missed.is_empty(), "not found within {seeds_max} seeds: {missed:?}");
}

#[test]
fn every_deliberate_bug_is_found() {
    check(&ALL, sim::run, SEEDS_MAX);
}

#[test]
fn every_deliberate_cluster_bug_is_found() {
    check(OF_CLUSTER, sim::cluster::run, CLUSTER_SEEDS_MAX);
}

/// Returns the scene that reveals a bug.
fn scene_of(mutant: Mutant) -> Scene {
    match mutant {
        Mutant::SeatNotCompared | Mutant::NonceNotDrawn => scene::put_back_under_a_zombie,
        Mutant::ConfirmBeforeApplying | Mutant::ConfirmStale | Mutant::ConfirmSkipped => {
            scene::asked_after_another_leads
        }
        Mutant::TimeFromOlderRecord => scene::a_takeover_with_an_unread_record,
        Mutant::LostBatchToldNotLeading => scene::a_lost_batch,
        Mutant::StopWithTheStore => scene::a_stop_without_etcd,
        Mutant::ReceivedWhenAsked => scene::a_record_that_took_long,
        Mutant::ConfirmWithoutHead => scene::put_back_under_a_leader,
        Mutant::FormatNotReadAgain => scene::a_newer_format_before_a_takeover,
        Mutant::DepartureOfAnyEpoch => scene::a_departure_of_an_earlier_epoch,
        Mutant::ExpiredIsToldAsGranted => scene::a_lease_that_runs_out_unsettled,
        Mutant::ReceivedByOldClock => scene::an_answer_by_another_clock,
        Mutant::DeadlineWithoutTick => scene::a_grace_period_that_was_told_as_over,
        Mutant::AnswerBeforeEpochRecord => scene::a_waiter_of_an_earlier_epoch,
        Mutant::OrphansDeletedUnguarded => scene::a_snapshot_while_another_cleans_up,
        Mutant::TrimOfHead => scene::a_takeover_by_one_that_is_behind,
        Mutant::RestoreWithoutSeat => scene::a_restore_under_a_leader,
        Mutant::EarlierGenerationAccepted => scene::put_back_to_before_a_restore,
        Mutant::KeptThoughStuck => sim::cluster::hang,
        Mutant::MendedTooSoon => sim::cluster::loses_a_record,
        other => panic!("{other:?} has no scene"),
    }
}

#[test]
fn every_deliberate_bug_of_a_scene_spoils_it() {
    for mutant in OF_SCENES.iter().copied().filter(is_wanted) {
        let scene = scene_of(mutant);
        switch(Some(mutant));
        let played = scene();
        switch(None);
        println!("{mutant:?}: {played:?}");
        assert!(played.is_err(), "{mutant:?} spoils nothing");
    }
}
