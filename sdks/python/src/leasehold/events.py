"""What happens to locks, as it happens."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Deque, Dict, Optional, Union

from .calls import escape
from .errors import Foreign, LeaseholdError
from .retry import Retry
from .sse import Message, Parser

if TYPE_CHECKING:
    from .client import AsyncClient
    from .transport import Stream

#: The server says something at least every 15 s, if only a comment.
SILENCE_MAX = 45.0


@dataclass(frozen=True)
class Event:
    """Something happened to a lock. `id` is where to go on: `client.watch(since=event.id)`."""

    id: str
    #: `queued`, `granted`, `released`, `expired`, `revoked` or `wait_ended`.
    kind: str
    namespace: str
    lock_name: str
    owner_id: str
    fencing_token: int
    #: Epoch milliseconds.
    at_ms: int
    waited_ms: int = 0
    held_ms: int = 0
    #: Why it was revoked.
    reason: Optional[str] = None


@dataclass(frozen=True)
class Gap:
    """Something happened that this watcher will not be told. Look at the locks you care about, and go on."""

    reason: str


@dataclass(frozen=True)
class Stale(Gap):
    """The server cannot reach its store, so events can be late from here on. None is missing.

    It is a `Gap` for code that knows only events and gaps.
    """


@dataclass(frozen=True)
class Current(Gap):
    """The server reaches its store again: what was late has been told or follows at once. After a `Stale`."""


#: What a watcher is told.
Watched = Union[Event, Gap]

_NOTES = {"gap": Gap, "stale": Stale, "current": Current}
_KNOWN = {field.name for field in fields(Event)}


class AsyncEvents:
    """A stream of events that goes on over broken connections and restarts of the server: `async for`.

    Whenever it cannot be sure to have told everything, it says so by a `Gap`; while its server cannot reach its
    store, by a `Stale`. It never ends by itself.
    """

    def __init__(self, client: AsyncClient, prefix: str, since: Optional[str]) -> None:
        self._client = client
        self._prefix = prefix
        self._last_id = since
        self._stream: Optional[Stream] = None
        self._was_connected = False
        self._parser = Parser()
        self._ready: Deque[Union[Watched, LeaseholdError]] = deque()
        self._n_failures = 0

    async def connect(self) -> None:
        """Connect, so that nothing that happens from here on is missed. Otherwise `next` does."""
        if self._stream is not None:
            return
        query = f"?prefix={escape(self._prefix)}" if self._prefix else ""
        path = self._client._path("/events") + query
        self._stream = await self._client._transport().stream("GET", path, last_event_id=self._last_id)
        self._parser = Parser()
        if self._was_connected and self._last_id is None:
            self._ready.append(Gap("the connection broke before the first event"))
        self._was_connected = True

    async def next(self) -> Watched:
        """Return the next event, whenever it comes. Whoever is cancelled loses nothing.

        An error is raised when the server cannot be reached for as often as `Retry` says, or does not let us watch;
        calling again tries again.
        """
        retry = Retry()
        while True:
            if self._ready:
                ready = self._ready.popleft()
                if isinstance(ready, LeaseholdError):
                    raise ready
                return ready
            try:
                await self._read()
            except LeaseholdError as error:
                await self.close()
                self._n_failures += 1
                if not error.retryable or self._n_failures >= retry.attempts_max:
                    self._n_failures = 0
                    raise
                await asyncio.sleep(retry.pause(self._n_failures))

    async def close(self) -> None:
        """Close the connection. `next` would open another."""
        stream, self._stream = self._stream, None
        if stream is not None:
            await stream.close()

    def __aiter__(self) -> AsyncEvents:
        return self

    async def __anext__(self) -> Watched:
        return await self.next()

    async def __aenter__(self) -> AsyncEvents:
        await self.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _read(self) -> None:
        """Take one more piece of the stream."""
        await self.connect()
        # Connecting may itself have something to tell.
        if self._stream is None or self._ready:
            return
        piece = await self._stream.chunk(SILENCE_MAX)
        self._n_failures = 0
        for message in self._parser.push(piece):
            if message.id:
                self._last_id = message.id
            self._ready.append(_watched(message))


def _watched(message: Message) -> Union[Watched, LeaseholdError]:
    try:
        said: Dict[str, Any] = json.loads(message.data)
        note = _NOTES.get(message.event)
        if note is not None:
            return note(said["reason"])
        return Event(id=message.id, **{name: value for name, value in said.items() if name in _KNOWN})
    except (ValueError, TypeError, KeyError, AttributeError):
        return Foreign(200, b"")
