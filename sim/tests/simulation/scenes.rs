//! Runs the scenes, which random runs would hardly ever reach.

fn check(scene: sim::scene::Scene) {
    scene().expect("it goes well");
}

#[test]
fn a_zombie_is_stopped_by_the_nonce_where_revisions_repeat() {
    check(sim::scene::put_back_under_a_zombie);
}

#[test]
fn a_leader_under_which_etcd_was_put_back_answers_nothing() {
    check(sim::scene::put_back_under_a_leader);
}

#[test]
fn a_server_that_cannot_read_a_newer_format_does_not_lead() {
    check(sim::scene::a_newer_format_before_a_takeover);
}

#[test]
fn a_grant_is_released_only_in_its_own_epoch() {
    check(sim::scene::a_departure_of_an_earlier_epoch);
}

#[test]
fn a_lease_that_ran_out_before_it_was_durable_is_not_told_as_granted() {
    check(sim::scene::a_lease_that_runs_out_unsettled);
}

#[test]
fn a_server_that_was_overtaken_answers_nothing_from_memory() {
    check(sim::scene::asked_after_another_leads);
}

#[test]
fn lock_time_goes_on_from_the_last_record_and_from_no_other() {
    check(sim::scene::a_takeover_with_an_unread_record);
}

#[test]
fn what_was_read_before_a_takeover_failed_is_told() {
    check(sim::scene::a_takeover_that_fails_halfway);
}

#[test]
fn requests_in_a_lost_batch_have_an_unknown_outcome() {
    check(sim::scene::a_lost_batch);
}

#[test]
fn a_server_stops_although_etcd_does_not_answer() {
    check(sim::scene::a_stop_without_etcd);
}

#[test]
fn a_record_is_received_when_its_bytes_are_there() {
    check(sim::scene::a_record_that_took_long);
}

#[test]
fn a_request_is_answered_by_the_clock_of_the_answering_leader() {
    check(sim::scene::an_answer_by_another_clock);
}

#[test]
fn a_server_that_hangs_loses_the_seat() {
    check(sim::cluster::hang);
}

#[test]
fn what_etcd_loses_is_put_back_from_memory() {
    check(sim::cluster::loses_a_record);
}

#[test]
fn a_grace_period_that_was_told_as_over_is_over_for_the_next_leader() {
    check(sim::scene::a_grace_period_that_was_told_as_over);
}

#[test]
fn waiters_of_an_earlier_leader_are_granted_nothing() {
    check(sim::scene::a_waiter_of_an_earlier_epoch);
}

#[test]
fn a_former_leader_does_not_delete_current_data() {
    check(sim::scene::a_snapshot_while_another_cleans_up);
}

#[test]
fn the_last_record_stays_though_a_snapshot_has_it() {
    check(sim::scene::a_takeover_by_one_that_is_behind);
}

#[test]
fn what_was_there_before_a_restore_is_not_led_again() {
    check(sim::scene::put_back_to_before_a_restore);
}

#[test]
fn nothing_is_restored_while_a_server_leads() {
    check(sim::scene::a_restore_under_a_leader);
}
