"""A lock to be asked for."""

from __future__ import annotations

import contextlib
import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Awaitable, Callable, Dict, Optional, Tuple, TypeVar, cast

from typing_extensions import Concatenate, ParamSpec

from . import wire
from .asking import Options, Question
from .entrance import AsyncEntrance
from .errors import Invalid, LeaseholdError, NotAcquired, SessionOver
from .lease import AsyncLease, millis, proof_of, seconds
from .loss import call_in_loop
from .retry import Manner
from .secret import Secret
from .tenure import Tenure
from .work import awaitable, refuse_generator, unless_lost

if TYPE_CHECKING:
    from .client import AsyncClient

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Kind:
    """With whom a lock is shared: with nobody, with others that say so too, or with up to `limit` in all."""

    shared: bool = False
    limit: Optional[int] = None

    def fields(self) -> Dict[str, Any]:
        """Return the fields of a request."""
        if self.shared and self.limit is not None:
            raise Invalid("a lock is shared or counted, not both")
        return {"mode": "shared" if self.shared else None, "limit": self.limit}


@dataclass
class AsyncLockRequest(AsyncEntrance[AsyncLease]):
    """A lock to be asked for: `async with client.lock("nightly", wait=60) as lease:`.

    It can be used again: every acquire is a new request.
    """

    _client: AsyncClient
    name: str
    options: Options
    kind: Kind = Kind()
    session: Optional[Tuple[Secret, Tenure]] = field(default=None, repr=False)

    async def acquire(self) -> AsyncLease:
        """Return the lock, if it is free or becomes free within the wait.

        The queue is first come, first served, and a broken connection does not cost the place in it if the server is
        back within 10 s, and before `retry` gives up: by default after about 4 s of refused connections. Whoever is
        cancelled leaves the queue.
        """
        return await self._ask(Manner.QUEUE if self.options.wait > 0 else Manner.ONCE)

    async def acquire_with_retry(self) -> AsyncLease:
        """Return the lock, by coming back whenever the server recommends it. Whoever queues goes first."""
        return await self._ask(Manner.RETURN)

    async def run(self, work: Callable[[AsyncLease], Awaitable[R]]) -> R:
        """Do the work while the lock is held. If the lock is lost meanwhile, the work is cancelled: `LeaseLost`."""
        refuse_generator(work)
        async with await self.acquire() as lease:
            return await unless_lost(lease, awaitable(work(lease)))

    def job(
        self, *, skip_if_held: bool = False
    ) -> Callable[[Callable[Concatenate[AsyncLease, P], Awaitable[R]]], Callable[P, Awaitable[Optional[R]]]]:
        """Decorate a coroutine function that runs only while the lock is held, and gets the lease first.

        With `skip_if_held` it is not run and `None` is returned if somebody else has the lock.
        """

        def decorate(
            function: Callable[Concatenate[AsyncLease, P], Awaitable[R]],
        ) -> Callable[P, Awaitable[Optional[R]]]:
            refuse_generator(function)

            @functools.wraps(function)
            async def run(*args: P.args, **kwargs: P.kwargs) -> Optional[R]:
                try:
                    lease = await self.acquire()
                except NotAcquired:
                    if skip_if_held:
                        return None
                    raise
                async with lease:
                    return await unless_lost(lease, awaitable(function(lease, *args, **kwargs)))

            return run

        return decorate

    async def _enter(self) -> AsyncLease:
        return await self.acquire()

    async def _ask(self, manner: Manner) -> AsyncLease:
        margin = self._check()
        question = Question(self._client, self.options, manner, self._body(), early_is_ended=True)

        async def send(body: Any, patience: Optional[float]) -> wire.Acquired:
            return await self._client.acquire(self.name, cast(wire.AcquireRequest, body), patience=patience)

        async def take(sent_at: float, acquired: wire.Acquired) -> AsyncLease:
            return await self._take(margin, sent_at, acquired)

        lease = await question.ask(send, take)
        if self.options.watched:
            lease.watch()
        if self.options.on_lost is not None:
            call_in_loop(lease._tenure, self.options.on_lost)
        return lease

    def _check(self) -> float:
        """Return the margin, if everything makes sense together."""
        if self.session is not None:
            if self.options.ttl is not None or self.options.margin is not None:
                raise Invalid("ttl and margin of a session's lock are those of the session")
            if (lost := self.session[1].loss()) is not None:
                raise SessionOver(f"the session is over: {lost}")
        return self.options.margin_or_default()

    def _body(self) -> Dict[str, Any]:
        options = self.options
        return {
            "owner_id": options.owner or self._client.owner,
            "ttl_ms": millis(options.ttl_or_default) if self.session is None else None,
            "session_id": self.session[0].reveal() if self.session is not None else None,
            "grace_ms": None if options.grace is None else millis(options.grace),
            "metadata": options.metadata,
            **self.kind.fields(),
        }

    async def _take(self, margin: float, sent_at: float, acquired: wire.Acquired) -> AsyncLease:
        proof = proof_of(self._client, acquired)
        if self.session is not None:
            return AsyncLease.of_session(proof, self.session[1])
        lasts = seconds(acquired["expires_after_send_ms"])
        sent_at, lasts = await renewed_after_wait(proof, self.options.ttl_or_default, sent_at, lasts)
        return AsyncLease.alone(proof, self.options.ttl_or_default, margin, sent_at, lasts)


async def renewed_after_wait(proof: Any, ttl: float, sent_at: float, lasts: float) -> Tuple[float, float]:
    """Return when the request was sent and how long the lease lasts from then, also after a long wait.

    What the server gave counts from the send time, and clocks may have drifted apart over the wait by more than the
    whole lease. A renewal counts from now.
    """
    clock = proof.client.clock
    if clock.now() - sent_at > ttl:
        now = clock.now()
        with contextlib.suppress(LeaseholdError):
            return now, await proof.renew(ttl, None)
    return sent_at, lasts
