"""A client of the lock server Leasehold: leases that renew themselves, and say when they are lost.

    with leasehold.Client().lock("nightly", ttl=30, wait=60) as lease:
        write(report, lease.fencing_token)

`Client` blocks and renews on a thread; `AsyncClient` is the same for asyncio. Deadlines count from the time a request
was *sent*, less 1 % because clocks drift, less a margin to act in, on a clock that goes on while the machine is
suspended. What is not promised is that you stop in time: send the fencing token along.
"""

from . import wire
from .blocking.client import Client
from .blocking.events import Election, Events, Observer
from .blocking.holding import Lease, MultiLease
from .blocking.request import LockRequest, LocksRequest
from .blocking.session import Session, SessionRequest
from .client import AsyncClient
from .election import AsyncElection, AsyncObserver, Leader
from .errors import (
    Broken,
    Cancelled,
    Failed,
    Foreign,
    Invalid,
    LeaseholdError,
    LeaseLost,
    NotAcquired,
    NotReleased,
    NotRenewed,
    SessionOver,
    StaleToken,
    Unreachable,
    WaitTimeout,
)
from .events import AsyncEvents, Current, Event, Gap, Stale, Watched
from .gate import FencingGate
from .group import AsyncLocksRequest, AsyncMultiLease, Wanted, counted, shared
from .lease import AsyncLease
from .request import AsyncLockRequest
from .retry import Retry
from .session import AsyncSession, AsyncSessionRequest
from .tenure import Lost
from .version import __version__

__all__ = [
    "AsyncClient",
    "AsyncElection",
    "AsyncEvents",
    "AsyncLease",
    "AsyncLockRequest",
    "AsyncLocksRequest",
    "AsyncMultiLease",
    "AsyncObserver",
    "AsyncSession",
    "AsyncSessionRequest",
    "Broken",
    "Cancelled",
    "Client",
    "Current",
    "Election",
    "Event",
    "Events",
    "Failed",
    "FencingGate",
    "Foreign",
    "Gap",
    "Invalid",
    "Leader",
    "Lease",
    "LeaseLost",
    "LeaseholdError",
    "LockRequest",
    "LocksRequest",
    "Lost",
    "MultiLease",
    "NotAcquired",
    "NotReleased",
    "NotRenewed",
    "Observer",
    "Retry",
    "Session",
    "SessionOver",
    "SessionRequest",
    "Stale",
    "StaleToken",
    "Unreachable",
    "WaitTimeout",
    "Wanted",
    "Watched",
    "__version__",
    "counted",
    "shared",
    "wire",
]
