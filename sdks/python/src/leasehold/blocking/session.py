"""One keep-alive for any number of locks: see `leasehold.session`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Optional

from ..entrance import Entrance
from ..loss import OnLost
from ..retry import Retry
from ..session import AsyncSession, AsyncSessionRequest
from .holding import Holding
from .portal import Portal
from .request import LockRequest

if TYPE_CHECKING:
    from .client import Client


class Session(Holding[AsyncSession]):
    """A session that is kept alive by a thread until it is closed, dropped or lost."""

    def __init__(self, client: Client, portal: Portal, inner: AsyncSession, on_lost: Optional[OnLost]) -> None:
        self._client = client
        super().__init__(portal, inner, on_lost)

    def lock(
        self,
        name: str,
        *,
        wait: float = 0.0,
        shared: bool = False,
        limit: Optional[int] = None,
        grace: Optional[float] = None,
        metadata: Any = None,
        watched: bool = False,
        retry: Retry = Retry(),  # noqa: B008, it cannot be changed
        on_lost: Optional[OnLost] = None,
    ) -> LockRequest:
        """Return a request for a lock that lasts as long as the session.

        It is not renewed by itself. If it alone is revoked, it counts as held until the session ends, unless it is
        `watched`; its release raises `NotReleased` then.
        """
        self._refuse_fork()
        request = self._inner.lock(
            name,
            wait=wait,
            shared=shared,
            limit=limit,
            grace=grace,
            metadata=metadata,
            watched=watched,
            retry=retry,
            on_lost=on_lost,
        )
        return LockRequest.of(self._client, request)

    @property
    def id(self) -> str:
        """The session's id: a secret."""
        return self._inner.id

    def close(self) -> None:
        """End it and give back every lock in it. `SessionOver` means that it was over before."""
        self.release()


@dataclass
class SessionRequest(Entrance[Session]):
    """A session to be opened: `with client.session(ttl=10) as session:`."""

    _client: Client
    _request: AsyncSessionRequest
    _on_lost: Optional[OnLost]

    @classmethod
    def of(cls, client: Client, request: AsyncSessionRequest) -> SessionRequest:
        """Return the same request, whose callback is called on a thread instead of in the loop."""
        options = replace(request.options, on_lost=None)
        return cls(client, replace(request, options=options), request.options.on_lost)

    def open(self) -> Session:
        """Open it and keep it alive."""
        portal = self._client._portal()
        return Session(self._client, portal, portal.call(self._request.open()), self._on_lost)

    def _enter(self) -> Session:
        return self.open()
