"""How long something is ours: the one place that compares a deadline with the clock.

Every question looks at the clock before anything else, and a loss once seen stays: no answer that comes later
brings back what somebody was already told is lost.
"""

from __future__ import annotations

import enum
import logging
import os
import threading
from typing import Callable, List, Optional

from .clock import NEVER, Clock

#: Two clocks may drift apart by this part.
DRIFT = 0.01

logger = logging.getLogger("leasehold")


class Lost(enum.Enum):
    """Why a lease is no longer ours."""

    #: It was not renewed in time. It ends within the margin, or has ended while we were paused.
    OUT_OF_TIME = "out_of_time"
    #: The server says that it is over: expired or revoked. Somebody else may have the lock already.
    ENDED = "ended"
    #: It was released, or its session was closed.
    RELEASED = "released"
    #: This process is a fork of the one that has the lease.
    FORKED = "forked"

    def __str__(self) -> str:
        return _WORDS[self]


_WORDS = {
    Lost.OUT_OF_TIME: "the lease could not be renewed in time",
    Lost.ENDED: "the server reports that the lease has ended",
    Lost.RELEASED: "the lease was released",
    Lost.FORKED: "the lease belongs to the process this one was forked from",
}

Listener = Callable[[Lost], None]


class Tenure:
    """What a holder knows of its time. Any thread may ask."""

    def __init__(
        self, clock: Clock, margin: float, end: float, within: Optional[Tenure] = None, what: str = "lease"
    ) -> None:
        self._clock = clock
        #: What it is, for people: `lock 'a'`.
        self.what = what
        #: What the server says of its end, if it does: `revoked: the host is gone`.
        self.detail: Optional[str] = None
        self._margin = margin
        self._end = end
        self._within = within
        self._lost: Optional[Lost] = None
        self._listeners: List[Listener] = []
        # Reentrant: a signal handler may ask in the middle of a question.
        self._lock = threading.RLock()
        self._pid = os.getpid()
        if within is not None:
            within.listen(self._follow)

    @classmethod
    def granted(cls, clock: Clock, margin: float, sent_at: float, lasts: float, what: str = "lease") -> Tenure:
        """Return what the answer to a request sent at `sent_at` gave."""
        return cls(clock, margin, _end(sent_at, lasts), what=what)

    @classmethod
    def inside(cls, other: Tenure, what: str = "lease") -> Tenure:
        """Return one as long as `other`, unless it is given back before."""
        return cls(other._clock, other._margin, NEVER, other, what)

    @property
    def is_inside(self) -> bool:
        """Whether it ends with another one."""
        return self._within is not None

    @property
    def end(self) -> float:
        """Until when nobody else can have it, if clocks drift no more than they may."""
        return self._end if self._within is None else min(self._end, self._within.end)

    @property
    def deadline(self) -> float:
        """When it counts as lost unless renewed."""
        return self.end - self._margin

    def loss(self) -> Optional[Lost]:
        """Return why it is lost, if it is. The first question after a pause is answered right."""
        if os.getpid() != self._pid:
            # Nothing else may be touched: another thread may have held our lock when the process was forked.
            return Lost.FORKED
        now = self._clock.now()
        if self._lost is None and now >= self.deadline:
            self.lose(Lost.OUT_OF_TIME)
        return self._lost

    def extend(self, sent_at: float, lasts: float) -> bool:
        """Take the answer to a renewal that was sent at `sent_at`. What is lost by then stays lost."""
        if self.loss() is not None:
            return False
        with self._lock:
            if self._lost is None:
                self._end = max(self._end, _end(sent_at, lasts))
        return self.loss() is None

    def lose(self, why: Lost, detail: Optional[str] = None) -> Lost:
        """Make it lost, unless it was before. Return why it is. `detail` is what the server says of it."""
        if os.getpid() != self._pid:
            return Lost.FORKED
        with self._lock:
            if self._lost is not None:
                return self._lost
            self._lost, self.detail = why, detail
            listeners, self._listeners = self._listeners, []
        if self._within is not None:
            self._within.unlisten(self._follow)
        for listener in listeners:
            try:
                listener(why)
            except Exception:
                logger.exception("what was to be told of a loss failed")
        return why

    def listen(self, listener: Listener) -> None:
        """Have `listener` called once with the loss, at once if it is lost already, on whatever thread notices."""
        with self._lock:
            if self._lost is None:
                self._listeners.append(listener)
                return
        listener(self._lost)

    def unlisten(self, listener: Listener) -> None:
        """Forget a listener."""
        with self._lock:
            if listener in self._listeners:
                self._listeners.remove(listener)

    def _follow(self, why: Lost) -> None:
        assert self._within is not None
        self.lose(why, f"with its {self._within.what}" if why is not Lost.RELEASED else None)


def _end(sent_at: float, lasts: float) -> float:
    """Return the end by our clock: never later than by the server's, which counts from when it received the request."""
    return sent_at + lasts * (1 - DRIFT)
