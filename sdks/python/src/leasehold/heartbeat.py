"""Renewing in the background, for exactly as long as somebody wants it."""

from __future__ import annotations

import asyncio
import logging
from typing import Awaitable, Callable, List

from .clock import Clock
from .errors import LeaseholdError, NotRenewed, SessionOver
from .loss import tell
from .secret import jittered
from .tenure import Lost, Tenure

#: Parts of the ttl: when to renew, how long one try may take, and the pauses between tries that fail.
RENEW_AFTER = 3
TRY_FOR = 6
PAUSE_MIN = 40
PAUSE_MAX = 10
#: However short the ttl, a try gets this long.
TRY_FOR_MIN = 0.05

logger = logging.getLogger("leasehold")

#: Renews within so many seconds, and returns how long that lasts from when it was called.
Renew = Callable[[float], Awaitable[float]]


class Heartbeat:
    """Two tasks of the running loop: one renews, one tells of the deadline. Both end with the tenure."""

    def __init__(self, clock: Clock, tenure: Tenure, ttl: float, end: float, renew: Renew) -> None:
        self._loop = asyncio.get_running_loop()
        self._tasks: List[asyncio.Task[None]] = [
            self._loop.create_task(_beat(clock, tenure, ttl, end, renew)),
            self._loop.create_task(_alarm(clock, tenure)),
        ]
        tenure.listen(lambda _: self.cancel())

    def cancel(self) -> None:
        """Have it end soon, from any thread."""
        tell(self._loop, self._cancel)

    async def stop(self) -> None:
        """End it, and return when it has ended: nothing is sent by it after that."""
        if self._loop.is_closed():
            return
        self._cancel()
        await asyncio.wait(self._tasks)

    def _cancel(self) -> None:
        for task in self._tasks:
            task.cancel()


async def _alarm(clock: Clock, tenure: Tenure) -> None:
    while tenure.loss() is None:
        await clock.sleep_until(tenure.deadline)


async def _beat(clock: Clock, tenure: Tenure, ttl: float, end: float, renew: Renew) -> None:
    # Counted back from the end: after a wait in the queue, the send time is long ago.
    next_at = end - (ttl - ttl / RENEW_AFTER)
    n_failed = 0
    while True:
        await clock.sleep_until(next_at)
        if tenure.loss() is not None:
            return
        sent_at = clock.now()
        try:
            lasts = await renew(max(ttl / TRY_FOR, TRY_FOR_MIN))
        except LeaseholdError as error:
            if isinstance(error, (NotRenewed, SessionOver)):
                logger.warning("%s: the server says that it is over: %s", tenure.what, error)
                tenure.lose(Lost.ENDED, str(error))
                return
            # Any other answer says nothing about the lease. It may be over then; the deadline will tell.
            logger.warning("%s: renewal failed; retrying: %s", tenure.what, error)
            next_at = clock.now() + _pause(ttl, n_failed)
            n_failed += 1
        else:
            if not tenure.extend(sent_at, lasts):
                return
            n_failed = 0
            next_at = sent_at + ttl / RENEW_AFTER


def _pause(ttl: float, n_failed: int) -> float:
    return jittered(min(ttl / PAUSE_MIN * 2.0 ** min(n_failed, 16), ttl / PAUSE_MAX))
