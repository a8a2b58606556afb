"""One leader at a time, and who it is.

A leader is whoever holds a lock, and says who it is by the lock's metadata. It is a leader only as long as its lease
lasts: what it does as one has to carry its fencing token, or check that it still is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional

from .asking import Options
from .events import AsyncEvents, Current, Event, Stale
from .loss import OnLost
from .request import AsyncLockRequest

if TYPE_CHECKING:
    from . import wire
    from .client import AsyncClient


@dataclass(frozen=True)
class Leader:
    """Who leads."""

    owner: str
    #: The fencing token of its term: it grows with every term.
    fencing_token: int
    #: What it said of itself in its campaign: an address, perhaps.
    value: Any


@dataclass(frozen=True)
class AsyncElection:
    """An election: `client.election("scheduler")`."""

    _client: AsyncClient
    name: str
    ttl: Optional[float] = None

    def campaign(
        self, value: Any = None, *, wait: float = math.inf, on_lost: Optional[OnLost] = None
    ) -> AsyncLockRequest:
        """Return a request to lead, behind those that came before, that announces `value`.

        `async with election.campaign("10.0.0.7") as term:` waits to be the leader. Its lease is the term: `release`
        resigns, `lost` tells when it is over.
        """
        options = Options(ttl=self.ttl, wait=wait, metadata=value, on_lost=on_lost)
        return AsyncLockRequest(self._client, self.name, options)

    async def leader(self) -> Optional[Leader]:
        """Return who leads right now."""
        return leader_of(await self._client.look(self.name))

    def observe(self) -> AsyncObserver:
        """Return an iterator of who leads: now, and whenever that is another."""
        return AsyncObserver(self, AsyncEvents(self._client, self.name, None))


def leader_of(state: wire.LockState) -> Optional[Leader]:
    """Return the holder of a lock as a leader."""
    for holder in state.get("holders") or []:
        return Leader(holder["owner_id"], holder["fencing_token"], holder.get("metadata"))
    return None


class AsyncObserver:
    """Tells who leads: `async for leader in election.observe():`.

    Leaders of terms that were over before we looked are left out.
    """

    def __init__(self, election: AsyncElection, events: AsyncEvents) -> None:
        self._election = election
        self._events = events
        self._has_told = False
        self._told: Optional[Leader] = None
        # Something happened since we looked. That stays so if looking fails.
        self._must_look = True

    async def next(self) -> Optional[Leader]:
        """Return who leads, at first, and then whenever that is another."""
        while True:
            if not self._must_look:
                happened = await self._events.next()
                if isinstance(happened, Event) and happened.lock_name != self._election.name:
                    continue
                if isinstance(happened, (Stale, Current)):
                    # What happened, if anything, follows.
                    continue
                self._must_look = True
            elif not self._has_told:
                # First listen, then look: so nothing is missed in between.
                await self._events.connect()
            leader = await self._election.leader()
            self._must_look = False
            if not self._has_told or leader != self._told:
                self._has_told, self._told = True, leader
                return leader

    async def close(self) -> None:
        """Close the connection."""
        await self._events.close()

    def __aiter__(self) -> AsyncObserver:
        return self

    async def __anext__(self) -> Optional[Leader]:
        return await self.next()

    async def __aenter__(self) -> AsyncObserver:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
