"""When to ask again, on the test's clock."""

from __future__ import annotations

from typing import Optional

from leasehold import Broken, Failed, Invalid, NotAcquired, Retry, Unreachable
from leasehold.errors import LeaseholdError
from leasehold.retry import Attempts, Manner


def refusal(reason: str, retry_ms: int = 400) -> NotAcquired:
    return NotAcquired({"lock_name": "a", "reason": reason, "recommended_retry_ms": retry_ms, "error": "no"})


def again(manner: Manner, error: LeaseholdError) -> Optional[float]:
    return Attempts(Retry(), manner, 60.0).after(error, 0.0)


def test_a_held_lock_is_an_answer_unless_one_means_to_come_back() -> None:
    held = refusal("HELD")
    assert again(Manner.ONCE, held) is None
    assert again(Manner.QUEUE, held) is None
    pause = again(Manner.RETURN, held)
    assert pause is not None
    assert 0.4 < pause <= 0.5


def test_busy_and_broken_are_tried_again_in_every_manner() -> None:
    for manner in Manner:
        assert again(manner, refusal("BUSY_RETRY")) is not None
        pause = again(manner, Broken("cut"))
        assert pause is not None
        assert 0.025 <= pause <= 0.05


def test_what_makes_no_sense_is_not_tried_again() -> None:
    assert again(Manner.RETURN, Invalid("no")) is None
    assert again(Manner.ONCE, refusal("QUEUE_FULL")) is None


def test_tries_are_bounded_by_number_and_by_time() -> None:
    by_number = Attempts(Retry(), Manner.QUEUE, 60.0)
    tries = [by_number.after(Unreachable("refused"), 0.0) for _ in range(8)]
    assert [pause is None for pause in tries] == [False] * 7 + [True]
    assert Attempts(Retry(), Manner.QUEUE, 60.0).after(Unreachable("refused"), 60.0) is None


def lasts(manner: Manner, give_up_at: float, code: str) -> float:
    """Return how long the tries go on where every one of them fails so."""
    outage = Failed(503, {"error": "no", "code": code, "retryable": True})
    attempts, now = Attempts(Retry(), manner, give_up_at), 0.0
    while True:
        pause = attempts.after(outage, now)
        if pause is None:
            return now
        now += pause


def test_an_outage_of_the_store_ends_a_wait_only_with_its_time() -> None:
    for code in ("UNKNOWN", "BUSY"):
        assert lasts(Manner.QUEUE, 60.0, code) > 57.0
        assert lasts(Manner.QUEUE, 3.0, code) < 3.0
        assert lasts(Manner.ONCE, 60.0, code) < 8.0
        assert lasts(Manner.RETURN, 60.0, code) < 8.0
    assert lasts(Manner.QUEUE, 60.0, "JOURNAL_FULL") < 8.0


def test_a_wait_that_is_over_at_once_is_not_begun_again_at_once() -> None:
    def pause(took: float, retry_ms: int = 400) -> Optional[float]:
        queued = Attempts(Retry(), Manner.QUEUE, 60.0)
        queued.begin(1.0)
        return queued.after(refusal("WAIT_TIMEOUT", retry_ms), 1.0 + took)

    at_once = pause(0.001)
    assert at_once is not None
    assert at_once > 0.39
    assert pause(10.0) == 0.0, "it has waited"
    assert pause(0.0, retry_ms=0) == Retry().pause_min


def test_in_a_queue_only_failures_in_a_row_count() -> None:
    queued = Attempts(Retry(), Manner.QUEUE, 60.0)
    for _ in range(20):
        assert queued.after(Broken("cut"), 0.0) is not None
        assert queued.after(refusal("WAIT_TIMEOUT"), 0.0) is not None


def test_a_wait_that_somebody_ended_is_not_begun_again() -> None:
    def is_begun_again(wait: float, took: float) -> bool:
        queued = Attempts(Retry(), Manner.QUEUE, 60.0)
        queued.begin(1.0, wait)
        return queued.after(refusal("WAIT_TIMEOUT"), 1.0 + took) is not None

    assert not is_begun_again(50, 0)
    assert not is_begun_again(50, 44)
    assert is_begun_again(50, 45.5), "within a tenth of its end"
    assert is_begun_again(50, 50)
    assert not is_begun_again(0.4, 0.2)
    assert is_begun_again(0.4, 0.31), "a tenth of a second is nothing"


def test_maintenance_is_an_answer_to_those_who_do_not_wait() -> None:
    maintenance = Failed(503, {"error": "no", "code": "MAINTENANCE", "retryable": True})
    assert again(Manner.ONCE, maintenance) is None
    assert again(Manner.QUEUE, maintenance) is not None
