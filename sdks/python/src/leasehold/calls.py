"""Every call of the native dialect, as it is on the wire, with nothing in the background.

What only reads is asked again if no answer comes, and so is a revocation if it is certain that nothing was done.
Anything else is one request and one answer.

Deadlines are the caller's business here: note the time *before* the call and add `expires_after_send_ms` to that.
`AsyncClient.lock` does so.
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Dict, Iterator, Mapping, Optional, Type, cast
from urllib.parse import quote

from . import wire
from .clock import Clock
from .errors import Foreign, Invalid, LeaseholdError, NotAcquired, NotReleased, NotRenewed, WaitTimeout
from .retry import persist
from .transport import Answer, Transport

#: A backup takes as long as the server's disk does.
BACKUP_MAX = 600.0


class Calls:
    """The calls. Answers are dictionaries with the types of `leasehold.wire`."""

    def __init__(self, namespace: Optional[str], clock: Clock) -> None:
        self.namespace = namespace
        self.clock = clock

    def _transport(self) -> Transport:
        raise NotImplementedError

    async def acquire(
        self, lock: str, request: wire.AcquireRequest, *, patience: Optional[float] = None
    ) -> wire.Acquired:
        """Ask for a lock once. With `wait_ms` it is answered when it is granted or the time is over.

        With `patience` no answer is waited for longer than that, whatever `wait_ms` says.
        """
        path = self._lock_path(lock, "/acquire")
        answer = await self._transport().call("POST", path, _body(request), **_how_long(request, patience))
        return cast(wire.Acquired, _read(answer, NotAcquired, LEASE))

    async def renew(self, lock: str, request: wire.RenewRequest, *, patience: Optional[float] = None) -> wire.Renewed:
        """Make a lease last longer."""
        path = self._lock_path(lock, "/renew")
        answer = await self._transport().call("POST", path, _body(request), patience=patience)
        return cast(wire.Renewed, _read(answer, NotRenewed, TIME))

    async def release(self, lock: str, request: wire.ReleaseRequest) -> wire.Released:
        """Give a lease back."""
        answer = await self._transport().call("POST", self._lock_path(lock, "/release"), _body(request))
        try:
            return cast(wire.Released, _read(answer, NotReleased))
        except NotReleased as error:
            raise NotReleased({"reason": error.reason, "error": str(error)}, [lock]) from None

    async def acquire_all(
        self, request: wire.AcquireAllRequest, *, patience: Optional[float] = None
    ) -> wire.AcquiredAll:
        """Ask for several locks or none, once. `patience` is that of `acquire`."""
        how_long = _how_long(request, patience)
        answer = await self._transport().call("POST", self._path("/acquire"), _body(request), **how_long)
        return cast(wire.AcquiredAll, _read(answer, NotAcquired, {"leases": _are_leases, **TIME}))

    async def renew_all(self, request: wire.RenewAllRequest, *, patience: Optional[float] = None) -> wire.Renewed:
        """Make several leases last longer, or none."""
        answer = await self._transport().call("POST", self._path("/renew"), _body(request), patience=patience)
        return cast(wire.Renewed, _read(answer, NotRenewed, TIME))

    async def release_all(self, request: wire.ReleaseAllRequest) -> wire.ReleasedAll:
        """Give several leases back, those that are still active. What became of each is in the answer."""
        answer = await self._transport().call("POST", self._path("/release"), _body(request))
        # That none was active is an answer like any other.
        if answer.status == 409 and isinstance(said := answer.json(), dict) and _fits(said, RELEASED):
            return cast(wire.ReleasedAll, said)
        return cast(wire.ReleasedAll, _read(answer, None, RELEASED))

    async def cancel(self, owner: str, request_id: str) -> bool:
        """End a wait at once. False: there was none, or its lease was granted."""
        body = {"owner_id": owner, "request_id": request_id}
        answer = await self._transport().call("POST", self._path("/cancel"), body)
        return bool(_read(answer, None, {"cancelled": _is_bool})["cancelled"])

    async def look(self, lock: str) -> wire.LockState:
        """Return what is true of a lock right now. A lock nobody ever used is free."""
        return cast(wire.LockState, await self._get(self._lock_path(lock)))

    async def list(
        self,
        *,
        prefix: Optional[str] = None,
        owner: Optional[str] = None,
        state: Optional[str] = None,
        limit: Optional[int] = None,
        cursor: Optional[str] = None,
    ) -> wire.LockList:
        """Return one page of locks. `state` is `held`, `waiting` or `free`."""
        query = _query(prefix=prefix, owner=owner, state=state, limit=limit, cursor=cursor)
        return cast(wire.LockList, await self._get(self._path("/locks") + query))

    async def history(
        self,
        lock: Optional[str] = None,
        *,
        owner: Optional[str] = None,
        since_ms: Optional[int] = None,
        limit: Optional[int] = None,
        cursor: Optional[str] = None,
    ) -> wire.History:
        """Return what happened to one lock or all, newest first."""
        path = self._path("/history") if lock is None else self._lock_path(lock, "/history")
        query = _query(owner=owner, since=since_ms, limit=limit, cursor=cursor)
        return cast(wire.History, await self._get(path + query))

    async def revoke(self, lock: str, reason: str) -> wire.Revoked:
        """Take a lock away from all who have it."""
        return cast(wire.Revoked, await self._revoke(self._lock_path(lock, "/revoke"), {"reason": reason}))

    async def revoke_all(self, request: wire.RevokeAllRequest) -> wire.RevokedAll:
        """Revoke everything that an owner, a session or a principal has, in all namespaces."""
        return cast(wire.RevokedAll, await self._revoke("/v1/revoke", _body(request)))

    async def check_fence(self, lock: str, fencing_token: int) -> wire.FenceVerdict:
        """Return whether a token's lease is active. Advice only: by the time you act on it, it may not be."""
        body: Dict[str, Any] = {"lock_name": lock, "fencing_token": fencing_token}
        if self.namespace is not None:
            body["namespace"] = self.namespace
        return cast(wire.FenceVerdict, await self._find_out("POST", "/v1/fence/check", body))

    async def open_session(self, owner: str, ttl_ms: int) -> wire.SessionOpened:
        """Open a session without keeping it alive."""
        answer = await self._transport().call("POST", "/v1/sessions", {"owner_id": owner, "ttl_ms": ttl_ms})
        return cast(
            wire.SessionOpened,
            _read(answer, None, {"session_id": _is_text, "owner_id": _is_text, "expires_after_send_ms": _is_count}),
        )

    async def keep_session(self, session_id: str, *, patience: Optional[float] = None) -> wire.KeptAlive:
        """Keep a session alive for another ttl."""
        path = f"/v1/sessions/{escape(session_id)}/keepalive"
        answer = await self._transport().call("POST", path, patience=patience)
        return cast(wire.KeptAlive, _read(answer, None, {"expires_after_send_ms": _is_count}))

    async def close_session(self, session_id: str) -> None:
        """End a session and give back all its leases."""
        answer = await self._transport().call("DELETE", f"/v1/sessions/{escape(session_id)}")
        if not 200 <= answer.status < 300:
            raise answer.failure()

    async def take_backup(self) -> wire.BackupTaken:
        """Have the server take a backup of itself, below the folder it was told."""
        answer = await self._transport().call("POST", "/v1/admin/backup", patience=BACKUP_MAX)
        return cast(wire.BackupTaken, _read(answer, None))

    async def ready(self) -> None:
        """Return if the server could make something durable right now."""

        async def ask() -> Answer:
            with _harmless():
                return await self._transport().call("GET", "/readyz")

        # That it is not ready is an answer: only who says nothing is asked again.
        answer = await persist(self.clock, ask)
        if not 200 <= answer.status < 300:
            with _harmless():
                raise answer.failure()

    async def _get(self, path: str) -> Dict[str, Any]:
        return await self._find_out("GET", path)

    async def _find_out(self, method: str, path: str, body: Optional[Mapping[str, Any]] = None) -> Dict[str, Any]:
        """Ask what is true, again if there is no answer: that changes nothing."""

        async def ask() -> Dict[str, Any]:
            with _harmless():
                return _read(await self._transport().call(method, path, body), None)

        return await persist(self.clock, ask)

    async def _revoke(self, path: str, body: Mapping[str, Any]) -> Dict[str, Any]:
        """Revoke, once: a second time could hit whoever was granted the lock by the first."""

        async def ask() -> Dict[str, Any]:
            return _read(await self._transport().call("POST", path, body), None)

        return await persist(self.clock, ask, twice=False)

    def _path(self, what: str) -> str:
        return "/v1" + what if self.namespace is None else f"/v1/namespaces/{escape(self.namespace)}{what}"

    def _lock_path(self, lock: str, what: str = "") -> str:
        return self._path(f"/locks/{escape(checked_name(lock))}{what}")


@contextlib.contextmanager
def _harmless() -> Iterator[None]:
    """Let errors say that nothing can have taken effect: somebody only looked."""
    try:
        yield
    except LeaseholdError as error:
        error.may_have_taken_effect = False
        raise


def checked_name(lock: Any) -> str:
    """Return the name of a lock, if it is one."""
    if not isinstance(lock, str):
        raise Invalid(f"the name of a lock is a str, not {lock!r}")
    if not lock:
        raise Invalid("a lock must have a name")
    return lock


def escape(text: str) -> str:
    """Return `text` as one step of a path, or one value of a query."""
    try:
        # A step of dots alone would be taken for a way up.
        return "%2E" * len(text) if text.strip(".") == "" else quote(text, safe="")
    except UnicodeEncodeError:
        raise Invalid(f"{text!r} is not valid Unicode") from None


def _body(request: Any) -> Mapping[str, Any]:
    return {name: value for name, value in request.items() if value is not None}


def _how_long(request: Any, patience: Optional[float]) -> Dict[str, Any]:
    """Return how long an answer to this acquire is waited for."""
    if patience is not None:
        # Nobody was to answer before.
        return {"patience": patience, "late_is_silent": False}
    return {"longer": (request.get("wait_ms") or 0) / 1000}


def _query(**parameters: Any) -> str:
    given = [f"{name}={escape(str(value))}" for name, value in parameters.items() if value is not None]
    return "?" + "&".join(given) if given else ""


#: What must be there, and how it must be.
Needed = Mapping[str, Callable[[Any], bool]]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _are_leases(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(lease, dict) and _fits(lease, GRANTED) for lease in value)


def _are_released(value: Any) -> bool:
    needed: Needed = {"lock_name": _is_text, "released": _is_bool}
    return isinstance(value, list) and all(isinstance(lease, dict) and _fits(lease, needed) for lease in value)


RELEASED: Needed = {"leases": _are_released}
GRANTED: Needed = {"lock_name": _is_text, "lease_id": _is_text, "fencing_token": _is_count}
#: `None` is for ever, and has to be said.
TIME: Needed = {"expires_after_send_ms": lambda value: value is None or _is_count(value)}
LEASE: Needed = {"owner_id": _is_text, **GRANTED, **TIME}


def _fits(said: Mapping[str, Any], needed: Needed) -> bool:
    return all(name in said and is_right(said[name]) for name, is_right in needed.items())


def _read(answer: Answer, refusal: Optional[Type[LeaseholdError]], needed: Optional[Needed] = None) -> Dict[str, Any]:
    """Return what a 2xx says; a 409 may be a refusal, and anything else is an error.

    So is one that lacks what is needed: it is not our server's, and what would be read of it, a lease without an end
    for example, is nothing that anybody granted.
    """
    said = answer.json()
    if isinstance(said, dict):
        if answer.status == 409 and refusal is not None and "reason" in said:
            raise _refused(refusal, said, answer)
        if 200 <= answer.status < 300:
            if _fits(said, needed or {}):
                return said
            raise Foreign(answer.status, answer.body)
    raise answer.failure() if not 200 <= answer.status < 300 else Foreign(answer.status, answer.body)


def _refused(refusal: Type[LeaseholdError], said: Dict[str, Any], answer: Answer) -> LeaseholdError:
    if refusal is NotAcquired and said["reason"] == "WAIT_TIMEOUT":
        refusal = WaitTimeout
    try:
        return refusal(said)
    except (KeyError, TypeError):
        return Foreign(answer.status, answer.body)
