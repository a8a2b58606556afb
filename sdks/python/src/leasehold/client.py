"""A server, as tasks of asyncio see it."""

from __future__ import annotations

import asyncio
import os
import weakref
from typing import Any, List, NoReturn, Optional, Sequence, Union

from . import secret
from .asking import Options
from .calls import Calls
from .clock import Clock
from .election import AsyncElection
from .events import AsyncEvents
from .group import AsyncLocksRequest, Wanted
from .holding import Holding, say_farewell
from .loss import OnLost
from .request import AsyncLockRequest, Kind
from .retry import Retry
from .session import AsyncSessionRequest
from .settings import Settings
from .transport import Transport

Path = Union[str, "os.PathLike[str]", None]

#: Connections of a process we were forked from. They are kept so that nobody closes them: they are shared with it.
_inherited: List[object] = []


class AsyncClient(Calls):
    """A client of one server, or of several that are one service, for asyncio.

    Renewals are tasks of the loop in which a lock was acquired. Whoever blocks that loop stops them, and loses the
    lock. The blocking `Client` renews on a thread of its own.
    """

    def __init__(
        self,
        url: Union[str, Sequence[str], None] = None,
        *,
        namespace: Optional[str] = None,
        owner: Optional[str] = None,
        api_key: Optional[str] = None,
        api_key_file: Path = None,
        insecure: bool = False,
        direct: Optional[bool] = None,
        follow_any_leader: bool = False,
        ca_file: Path = None,
        client_cert_file: Path = None,
        client_key_file: Path = None,
        timeout: float = 6.0,
        connect_timeout: float = 3.0,
        clock: Optional[Clock] = None,
    ) -> None:
        """Take the settings; nothing is sent yet.

        - `url`: one, several with commas between, or a list. Default: LEASEHOLD_URL, or http://127.0.0.1:8080.
        - `direct`: ask a server that does not lead to say who does, and go there, instead of letting it pass requests
          on. Where the leader is at none of the URLs, it is asked to pass them on all the same. Default: with several.
        - `follow_any_leader`: go to a leader whose URL was not given, too. Then whoever answers at one of the URLs
          decides where requests, with the ids of leases in them, are sent; so it is refused together with an API key or
          a certificate. It does not lead from https to http.
        - `namespace`: of every lock. Default: LEASEHOLD_NAMESPACE, or the server's default.
        - `owner`: who asks. Default: HOST-PID-RANDOM, another in every process.
        - `api_key`, `api_key_file`: sent as `Authorization: Bearer`. Default: LEASEHOLD_API_KEY_FILE, or
          LEASEHOLD_API_KEY. A key is not sent over plain http off this machine unless `insecure` is set.
        - `ca_file`, `client_cert_file`, `client_key_file`: for https. Default: LEASEHOLD_CA_FILE,
          LEASEHOLD_CLIENT_CERT_FILE, LEASEHOLD_CLIENT_KEY_FILE.
        - `timeout`: how many seconds an answer may take, beyond what was asked to be waited. It is longer than the 5 s
          for which a server that does not lead may hold a request.
        - `clock`: another clock, in tests.
        """
        self._settings = Settings.read(
            url,
            namespace=namespace,
            owner=owner,
            api_key=api_key,
            api_key_file=api_key_file,
            insecure=insecure,
            direct=direct,
            follow_any_leader=follow_any_leader,
            ca_file=ca_file,
            client_cert_file=client_cert_file,
            client_key_file=client_key_file,
            timeout=timeout,
            connect_timeout=connect_timeout,
            clock=clock,
        )
        super().__init__(self._settings.namespace, self._settings.clock)
        self._pid = os.getpid()
        self._owner = secret.owner()
        self._made: Optional[Transport] = None
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._held: weakref.WeakSet[Holding] = weakref.WeakSet()

    @property
    def owner(self) -> str:
        """The owner that asks unless another is named."""
        self._notice_fork()
        return self._settings.owner or self._owner

    def lock(
        self,
        name: str,
        *,
        ttl: Optional[float] = None,
        wait: float = 0.0,
        margin: Optional[float] = None,
        shared: bool = False,
        limit: Optional[int] = None,
        grace: Optional[float] = None,
        metadata: Any = None,
        owner: Optional[str] = None,
        watched: bool = False,
        retry: Retry = Retry(),  # noqa: B008, it cannot be changed
        on_lost: Optional[OnLost] = None,
    ) -> AsyncLockRequest:
        """Return a request for a lock. Times are seconds.

        - `ttl`: how long the lease lasts if it is not renewed, 30 s unless given. It is renewed after a third of that.
        - `wait`: how long to wait in the queue, not at all unless given.
        - `margin`: how long before its end the lease counts as lost, the time you need to stop. Unless given, 0.25 s
          or a tenth of the ttl, whichever is less. At most half of the ttl.
        - `shared`, `limit`: share it with others that say so too, or with up to `limit` in all.
        - `grace`: if the lease expires, the lock is kept for this owner so long.
        - `metadata`: any JSON, shown to whoever looks at the lock.
        - `watched`: be told of a revocation at once, and why (`lease.lost.detail`), not with the next renewal. It takes
          one more connection.
        - `on_lost`: called with the reason when the lease is lost, before it can end; not when it is released.
        """
        options = Options(ttl, wait, margin, grace, metadata, owner, watched, retry, on_lost)
        return AsyncLockRequest(self, name, options, Kind(shared, limit))

    def locks(
        self,
        *locks: Union[str, Wanted],
        ttl: Optional[float] = None,
        wait: float = 0.0,
        margin: Optional[float] = None,
        grace: Optional[float] = None,
        metadata: Any = None,
        owner: Optional[str] = None,
        watched: bool = False,
        retry: Retry = Retry(),  # noqa: B008, it cannot be changed
        on_lost: Optional[OnLost] = None,
    ) -> AsyncLocksRequest:
        """Return a request for several locks or none: `client.locks("a", shared("b"), counted("c", 3))`."""
        options = Options(ttl, wait, margin, grace, metadata, owner, watched, retry, on_lost)
        wanted = tuple(lock if isinstance(lock, Wanted) else Wanted(lock) for lock in locks)
        return AsyncLocksRequest(self, wanted, options)

    def session(
        self,
        *,
        ttl: Optional[float] = None,
        margin: Optional[float] = None,
        owner: Optional[str] = None,
        retry: Retry = Retry(),  # noqa: B008, it cannot be changed
        on_lost: Optional[OnLost] = None,
    ) -> AsyncSessionRequest:
        """Return a request for a session: one keep-alive for any number of locks."""
        options = Options(ttl=ttl, margin=margin, owner=owner, retry=retry, on_lost=on_lost)
        return AsyncSessionRequest(self, options)

    def watch(self, prefix: str = "", *, since: Optional[str] = None) -> AsyncEvents:
        """Return what happens to locks whose name begins with `prefix`: from now on, or after the event `since`."""
        return AsyncEvents(self, prefix, since)

    def election(self, name: str, *, ttl: Optional[float] = None) -> AsyncElection:
        """Return an election: one leader at a time."""
        return AsyncElection(self, name, ttl)

    async def close(self) -> None:
        """Give back what is still held, as well as that can be done within a second, and close all connections."""
        # The locks of a session are given back with it.
        held = [holding for holding in self._held if not holding._tenure.is_inside]
        await asyncio.gather(say_farewell(), *(holding._farewell() for holding in held))
        made, self._made = self._made, None
        if made is not None and self._loop is asyncio.get_running_loop():
            await made.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a client cannot be sent to another process, with its connections; make one there")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {', '.join(self._settings.urls)} owner={self.owner!r}>"

    def _transport(self) -> Transport:
        """Return connections of the running loop: those of another loop cannot be used."""
        self._notice_fork()
        loop = asyncio.get_running_loop()
        if self._made is None or self._loop is not loop:
            self._made, self._loop = Transport(self._settings), loop
        return self._made

    def _notice_fork(self) -> None:
        """Begin anew in a forked child: its leases and connections are its parent's, and its name is another."""
        if os.getpid() != self._pid:
            _inherited.append((self._made, self._loop, self._held))
            self._pid = os.getpid()
            self._owner = secret.owner()
            self._made, self._loop, self._held = None, None, weakref.WeakSet()
