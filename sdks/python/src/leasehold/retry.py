"""When to ask again."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Awaitable, Callable, Optional, TypeVar

from .clock import Clock
from .errors import LeaseholdError, NotAcquired
from .secret import jittered

T = TypeVar("T")


@dataclass(frozen=True)
class Retry:
    """How often and how long something is tried, in seconds. Everything is bounded."""

    #: Most tries. While waiting in a queue only those count that failed one after the other.
    attempts_max: int = 8
    #: No try begins later than this after the first one; where a wait is given, that counts instead.
    total_max: float = 10.0
    #: The pause after the first failure; it doubles with each.
    pause_min: float = 0.05
    #: The longest pause after a failure.
    pause_max: float = 2.0

    def pause(self, n_failures: int) -> float:
        """Return the pause after so many failures in a row, at least one."""
        return jittered(min(self.pause_min * 2.0 ** min(n_failures - 1, 16), self.pause_max))


class Manner(enum.Enum):
    """What is done about a lock that somebody else has."""

    #: Nothing: that is the answer.
    ONCE = enum.auto()
    #: Wait in its queue.
    QUEUE = enum.auto()
    #: Come back when the server says so.
    RETURN = enum.auto()


class Attempts:
    """The tries so far."""

    def __init__(self, retry: Retry, manner: Manner, give_up_at: float) -> None:
        self._retry = retry
        self._manner = manner
        self._give_up_at = give_up_at
        self._begun_at = 0.0
        self._n_attempts = 0
        self._n_failures = 0

    def begin(self, now: float) -> None:
        """Note when the next try begins."""
        self._begun_at = now

    def after(self, error: LeaseholdError, now: float) -> Optional[float]:
        """Return the pause before the next try; `None` if this error is the answer."""
        self._n_attempts += 1
        if isinstance(error, NotAcquired):
            self._n_failures = 0
            pause = self._pause_of_refusal(error, now)
            if pause is None:
                return None
        elif error.retryable:
            self._n_failures += 1
            pause = self._retry.pause(self._n_failures)
        else:
            return None
        n_counted = self._n_failures if self._manner is Manner.QUEUE else self._n_attempts
        is_over = n_counted >= self._retry.attempts_max or now + pause >= self._give_up_at
        return None if is_over else pause

    def _pause_of_refusal(self, error: NotAcquired, now: float) -> Optional[float]:
        if error.reason in ("QUEUE_FULL", "WAIT_TIMEOUT"):
            returns = self._manner is not Manner.ONCE
        else:
            returns = error.reason == "BUSY_RETRY" or self._manner is Manner.RETURN
        if not returns:
            return None
        pause = error.retry_after + jittered(error.retry_after / 4)
        if error.reason == "WAIT_TIMEOUT":
            # Whoever kept its place until the wait was over goes straight to the back of the queue. But a server that
            # says at once that the wait is over is not asked more often than any failing one.
            return max(0.0, max(pause, self._retry.pause_min) - (now - self._begun_at))
        return pause


async def persist(clock: Clock, ask: Callable[[], Awaitable[T]], retry: Optional[Retry] = None) -> T:
    """Ask the same again as long as that may help, within `retry`."""
    retry = retry or Retry()
    attempts = Attempts(retry, Manner.ONCE, clock.now() + retry.total_max)
    while True:
        try:
            return await ask()
        except LeaseholdError as error:
            pause = attempts.after(error, clock.now())
            if pause is None:
                raise
        await clock.sleep_until(clock.now() + pause)
