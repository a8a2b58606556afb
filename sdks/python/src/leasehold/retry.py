"""When to ask again."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Awaitable, Callable, Optional, TypeVar

from .clock import Clock
from .errors import Failed, LeaseholdError, NotAcquired
from .secret import jittered

T = TypeVar("T")

#: A wait that ends so many seconds, and by such a part of it, before its time was ended by somebody: cancelled, or
#: revoked. Clocks differ, and the server counts from when it received what we sent.
EARLY_MIN = 0.1
EARLY_PART = 0.1


@dataclass(frozen=True)
class Retry:
    """How often and how long something is tried, in seconds. Everything is bounded."""

    #: Most tries. While waiting in a queue only those count that failed one after the other; 503 `BUSY` and `UNKNOWN`,
    #: with which a server answers that cannot reach its store, do not: only the end of the wait ends that.
    attempts_max: int = 8
    #: No try begins later than this after the first one; where a wait is given, that counts instead.
    total_max: float = 20.0
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
        self._wait = 0.0
        self._n_attempts = 0
        #: Tries in a row that failed, for the length of the pause, and those of them that count in a queue.
        self._n_pauses = 0
        self._n_failures = 0

    def begin(self, now: float, wait: float = 0.0) -> None:
        """Note when the next try begins. A wait of this length that ends early is the answer; with zero none is."""
        self._begun_at, self._wait = now, wait

    def _was_ended(self, now: float) -> bool:
        """Return whether a wait that is over now was ended by somebody. Asking again would undo that."""
        left = self._wait - (now - self._begun_at)
        return left > EARLY_MIN and left > self._wait * EARLY_PART

    def after(self, error: LeaseholdError, now: float) -> Optional[float]:
        """Return the pause before the next try; `None` if this error is the answer."""
        self._n_attempts += 1
        if isinstance(error, NotAcquired):
            self._n_pauses = self._n_failures = 0
            pause = self._pause_of_refusal(error, now)
            if pause is None:
                return None
        elif isinstance(error, Failed) and error.code == "MAINTENANCE" and self._manner is Manner.ONCE:
            # It lasts as long as its operator wants: whoever does not wait has its answer.
            return None
        elif error.retryable:
            self._n_pauses += 1
            self._n_failures = 0 if _is_to_be_repeated(error) else self._n_failures + 1
            pause = self._retry.pause(self._n_pauses)
        else:
            return None
        n_counted = self._n_failures if self._manner is Manner.QUEUE else self._n_attempts
        is_over = n_counted >= self._retry.attempts_max or now + pause >= self._give_up_at
        return None if is_over else pause

    def _pause_of_refusal(self, error: NotAcquired, now: float) -> Optional[float]:
        if error.reason == "WAIT_TIMEOUT" and self._was_ended(now):
            return None
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


def _is_to_be_repeated(error: LeaseholdError) -> bool:
    """Return whether a server says so that has no news from its store: the wait goes on when the store is back."""
    return isinstance(error, Failed) and error.status == 503 and error.code in ("UNKNOWN", "BUSY")


class Doubt:
    """Whether one of the tries so far, all with the same request id, may have taken effect."""

    def __init__(self) -> None:
        self.is_left = False

    def over(self, error: LeaseholdError) -> None:
        """Let the error of the latest try say whether any of them may have taken effect, unless it answers them all."""
        if self.is_left and error.retryable and not isinstance(error, NotAcquired):
            error.may_have_taken_effect = True
        self.is_left = error.may_have_taken_effect


async def persist(
    clock: Clock, ask: Callable[[], Awaitable[T]], retry: Optional[Retry] = None, *, twice: bool = True
) -> T:
    """Ask the same again as long as that may help, within `retry`.

    Without `twice`, only if it is certain that nothing was done: doing it again would do more.
    """
    retry = retry or Retry()
    attempts = Attempts(retry, Manner.ONCE, clock.now() + retry.total_max)
    doubt = Doubt()
    while True:
        try:
            return await ask()
        except LeaseholdError as error:
            doubt.over(error)
            pause = attempts.after(error, clock.now())
            if pause is None or (doubt.is_left and not twice):
                raise
        await clock.sleep_until(clock.now() + pause)
