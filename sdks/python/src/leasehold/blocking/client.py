"""A server, as threads see it."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any, Dict, NoReturn, Optional, Sequence, Union

from .. import wire
from ..client import AsyncClient, Path
from ..clock import Clock
from ..group import Wanted
from ..loss import OnLost
from ..retry import Retry
from .events import Election, Events
from .portal import Portal
from .request import LockRequest, LocksRequest
from .session import SessionRequest


class Client:
    """A client of one server, or of several that are one service, for programs that block.

    Any thread may use it. A thread of its own, started with the first call, renews. A forked child that uses the client
    of its parent begins anew, with a thread, connections and an owner of its own; it has none of its parent's leases.
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
        """Take the settings, which are those of `AsyncClient`; nothing is sent yet."""
        self._async = AsyncClient(
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
        # One for each process. Those of a parent are kept and left alone.
        self._portals: Dict[int, Portal] = {}
        self._lock = threading.Lock()
        _clients.add(self)

    @property
    def owner(self) -> str:
        """The owner that asks unless another is named."""
        return self._async.owner

    @property
    def clock(self) -> Clock:
        """The clock deadlines are on."""
        return self._async.clock

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
    ) -> LockRequest:
        """Return a request for a lock: see `AsyncClient.lock`. `on_lost` is called on a thread of its own."""
        request = self._async.lock(
            name,
            ttl=ttl,
            wait=wait,
            margin=margin,
            shared=shared,
            limit=limit,
            grace=grace,
            metadata=metadata,
            owner=owner,
            watched=watched,
            retry=retry,
            on_lost=on_lost,
        )
        return LockRequest.of(self, request)

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
    ) -> LocksRequest:
        """Return a request for several locks or none: `client.locks("a", shared("b"), counted("c", 3))`."""
        request = self._async.locks(
            *locks,
            ttl=ttl,
            wait=wait,
            margin=margin,
            grace=grace,
            metadata=metadata,
            owner=owner,
            watched=watched,
            retry=retry,
            on_lost=on_lost,
        )
        return LocksRequest.of(self, request)

    def session(
        self,
        *,
        ttl: Optional[float] = None,
        margin: Optional[float] = None,
        owner: Optional[str] = None,
        retry: Retry = Retry(),  # noqa: B008, it cannot be changed
        on_lost: Optional[OnLost] = None,
    ) -> SessionRequest:
        """Return a request for a session: one keep-alive for any number of locks."""
        request = self._async.session(ttl=ttl, margin=margin, owner=owner, retry=retry, on_lost=on_lost)
        return SessionRequest.of(self, request)

    def watch(self, prefix: str = "", *, since: Optional[str] = None) -> Events:
        """Return what happens to locks whose name begins with `prefix`: from now on, or after the event `since`."""
        return Events(self, self._async.watch(prefix, since=since))

    def election(self, name: str, *, ttl: Optional[float] = None) -> Election:
        """Return an election: one leader at a time."""
        return Election(self, self._async.election(name, ttl=ttl))

    def look(self, lock: str) -> wire.LockState:
        """Return what is true of a lock right now. A lock nobody ever used is free."""
        return self._portal().call(self._async.look(lock))

    def list(
        self,
        *,
        prefix: Optional[str] = None,
        owner: Optional[str] = None,
        state: Optional[str] = None,
        limit: Optional[int] = None,
        cursor: Optional[str] = None,
    ) -> wire.LockList:
        """Return one page of locks. `state` is `held`, `waiting` or `free`."""
        page = self._async.list(prefix=prefix, owner=owner, state=state, limit=limit, cursor=cursor)
        return self._portal().call(page)

    def history(
        self,
        lock: Optional[str] = None,
        *,
        owner: Optional[str] = None,
        since_ms: Optional[int] = None,
        limit: Optional[int] = None,
        cursor: Optional[str] = None,
    ) -> wire.History:
        """Return what happened to one lock or all, newest first."""
        page = self._async.history(lock, owner=owner, since_ms=since_ms, limit=limit, cursor=cursor)
        return self._portal().call(page)

    def revoke(self, lock: str, reason: str) -> wire.Revoked:
        """Take a lock away from all who have it."""
        return self._portal().call(self._async.revoke(lock, reason))

    def revoke_all(self, request: wire.RevokeAllRequest) -> wire.RevokedAll:
        """Revoke everything that an owner, a session or a principal has, in all namespaces."""
        return self._portal().call(self._async.revoke_all(request))

    def take_backup(self) -> wire.BackupTaken:
        """Have the server take a backup of itself, below the folder it was told."""
        return self._portal().call(self._async.take_backup())

    def check_fence(self, lock: str, fencing_token: int) -> wire.FenceVerdict:
        """Return whether a token's lease is active. Advice only: by the time you act on it, it may not be."""
        return self._portal().call(self._async.check_fence(lock, fencing_token))

    def ready(self) -> None:
        """Return if the server could make something durable right now."""
        self._portal().call(self._async.ready())

    def close(self) -> None:
        """Give back what is still held, as well as that can be done within a second, and end the thread."""
        with self._lock:
            portal = self._portals.pop(os.getpid(), None)
        if portal is not None:
            portal.stop()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a client cannot be sent to another process, with its connections; make one there")

    def __repr__(self) -> str:
        return repr(self._async).replace("<Async", "<", 1)

    def _portal(self) -> Portal:
        with self._lock:
            portal = self._portals.get(os.getpid())
            if portal is None:
                portal = self._portals[os.getpid()] = Portal(self._async.close)
            return portal

    def _after_fork(self) -> None:
        # Another thread may have held it when the process was forked.
        self._lock = threading.Lock()


_clients: weakref.WeakSet[Client] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for client in list(_clients):
        client._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
