"""Asking for a lock until it is there, or certain not to be."""

from __future__ import annotations

import asyncio
import logging
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Awaitable, Callable, Dict, Optional, TypeVar

from .errors import Broken, Failed, Invalid, LeaseholdError, Silent
from .holding import LeaseHolding, later
from .lease import millis
from .loss import OnLost
from .retry import Attempts, Doubt, Manner, Retry
from .secret import request_id
from .settings import check_owner
from .transport import within

if TYPE_CHECKING:
    from .client import AsyncClient

DEFAULT_TTL = 30.0
#: The longest wait the server allows unless it is set otherwise. A longer wait is several, one after the other.
WAIT_MAX = 24 * 60 * 60.0
#: No try lasts longer than this while more than that is left to be waited. A connection that has gone silent looks like
#: a queue that does not move, so the same request is sent again on another one. It keeps its place.
WAIT_SLICE = 30.0
#: What is asked of the next server when a wait has ended without any answer: whether the lock is free.
WAIT_LAST = 0.001
#: How long whoever is cancelled stays to leave the queue.
LEAVE_MAX = 2.0

logger = logging.getLogger("leasehold")
A = TypeVar("A")
L = TypeVar("L", bound=LeaseHolding)
#: Sends a request, and gives it up after so many seconds, or after the usual time.
Send = Callable[[Any, Optional[float]], Awaitable[A]]
#: Makes a lease of an answer, and of the time the request was sent at.
Take = Callable[[float, A], Awaitable[L]]


@dataclass(frozen=True)
class Options:
    """How a lock is asked for. Times are seconds."""

    #: How long the lease lasts if it is not renewed: 30 s unless given. It is renewed after a third of that.
    ttl: Optional[float] = None
    #: How long to wait in the queue.
    wait: float = 0.0
    #: How long before its end the lease counts as lost: unless given, 0.25 s or a tenth of the ttl, whichever is less.
    margin: Optional[float] = None
    grace: Optional[float] = None
    metadata: Any = None
    owner: Optional[str] = None
    #: Be told of a revocation at once, at the cost of one more connection.
    watched: bool = False
    retry: Retry = Retry()
    on_lost: Optional[OnLost] = None

    @property
    def ttl_or_default(self) -> float:
        """The ttl, also if none is given."""
        return DEFAULT_TTL if self.ttl is None else self.ttl

    def margin_or_default(self) -> float:
        """Return the margin, if it makes sense with the ttl."""
        check_owner(self.owner)
        ttl = self.ttl_or_default
        if not 0 < ttl < math.inf:
            raise Invalid(f"ttl must be more than 0 and have an end, not {ttl!r}")
        if not self.wait >= 0:
            raise Invalid(f"wait must not be less than 0, not {self.wait!r}")
        margin = min(0.25, ttl / 10) if self.margin is None else self.margin
        if not 0 <= margin <= ttl / 2:
            raise Invalid("margin must be from 0 to half of the ttl")
        return margin


class Question:
    """One request for a lock, in as many tries as it takes: all with the same request id."""

    def __init__(
        self, client: AsyncClient, options: Options, manner: Manner, body: Dict[str, Any], *, early_is_ended: bool
    ) -> None:
        """Ask for this. `early_is_ended`: a wait that is over early was ended by somebody, and is not begun again."""
        self._early_is_ended = early_is_ended
        self._client = client
        self._options = options
        self._manner = manner
        self._body = {**body, "request_id": request_id()}
        # The server may have something under this request id.
        self._doubt = Doubt()

    async def ask(
        self,
        send: Send[A],
        take: Take[A, L],
    ) -> L:
        """Return the lease that `take` makes of an answer to `send` and the time it was sent at."""
        clock, retry = self._client.clock, self._options.retry
        give_up_at = clock.now() + (self._options.wait or retry.total_max)
        attempts = Attempts(retry, self._manner, give_up_at)
        is_last = False
        while True:
            sent_at = clock.now()
            wait = 0.0
            if self._manner is Manner.QUEUE:
                wait = WAIT_LAST if is_last else min(max(give_up_at - sent_at, 0.0), WAIT_MAX)
                self._body["wait_ms"] = millis(wait)
            attempts.begin(sent_at, wait if self._early_is_ended else 0.0)
            patience = WAIT_SLICE if wait > WAIT_SLICE else None
            try:
                lease = await self._try(sent_at, patience, send, take)
                if lease.held:
                    self._client._transport().failover.warn(self._options.ttl_or_default)
                    return lease
                await lease._farewell()
                error: LeaseholdError = self._renamed()
            except LeaseholdError as failure:
                self._doubt.over(failure)
                if patience is not None and isinstance(failure, Silent):
                    # Nothing has failed: nobody could have answered yet. Unless nobody is there.
                    await self._client._transport().sound()
                    continue
                is_spent = isinstance(failure, Failed) and failure.code == "REQUEST_ID_SPENT"
                error = self._renamed() if is_spent else failure
            pause = attempts.after(error, clock.now())
            if pause is None and not is_last and self._may_be_answered_elsewhere(error):
                pause, is_last = 0.0, True
            if pause is None:
                if self._doubt.is_left:
                    # We may have a place in the queue, or even the lock, and nobody will ever know.
                    later(self._leave(send, take))
                raise error
            logger.debug("not acquired yet, next try in %.3f s: %s", pause, error)
            await self._pause(pause, send, take)

    def _may_be_answered_elsewhere(self, error: LeaseholdError) -> bool:
        """Whether a wait is over without any answer, and there is another server, which may know of a free lock."""
        others = len(self._client._settings.urls) > 1 and self._options.retry.attempts_max > 1
        return self._manner is Manner.QUEUE and others and isinstance(error, Silent)

    def _renamed(self) -> LeaseholdError:
        """Take another id: this one has had its lease.

        We slept through it, or a broken connection kept it from us.
        """
        self._body["request_id"] = request_id()
        self._doubt = Doubt()
        ttl = self._options.ttl_or_default
        return Broken(f"the lease had ended before the client received it; perhaps its ttl, {ttl:g} s, is too short")

    async def _try(self, sent_at: float, patience: Optional[float], send: Send[A], take: Take[A, L]) -> L:
        try:
            return await take(sent_at, await send(self._body, patience))
        except asyncio.CancelledError:
            await self._leave(send, take)
            raise

    async def _pause(
        self,
        pause: float,
        send: Send[A],
        take: Take[A, L],
    ) -> None:
        clock = self._client.clock
        try:
            await clock.sleep_until(clock.now() + pause)
        except asyncio.CancelledError:
            if self._doubt.is_left:
                await self._leave(send, take)
            raise

    async def _leave(self, send: Send[A], take: Take[A, L]) -> None:
        """Tell the server that nobody waits any more: otherwise the place would be kept for a while."""

        async def leave() -> None:
            if await self._client.cancel(self._body["owner_id"], self._body["request_id"]):
                return
            # Nobody waits, so it may have been granted. The same request tells, and what it gives is given back.
            sent_at = self._client.clock.now()
            lease = await take(sent_at, await send({**self._body, "wait_ms": None}, None))
            await lease.release()

        try:
            await within(LEAVE_MAX, leave())
        except (LeaseholdError, asyncio.TimeoutError) as error:
            logger.debug("the queue could not be left at once: %s", error)
