"""Renewals, on the test's clock."""

from __future__ import annotations

import asyncio
from typing import Awaitable, Callable, List

import pytest

from leasehold import Broken, NotRenewed
from leasehold.errors import LeaseholdError
from leasehold.heartbeat import Heartbeat
from leasehold.tenure import Lost, Tenure

from .clock import FakeClock, settle

TTL = 9.0


class Lease:
    """A tenure with a heartbeat, and a server that answers as it is told."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.tenure = Tenure.granted(self.clock, 0.25, self.clock.now(), TTL)
        self.sent_at: List[float] = []
        self.patience: List[float] = []
        self.failures: List[LeaseholdError] = []
        self.answer_after = 0.0
        self.heartbeat = Heartbeat(self.clock, self.tenure, TTL, self.clock.now() + TTL, self.renew)

    async def renew(self, patience: float) -> float:
        self.sent_at.append(self.clock.now())
        self.patience.append(patience)
        if self.failures:
            raise self.failures.pop(0)
        await self.clock.sleep_until(self.clock.now() + self.answer_after)
        return TTL

    async def advance(self, seconds: float) -> None:
        await settle()
        self.clock.advance(seconds)
        await settle()


def run(test: Callable[[Lease], Awaitable[None]]) -> None:
    async def main() -> None:
        lease = Lease()
        try:
            await test(lease)
        finally:
            await lease.heartbeat.stop()

    asyncio.run(main())


def test_it_renews_after_a_third_of_the_ttl_with_a_sixth_for_each_try() -> None:
    async def test(lease: Lease) -> None:
        await lease.advance(2.9)
        assert lease.sent_at == []
        for _ in range(5):
            await lease.advance(3.0)
        assert lease.sent_at == pytest.approx([1002.9 + 3 * n for n in range(1, 6)])
        assert lease.patience == [1.5] * 5
        assert lease.tenure.loss() is None

    run(test)


def test_what_fails_is_tried_again_until_the_deadline_and_no_longer() -> None:
    async def test(lease: Lease) -> None:
        lease.failures = [Broken("cut") for _ in range(1000)]
        for _ in range(100):
            await lease.advance(0.1)
        assert lease.tenure.loss() is Lost.OUT_OF_TIME
        n_tries = len(lease.sent_at)
        assert n_tries > 5
        assert max(lease.sent_at) < lease.tenure.deadline
        lease.failures = []
        await lease.advance(10.0)
        assert len(lease.sent_at) == n_tries, "nothing is renewed after the loss"

    run(test)


def test_the_server_s_word_that_it_is_over_is_final() -> None:
    async def test(lease: Lease) -> None:
        lease.failures = [NotRenewed({"reason": "NOT_OWNER_OR_EXPIRED", "error": "no"})]
        await lease.advance(3.0)
        assert lease.tenure.loss() is Lost.ENDED
        await lease.advance(3.0)
        assert len(lease.sent_at) == 1

    run(test)


def test_the_deadline_is_told_without_being_asked() -> None:
    async def test(lease: Lease) -> None:
        told: List[Lost] = []
        lease.tenure.listen(told.append)
        lease.failures = [Broken("cut") for _ in range(1000)]
        for _ in range(90):
            await lease.advance(0.1)
        assert told == [Lost.OUT_OF_TIME]

    run(test)


def test_a_renewal_counts_from_when_it_was_sent_not_from_its_answer() -> None:
    async def test(lease: Lease) -> None:
        lease.answer_after = 1.0
        await lease.advance(3.0)
        sent_at = lease.clock.now()
        await lease.advance(1.0)
        assert lease.tenure.end == pytest.approx(sent_at + 0.99 * TTL)
        await lease.advance(1.9)
        assert len(lease.sent_at) == 1
        await lease.advance(0.1)
        assert lease.sent_at == pytest.approx([sent_at, sent_at + TTL / 3]), "and so does the next one"

    run(test)


def test_an_answer_that_comes_after_the_loss_changes_nothing() -> None:
    async def test(lease: Lease) -> None:
        lease.answer_after = 8.0
        await lease.advance(3.0)
        await lease.advance(5.7)
        assert lease.tenure.loss() is Lost.OUT_OF_TIME
        await lease.advance(3.0)
        assert lease.tenure.loss() is Lost.OUT_OF_TIME
        assert len(lease.sent_at) == 1

    run(test)


def test_nothing_is_sent_after_it_was_stopped() -> None:
    async def test(lease: Lease) -> None:
        await lease.advance(3.0)
        await lease.heartbeat.stop()
        await lease.advance(3.0)
        assert len(lease.sent_at) == 1

    run(test)
