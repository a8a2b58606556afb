"""Deadlines, on the test's clock."""

from __future__ import annotations

import os
from typing import List

from leasehold.tenure import Lost, Tenure

from .clock import FakeClock

TTL = 10.0
MARGIN = 1.0


def fresh() -> tuple[FakeClock, Tenure]:
    clock = FakeClock()
    return clock, Tenure.granted(clock, MARGIN, clock.now(), TTL)


def test_the_deadline_is_the_send_time_and_the_ttl_less_drift_and_margin() -> None:
    clock, tenure = fresh()
    assert (tenure.end, tenure.deadline) == (clock.now() + 9.9, clock.now() + 8.9)
    clock.advance(8.875)
    assert tenure.loss() is None
    clock.advance(0.125)
    assert tenure.loss() is Lost.OUT_OF_TIME


def test_a_renewal_counts_from_when_it_was_sent_and_never_shortens() -> None:
    clock, tenure = fresh()
    sent_at = clock.now()
    clock.advance(5)
    assert tenure.extend(sent_at, TTL)
    assert tenure.end == sent_at + 9.9
    assert tenure.extend(clock.now(), 1.0)
    assert tenure.end == sent_at + 9.9


def test_what_was_lost_is_not_brought_back_by_an_answer_that_comes_late() -> None:
    clock, tenure = fresh()
    clock.advance(8)
    sent_at = clock.now()
    clock.advance(1)
    assert not tenure.extend(sent_at, TTL)
    assert tenure.loss() is Lost.OUT_OF_TIME
    assert tenure.lose(Lost.ENDED) is Lost.OUT_OF_TIME, "the first reason is the reason"


def test_a_loss_is_told_once_also_to_whoever_comes_late() -> None:
    clock, tenure = fresh()
    told: List[Lost] = []
    tenure.listen(told.append)
    clock.advance(TTL)
    assert tenure.loss() is Lost.OUT_OF_TIME
    tenure.lose(Lost.RELEASED)
    tenure.loss()
    assert told == [Lost.OUT_OF_TIME]
    tenure.listen(told.append)
    assert told == [Lost.OUT_OF_TIME] * 2


def test_a_listener_that_fails_does_not_keep_others_from_being_told() -> None:
    _, tenure = fresh()
    told: List[Lost] = []
    tenure.listen(lambda _: 1 // 0)  # type: ignore[arg-type]
    tenure.listen(told.append)
    tenure.lose(Lost.ENDED)
    assert told == [Lost.ENDED]


def test_a_lock_of_a_session_goes_with_it_and_not_the_other_way_round() -> None:
    clock, session = fresh()
    kept, given_back = Tenure.inside(session), Tenure.inside(session)
    assert given_back.lose(Lost.RELEASED) is Lost.RELEASED
    assert (session.loss(), kept.loss()) == (None, None)
    clock.advance(5)
    assert session.extend(clock.now(), TTL)
    assert kept.deadline == session.deadline
    session.lose(Lost.ENDED)
    assert (kept.loss(), given_back.loss()) == (Lost.ENDED, Lost.RELEASED)


def test_a_forked_child_has_nothing(monkeypatch: object) -> None:
    _, tenure = fresh()
    tenure._pid = os.getpid() + 1
    assert tenure.loss() is Lost.FORKED
    assert tenure.lose(Lost.RELEASED) is Lost.FORKED
    tenure._pid = os.getpid()
    assert tenure.loss() is None, "nothing was changed by the child"
