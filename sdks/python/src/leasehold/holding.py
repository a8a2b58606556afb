"""Something that is ours, is renewed while it is, and is given back once: a lease, several of them, a session."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import warnings
from types import TracebackType
from typing import TYPE_CHECKING, Any, Coroutine, List, NoReturn, Optional, Protocol, Set, Type, TypeVar

from . import loss
from .errors import Invalid, LeaseholdError, LeaseLost, NotReleased, SessionOver
from .heartbeat import Heartbeat
from .retry import persist
from .sentinel import Sentinel
from .tenure import Lost, Tenure
from .transport import within

if TYPE_CHECKING:
    from .client import AsyncClient

#: How long what is lost is tried to be given back. Little is left of it then, and whoever lost it should hear of that.
FAREWELL_MAX = 1.0

logger = logging.getLogger("leasehold")
H = TypeVar("H", bound="Holding")


class Grant(Protocol):
    """What the server granted, and the proof of it."""

    async def renew(self, ttl: float, patience: Optional[float]) -> float:
        """Make it last `ttl` from now, and return how long it lasts from when this was called."""

    async def give_back(self) -> None:
        """Give it back. What fails and may be temporary is tried again as the same request."""


class Holding:
    """What is ours until it is released or lost. Questions may be asked by any thread, calls belong to the loop."""

    def __init__(self, client: AsyncClient, grant: Grant, tenure: Tenure, heartbeat: Optional[Heartbeat]) -> None:
        self._client = client
        self._grant = grant
        self._tenure = tenure
        self._heartbeat = heartbeat
        self._sentinels: List[Sentinel] = []
        self._loop = asyncio.get_running_loop()
        self._pid = os.getpid()
        self._end: Optional[asyncio.Task[None]] = None
        #: Set before it can end, and when it is released.
        self.lost = loss.AsyncLoss(tenure)
        client._held.add(self)

    @property
    def deadline(self) -> float:
        """When it counts as lost unless it is renewed before, on the client's clock.

        That is the time at which the last successful request was *sent*, plus what the server gave, less 1 % for
        drifting clocks and less the margin.
        """
        return self._tenure.deadline

    @property
    def end(self) -> float:
        """The deadline without the margin: after this somebody else may have it."""
        return self._tenure.end

    @property
    def held(self) -> bool:
        """Whether it is ours. Looks at the clock first."""
        return self._tenure.loss() is None

    def check(self) -> None:
        """Raise `LeaseLost` unless it is ours. Looks at the clock first."""
        loss.check(self._tenure)

    async def release(self) -> None:
        """Give it back: nothing is renewed from here on, and whoever asks is told it is not ours.

        Whoever calls it again waits for the same end; if that failed and may be temporary, it is tried again, as the
        same request. `NotReleased` means that it had ended before: somebody else
        may have had the lock meanwhile.
        """
        await self._finish(self._grant.give_back)

    async def _finish(self, last: Any) -> None:
        if os.getpid() != self._pid:
            raise LeaseLost(Lost.FORKED, self._tenure.what)
        if self._end is None or _may_be_tried_again(self._end):
            self._tenure.lose(Lost.RELEASED)
            self._end = asyncio.ensure_future(self._let_go(last))
            self._end.add_done_callback(_hear)
        # Whoever is cancelled stops waiting for it, not the release.
        await asyncio.shield(self._end)

    async def _let_go(self, last: Any) -> None:
        self._client._held.discard(self)
        for sentinel in self._sentinels:
            await sentinel.stop()
        if self._heartbeat is not None:
            await self._heartbeat.stop()
        await last()

    async def _farewell(self) -> None:
        """Give back what may be left of it, without insisting."""
        try:
            await within(FAREWELL_MAX, self.release())
        except (LeaseholdError, asyncio.TimeoutError) as error:
            logger.debug("%s: what was lost could not be given back: %s", self._tenure.what, error)

    async def __aenter__(self: H) -> H:
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        lost = self._tenure.loss()
        if lost in (Lost.OUT_OF_TIME, Lost.ENDED):
            await self._farewell()
            if error is None:
                raise LeaseLost(lost, self._tenure.what, self._tenure.detail)
        elif lost is not Lost.FORKED:
            await self._leave(failed=error is not None)

    async def _leave(self, *, failed: bool) -> None:
        try:
            await self.release()
        except (NotReleased, SessionOver):
            # It was lost before the work was done. If that failed too, its error says more.
            if not failed:
                raise
        except LeaseholdError as error:
            what = self._tenure.what
            logger.warning("%s: the work is done, but it was not given back and will expire: %s", what, error)

    def __del__(self) -> None:
        if getattr(self, "_end", self) is not None or self._is_over():
            return
        if self.held:
            warnings.warn(f"{self!r} was dropped and not released", ResourceWarning, source=self, stacklevel=1)
        self._tenure.lose(Lost.RELEASED)
        grant, what = self._grant, self._tenure.what
        # If the loop is closed, the lease runs out.
        loss.tell(self._loop, lambda: _give_back_later(grant, what))

    def _is_over(self) -> bool:
        """Whether there is nothing to give back: it ended, its session was closed, or it is our parent's."""
        return self._tenure.loss() in (Lost.ENDED, Lost.RELEASED, Lost.FORKED)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a lease cannot be sent to another process: it is renewed by the one that has it")


def _may_be_tried_again(end: asyncio.Task[None]) -> bool:
    if not end.done() or end.cancelled():
        # What a closed loop had begun goes on nowhere.
        return end.cancelled() or end.get_loop().is_closed()
    error = end.exception()
    return isinstance(error, LeaseholdError) and error.retryable


def _hear(end: asyncio.Task[None]) -> None:
    """Ask how it ended, so that asyncio does not complain where nobody waits for it any more."""
    if not end.cancelled():
        end.exception()


_farewells: Set[asyncio.Task[None]] = set()


def _give_back_later(grant: Grant, what: str) -> None:
    async def give_back() -> None:
        try:
            await grant.give_back()
        except LeaseholdError as error:
            logger.warning("%s: it was dropped, and not given back: %s", what, error)

    later(give_back())


def later(work: Coroutine[Any, Any, None]) -> None:
    """Have something done in the background that nobody waits for."""
    task = asyncio.ensure_future(work)
    _farewells.add(task)
    task.add_done_callback(_farewells.discard)


async def say_farewell() -> None:
    """Return when what was dropped in this loop is given back, or after a second."""
    loop = asyncio.get_running_loop()
    mine = {task for task in _farewells if task.get_loop() is loop}
    if mine:
        await asyncio.wait(mine, timeout=FAREWELL_MAX)


class LeaseHolding(Holding):
    """A lease, or several: what can also be left held for a while."""

    async def leave_for(self, seconds: float) -> None:
        """Leave it held for so long from now, or a little longer, with nobody to renew it or give it back.

        So that work that was quick is not done again at once by another. A lease is never made to end sooner. If this
        fails, the lease goes on as before.
        """
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < math.inf:
            raise Invalid(f"leave_for needs seconds: more than 0, and with an end, not {seconds!r}")

        async def renew() -> float:
            return await self._grant.renew(seconds, None)

        async def last() -> None:
            pass

        if os.getpid() == self._pid and (self._end is None or _may_be_tried_again(self._end)):
            await persist(self._client.clock, renew)
        await self._finish(last)
