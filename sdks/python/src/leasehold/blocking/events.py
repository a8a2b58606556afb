"""What happens to locks, and who leads: see `leasehold.events` and `leasehold.election`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional

from ..election import AsyncElection, AsyncObserver, Leader
from ..events import AsyncEvents, Watched
from ..loss import OnLost
from ..transport import within
from .request import LockRequest

if TYPE_CHECKING:
    from .client import Client


class Events:
    """A stream of events that goes on over broken connections and restarts of the server: `for`. It never ends."""

    def __init__(self, client: Client, events: AsyncEvents) -> None:
        self._client = client
        self._events = events

    def connect(self) -> None:
        """Connect, so that nothing that happens from here on is missed. Otherwise `next` does."""
        self._client._portal().call(self._events.connect())

    def next(self, timeout: Optional[float] = None) -> Watched:
        """Return the next event. With `timeout`, `TimeoutError` if there is none within so many seconds."""
        portal = self._client._portal()
        if timeout is None:
            return portal.call(self._events.next())
        return portal.call(within(timeout, self._events.next()))

    def close(self) -> None:
        """Close the connection. `next` would open another."""
        self._client._portal().call(self._events.close())

    def __iter__(self) -> Events:
        return self

    def __next__(self) -> Watched:
        return self.next()

    def __enter__(self) -> Events:
        self.connect()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True)
class Election:
    """An election: `client.election("scheduler")`."""

    _client: Client
    _election: AsyncElection

    def campaign(self, value: Any = None, *, wait: float = math.inf, on_lost: Optional[OnLost] = None) -> LockRequest:
        """Return a request to lead, behind those that came before, that announces `value`.

        `with election.campaign("10.0.0.7") as term:` waits to be the leader. Its lease is the term: `release` resigns,
        `lost` tells when it is over.
        """
        return LockRequest.of(self._client, self._election.campaign(value, wait=wait, on_lost=on_lost))

    def leader(self) -> Optional[Leader]:
        """Return who leads right now."""
        return self._client._portal().call(self._election.leader())

    def observe(self) -> Observer:
        """Return an iterator of who leads: now, and whenever that is another."""
        return Observer(self._client, self._election.observe())


class Observer:
    """Tells who leads: `for leader in election.observe():`."""

    def __init__(self, client: Client, observer: AsyncObserver) -> None:
        self._client = client
        self._observer = observer

    def next(self, timeout: Optional[float] = None) -> Optional[Leader]:
        """Return who leads, at first, and then whenever that is another. `timeout` is as that of `Events.next`."""
        portal = self._client._portal()
        if timeout is None:
            return portal.call(self._observer.next())
        return portal.call(within(timeout, self._observer.next()))

    def close(self) -> None:
        """Close the connection."""
        self._client._portal().call(self._observer.close())

    def __iter__(self) -> Observer:
        return self

    def __next__(self) -> Optional[Leader]:
        return self.next()

    def __enter__(self) -> Observer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
