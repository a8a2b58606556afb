"""A lock that is ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Optional

from . import wire
from .clock import NEVER
from .errors import named
from .heartbeat import Heartbeat
from .holding import LeaseHolding
from .retry import persist
from .secret import request_id
from .sentinel import Sentinel
from .tenure import Tenure

if TYPE_CHECKING:
    from .client import AsyncClient


def seconds(expires_after_send_ms: Optional[int]) -> float:
    """Return how long that is, in seconds: `None` is for ever."""
    return NEVER if expires_after_send_ms is None else expires_after_send_ms / 1000


def millis(time: float) -> int:
    """Return whole milliseconds, rounded up so that what is more than nothing stays so."""
    # Rounded before, because 0.3 s are not exactly 300 ms.
    return -int(-round(time * 1000, 6) // 1)


@dataclass(frozen=True)
class Proof:
    """What shows the server that a lease is ours. Its release has one id, however often it is sent."""

    client: AsyncClient
    acquired: wire.Acquired
    release_id: str

    async def renew(self, ttl: float, patience: Optional[float]) -> float:
        """Make it last `ttl` from now, and return how long it lasts from when this was called."""
        request: wire.RenewRequest = {
            "owner_id": self.acquired["owner_id"],
            "lease_id": self.acquired["lease_id"],
            "fencing_token": self.acquired["fencing_token"],
            # Without a request id: renewing twice is renewing once.
            "extend_by_ms": millis(ttl),
        }
        renewed = await self.client.renew(self.acquired["lock_name"], request, patience=patience)
        return seconds(renewed["expires_after_send_ms"])

    async def give_back(self) -> None:
        """Release it. What fails and may be temporary is tried again with the same request id."""
        request: wire.ReleaseRequest = {
            "owner_id": self.acquired["owner_id"],
            "lease_id": self.acquired["lease_id"],
            "fencing_token": self.acquired["fencing_token"],
            "request_id": self.release_id,
        }

        async def release() -> wire.Released:
            return await self.client.release(self.acquired["lock_name"], request)

        await persist(self.client.clock, release)


class AsyncLease(LeaseHolding):
    """A lock that is ours until it is released, dropped or lost, and is renewed as long.

    What it promises:

    - `lost` is set, `on_lost` is called and `check` fails before the lease can have ended at the server, as long as
      this process is scheduled, nobody blocks its loop and clocks drift by less than 1 %. After a pause or a suspend
      the first question is answered right.
    - A loss is final. No renewal that is answered late brings the lock back.
    - The lock is given back once, however often the connection breaks, and nothing is renewed after that.

    What it does not promise: that you stop in time. Between a `check` and what you do next, the process can be
    paused for longer than the lease lasts. Send `fencing_token` along and let the other side refuse what is stale.
    """

    def __init__(self, proof: Proof, tenure: Tenure, heartbeat: Optional[Heartbeat]) -> None:
        self._proof = proof
        super().__init__(proof.client, proof, tenure, heartbeat)

    @classmethod
    def alone(cls, proof: Proof, ttl: float, margin: float, sent_at: float, lasts: float) -> AsyncLease:
        """Return a lease that is renewed by itself."""
        clock = proof.client.clock
        tenure = Tenure.granted(clock, margin, sent_at, lasts, named([proof.acquired["lock_name"]]))

        async def renew(patience: float) -> float:
            return await proof.renew(ttl, patience)

        return cls(proof, tenure, Heartbeat(clock, tenure, ttl, sent_at + lasts, renew))

    @classmethod
    def of_session(cls, proof: Proof, session: Tenure) -> AsyncLease:
        """Return a lease that lasts as long as its session."""
        return cls(proof, Tenure.inside(session, named([proof.acquired["lock_name"]])), None)

    def watch(self) -> None:
        """Be told of the lease's end by the server."""
        proof = {"owner_id": self.owner, "lease_id": self.lease_id, "fencing_token": self.fencing_token}
        self._sentinels.append(Sentinel(self._client, self.name, proof, self._tenure))

    @property
    def name(self) -> str:
        """The lock's name."""
        return self._proof.acquired["lock_name"]

    @property
    def owner(self) -> str:
        """The owner of the lease."""
        return self._proof.acquired["owner_id"]

    @property
    def lease_id(self) -> str:
        """The proof that the lease is ours: a secret."""
        return self._proof.acquired["lease_id"]

    @property
    def fencing_token(self) -> int:
        """The fencing token. Pass it to whatever the lock protects."""
        return self._proof.acquired["fencing_token"]

    def __repr__(self) -> str:
        state = "held" if self.held else f"lost: {self.lost.reason}"
        return f"<{type(self).__name__} {self.name!r} owner={self.owner!r} token={self.fencing_token} {state}>"


def proof_of(client: AsyncClient, acquired: wire.Acquired) -> Proof:
    """Return the proof of a lease that was just granted."""
    return Proof(client, acquired, request_id())
