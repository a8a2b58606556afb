"""Which leases outlast a leader change of a cluster, as its servers say."""

from __future__ import annotations

import logging
from typing import Mapping, Optional

#: Leases with a shorter ttl than this, in milliseconds, might end when the leader changes.
FAILOVER_MS = "Leasehold-Failover-Ms"

logger = logging.getLogger("leasehold")


class Failover:
    """What the servers said last, and whether it was warned of a ttl that is too short."""

    def __init__(self) -> None:
        self._time: Optional[float] = None
        self._is_warned = False

    def learn(self, headers: Mapping[str, str]) -> None:
        """Take note of what an answer says. A single server says nothing."""
        said = headers.get(FAILOVER_MS, "")
        if said.isascii() and said.isdigit():
            self._time = int(said) / 1000

    def warn(self, ttl: float) -> None:
        """Log a warning if the ttl is too short, but only once."""
        if self._time is None or ttl >= self._time or self._is_warned:
            return
        self._is_warned = True
        logger.warning(
            "ttl=%g s is shorter than a fail-over of this cluster: a leader change might end the lease; "
            "use at least %g s",
            ttl,
            self._time,
        )
