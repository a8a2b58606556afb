"""One keep-alive for any number of locks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional

from . import wire
from .asking import Options
from .entrance import AsyncEntrance
from .errors import LeaseholdError, SessionOver
from .heartbeat import Heartbeat
from .holding import Holding
from .lease import millis, seconds
from .loss import OnLost, call_in_loop
from .request import AsyncLockRequest, Kind
from .retry import Retry, persist
from .secret import Secret
from .tenure import Tenure

if TYPE_CHECKING:
    from .client import AsyncClient


@dataclass(frozen=True)
class OpenSession:
    """A session and the proof that it is ours: its id."""

    client: AsyncClient
    id: Secret

    async def renew(self, ttl: float, patience: Optional[float]) -> float:
        """Keep it alive, and return how long it lasts from when this was called. Its ttl is its own."""
        kept = await self.client.keep_session(self.id.reveal(), patience=patience)
        return seconds(kept["expires_after_send_ms"])

    async def give_back(self) -> None:
        """Close it. What fails and may be temporary is tried again."""
        may_be_closed = False

        async def close() -> None:
            nonlocal may_be_closed
            try:
                await self.client.close_session(self.id.reveal())
            except LeaseholdError as error:
                # The try before may have done it.
                if may_be_closed and isinstance(error, SessionOver):
                    return
                may_be_closed |= error.may_have_taken_effect
                raise

        await persist(self.client.clock, close)


class AsyncSession(Holding):
    """A session that is kept alive until it is closed, dropped or lost. Every lock in it is lost with it."""

    def __init__(self, grant: OpenSession, owner: str, tenure: Tenure, heartbeat: Heartbeat) -> None:
        self._id = grant.id
        self.owner = owner
        super().__init__(grant.client, grant, tenure, heartbeat)

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
    ) -> AsyncLockRequest:
        """Return a request for a lock that lasts as long as the session.

        It is not renewed by itself. If it alone is revoked, it counts as held until the session ends, unless it is
        `watched`; its release raises `NotReleased` then.
        """
        options = Options(None, wait, None, grace, metadata, self.owner, watched, retry, on_lost)
        return AsyncLockRequest(self._client, name, options, Kind(shared, limit), (self._id, self._tenure))

    @property
    def id(self) -> str:
        """The session's id: a secret."""
        return self._id.reveal()

    async def close(self) -> None:
        """End it and give back every lock in it. `NO_SUCH_SESSION` means that it was over before."""
        await self.release()

    def __repr__(self) -> str:
        state = "alive" if self.held else f"lost: {self.lost.reason}"
        return f"<{type(self).__name__} owner={self.owner!r} {state}>"


@dataclass
class AsyncSessionRequest(AsyncEntrance[AsyncSession]):
    """A session to be opened: `async with client.session(ttl=10) as session:`."""

    _client: AsyncClient
    options: Options

    async def open(self) -> AsyncSession:
        """Open it and keep it alive.

        A try whose answer was lost may leave a session behind that nobody knows; it holds nothing and runs out.
        """
        client, options = self._client, self.options
        margin, ttl, clock = options.margin_or_default(), options.ttl_or_default, client.clock
        owner = options.owner or client.owner
        sent_at = clock.now()

        async def ask() -> wire.SessionOpened:
            nonlocal sent_at
            sent_at = clock.now()
            return await client.open_session(owner, millis(ttl))

        opened = await persist(clock, ask, options.retry)
        client._transport().failover.warn(ttl)
        lasts = seconds(opened["expires_after_send_ms"])
        tenure = Tenure.granted(clock, margin, sent_at, lasts, f"session of {opened['owner_id']}")
        grant = OpenSession(client, Secret(opened["session_id"]))

        async def keep(patience: float) -> float:
            return await grant.renew(ttl, patience)

        heartbeat = Heartbeat(clock, tenure, ttl, sent_at + lasts, keep)
        session = AsyncSession(grant, opened["owner_id"], tenure, heartbeat)
        if options.on_lost is not None:
            call_in_loop(tenure, options.on_lost)
        return session

    async def _enter(self) -> AsyncSession:
        return await self.open()
