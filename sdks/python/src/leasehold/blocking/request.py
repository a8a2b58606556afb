"""A lock to be asked for, and several: see `leasehold.request` and `leasehold.group`."""

from __future__ import annotations

import functools
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Callable, Optional, TypeVar
from weakref import WeakSet

from typing_extensions import Concatenate, ParamSpec

from ..entrance import Entrance
from ..errors import NotAcquired
from ..group import AsyncLocksRequest
from ..loss import OnLost
from ..request import AsyncLockRequest
from ..work import done, refuse_postponed
from .holding import Lease, MultiLease

if TYPE_CHECKING:
    from .client import Client

P = ParamSpec("P")
R = TypeVar("R")
#: What goes on in some thread, and can be cancelled by another.
Waiting = WeakSet["Future[Any]"]


@dataclass
class LockRequest(Entrance[Lease]):
    """A lock to be asked for: `with client.lock("nightly", wait=60) as lease:`.

    It can be used again: every acquire is a new request.
    """

    _client: Client
    _request: AsyncLockRequest
    _on_lost: Optional[OnLost]
    _waiting: Waiting = field(default_factory=WeakSet, repr=False)

    @classmethod
    def of(cls, client: Client, request: AsyncLockRequest) -> LockRequest:
        """Return the same request, whose callback is called on a thread instead of in the loop."""
        options = replace(request.options, on_lost=None)
        return cls(client, replace(request, options=options), request.options.on_lost)

    def acquire(self) -> Lease:
        """Return the lock, if it is free or becomes free within the wait. Ctrl-C leaves the queue."""
        portal = self._client._portal()
        return Lease(portal, portal.call(self._request.acquire(), self._waiting.add), self._on_lost)

    def acquire_with_retry(self) -> Lease:
        """Return the lock, by coming back whenever the server recommends it. Whoever queues goes first."""
        portal = self._client._portal()
        lease = portal.call(self._request.acquire_with_retry(), self._waiting.add)
        return Lease(portal, lease, self._on_lost)

    def cancel(self) -> None:
        """End every acquire of this request that goes on in other threads: `Cancelled`. They leave the queue."""
        cancel_all(self._waiting)

    def run(self, work: Callable[[Lease], R]) -> R:
        """Do the work while the lock is held. If the lock was lost meanwhile: `LeaseLost`."""
        refuse_postponed(work)
        with self.acquire() as lease:
            return done(work(lease))

    def job(
        self, *, skip_if_held: bool = False
    ) -> Callable[[Callable[Concatenate[Lease, P], R]], Callable[P, Optional[R]]]:
        """Decorate a function that runs only while the lock is held, and gets the lease first.

        With `skip_if_held` it is not run and `None` is returned if somebody else has the lock.
        """

        def decorate(function: Callable[Concatenate[Lease, P], R]) -> Callable[P, Optional[R]]:
            refuse_postponed(function)

            @functools.wraps(function)
            def run(*args: P.args, **kwargs: P.kwargs) -> Optional[R]:
                try:
                    lease = self.acquire()
                except NotAcquired:
                    if skip_if_held:
                        return None
                    raise
                with lease:
                    return done(function(lease, *args, **kwargs))

            return run

        return decorate

    def _enter(self) -> Lease:
        return self.acquire()


@dataclass
class LocksRequest(Entrance[MultiLease]):
    """Several locks to be asked for together: all of them are granted at one instant or none is."""

    _client: Client
    _request: AsyncLocksRequest
    _on_lost: Optional[OnLost]
    _waiting: Waiting = field(default_factory=WeakSet, repr=False)

    @classmethod
    def of(cls, client: Client, request: AsyncLocksRequest) -> LocksRequest:
        """Return the same request, whose callback is called on a thread instead of in the loop."""
        options = replace(request.options, on_lost=None)
        return cls(client, replace(request, options=options), request.options.on_lost)

    def acquire(self) -> MultiLease:
        """Return all the locks, if they are free or become free together within the wait."""
        portal = self._client._portal()
        return MultiLease(portal, portal.call(self._request.acquire(), self._waiting.add), self._on_lost)

    def cancel(self) -> None:
        """End every acquire of this request that goes on in other threads: `Cancelled`. They leave the queues."""
        cancel_all(self._waiting)

    def _enter(self) -> MultiLease:
        return self.acquire()


def cancel_all(waiting: Waiting) -> None:
    """Cancel what goes on. What is done is left alone."""
    for future in list(waiting):
        future.cancel()
