"""Several locks or none: asked for in one request, held as one."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple, cast

from . import wire
from .asking import Options, Question
from .calls import checked_name
from .entrance import AsyncEntrance
from .errors import Invalid, LeaseholdError, NotReleased, named
from .heartbeat import Heartbeat
from .holding import LeaseHolding
from .lease import millis, seconds
from .loss import call_in_loop
from .request import Kind, renewed_after_wait
from .retry import Manner, persist
from .sentinel import Sentinel
from .tenure import Tenure

if TYPE_CHECKING:
    from .client import AsyncClient


@dataclass(frozen=True)
class Wanted:
    """One of several locks: made by `shared` and `counted`. A name alone is a lock for us alone."""

    name: str
    kind: Kind = Kind()


def shared(name: str) -> Wanted:
    """Return a lock that is shared with others that say so too."""
    return Wanted(name, Kind(shared=True))


def counted(name: str, limit: int) -> Wanted:
    """Return a lock that is shared with up to `limit` in all. Tokens of such leases fence nothing."""
    return Wanted(name, Kind(limit=limit))


@dataclass(frozen=True)
class Proofs:
    """What shows the server that the leases are ours."""

    client: AsyncClient
    acquired: wire.AcquiredAll
    #: A try to release them may have been served, and its answer lost. That stays so if a program tries again.
    may_be_released: threading.Event = field(default_factory=threading.Event, repr=False)

    def _leases(self) -> List[wire.HeldLease]:
        return [
            {"lock_name": lease["lock_name"], "lease_id": lease["lease_id"], "fencing_token": lease["fencing_token"]}
            for lease in self.acquired["leases"]
        ]

    async def renew(self, ttl: float, patience: Optional[float]) -> float:
        """Make all of them last `ttl` from now, and return how long they last from when this was called."""
        owner_id = self.acquired["owner_id"]
        request: wire.RenewAllRequest = {
            "owner_id": owner_id,
            "extend_by_ms": millis(ttl),
            "leases": self._leases(),
        }
        return seconds((await self.client.renew_all(request, patience=patience))["expires_after_send_ms"])

    async def give_back(self) -> None:
        """Release those that are active. If one was not: `NotReleased`, and the others are released all the same."""
        request: wire.ReleaseAllRequest = {"owner_id": self.acquired["owner_id"], "leases": self._leases()}

        async def release() -> wire.ReleasedAll:
            try:
                return await self.client.release_all(request)
            except LeaseholdError as error:
                if error.may_have_taken_effect:
                    self.may_be_released.set()
                raise

        released = await persist(self.client.clock, release)
        over = [lease for lease in released["leases"] if not lease["released"]]
        # The server releases them in one step. So a try before, whose answer was lost, left none or was not served.
        if over and not (self.may_be_released.is_set() and len(over) == len(released["leases"])):
            said = {"reason": over[0].get("reason"), "error": "lease not found, expired, or owned by another client"}
            raise NotReleased(said, [lease["lock_name"] for lease in over])


class AsyncMultiLease(LeaseHolding):
    """Several locks that are ours: all of them, or it counts as lost. The promises are those of `AsyncLease`."""

    def __init__(self, proofs: Proofs, tenure: Tenure, heartbeat: Heartbeat) -> None:
        self._proofs = proofs
        super().__init__(proofs.client, proofs, tenure, heartbeat)

    @classmethod
    def start(cls, proofs: Proofs, ttl: float, margin: float, sent_at: float, lasts: float) -> AsyncMultiLease:
        """Return leases that are renewed together."""
        clock = proofs.client.clock
        what = named([lease["lock_name"] for lease in proofs.acquired["leases"]])
        tenure = Tenure.granted(clock, margin, sent_at, lasts, what)

        async def renew(patience: float) -> float:
            return await proofs.renew(ttl, patience)

        return cls(proofs, tenure, Heartbeat(clock, tenure, ttl, sent_at + lasts, renew))

    def watch(self) -> None:
        """Be told of the end of each lease by the server."""
        for lease in self._proofs.acquired["leases"]:
            proof = {
                "owner_id": self.owner,
                "lease_id": lease["lease_id"],
                "fencing_token": lease["fencing_token"],
            }
            self._sentinels.append(Sentinel(self._client, lease["lock_name"], proof, self._tenure))

    @property
    def owner(self) -> str:
        """The owner of the leases."""
        return self._proofs.acquired["owner_id"]

    @property
    def names(self) -> Tuple[str, ...]:
        """The names of the locks, in the order in which they were asked for."""
        return tuple(lease["lock_name"] for lease in self._proofs.acquired["leases"])

    @property
    def fencing_tokens(self) -> Dict[str, int]:
        """The fencing token of each lock. Pass it to whatever that lock protects."""
        return {lease["lock_name"]: lease["fencing_token"] for lease in self._proofs.acquired["leases"]}

    def __repr__(self) -> str:
        state = "held" if self.held else f"lost: {self.lost.reason}"
        return f"<{type(self).__name__} {self.names!r} owner={self.owner!r} {state}>"


@dataclass
class AsyncLocksRequest(AsyncEntrance[AsyncMultiLease]):
    """Several locks to be asked for together: all of them are granted at one instant or none is."""

    _client: AsyncClient
    wanted: Tuple[Wanted, ...]
    options: Options

    async def acquire(self) -> AsyncMultiLease:
        """Return all the locks, if they are free or become free together within the wait."""
        if not self.wanted:
            raise Invalid("name at least one lock")
        options, client = self.options, self._client
        margin = options.margin_or_default()
        manner = Manner.QUEUE if options.wait > 0 else Manner.ONCE

        async def send(body: Any, patience: Optional[float]) -> wire.AcquiredAll:
            return await client.acquire_all(cast(wire.AcquireAllRequest, body), patience=patience)

        async def take(sent_at: float, acquired: wire.AcquiredAll) -> AsyncMultiLease:
            proofs, ttl = Proofs(client, acquired), options.ttl_or_default
            lasts = seconds(acquired["expires_after_send_ms"])
            sent_at, lasts = await renewed_after_wait(proofs, ttl, sent_at, lasts)
            return AsyncMultiLease.start(proofs, ttl, margin, sent_at, lasts)

        # That the wait of several was over early can have another reason.
        question = Question(client, options, manner, self._body(), early_is_ended=False)
        lease = await question.ask(send, take)
        if options.watched:
            lease.watch()
        if options.on_lost is not None:
            call_in_loop(lease._tenure, options.on_lost)
        return lease

    def _body(self) -> Dict[str, Any]:
        options = self.options
        locks = []
        for wanted in self.wanted:
            given = {name: value for name, value in wanted.kind.fields().items() if value is not None}
            locks.append({"lock_name": checked_name(wanted.name), **given})
        return {
            "owner_id": options.owner or self._client.owner,
            "ttl_ms": millis(options.ttl_or_default),
            "grace_ms": None if options.grace is None else millis(options.grace),
            "metadata": options.metadata,
            "locks": locks,
        }

    async def _enter(self) -> AsyncMultiLease:
        return await self.acquire()
