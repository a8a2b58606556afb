"""What can go wrong, and the two things to know about it: may it be tried again, and could it have happened?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping, Optional, Sequence, Tuple

if TYPE_CHECKING:
    from .tenure import Lost


def named(locks: Sequence[str]) -> str:
    """Return the locks as they are called in a sentence: `lock 'a'`, or `locks 'a', 'b'`."""
    return ("lock " if len(locks) == 1 else "locks ") + ", ".join(repr(lock) for lock in locks)


class LeaseholdError(Exception):
    """The base of every error of this package."""

    #: The same question may be answered otherwise later.
    retryable = False
    #: What was asked for may have happened all the same. Ask again with the same request id to find out.
    may_have_taken_effect = False


class NotAcquired(LeaseholdError):
    """The lock is not to be had now: `reason` is the server's, `HELD` or `GRACE` for example."""

    retryable = True

    def __init__(self, answer: Mapping[str, Any]) -> None:
        self.lock: str = answer["lock_name"]
        self.reason: str = answer["reason"]
        self.holder: Optional[str] = answer.get("current_owner_id")
        self.holder_metadata: Any = answer.get("current_metadata")
        #: When the server wants to be asked again, in seconds.
        self.retry_after: float = answer["recommended_retry_ms"] / 1000
        held = f", held by {self.holder}" if self.holder else ""
        super().__init__(f"lock {self.lock!r}: {answer['error']}{held} ({self.reason})")


class WaitTimeout(NotAcquired):
    """The lock did not become free within the wait."""


class NotRenewed(LeaseholdError):
    """There is nothing to renew: the lease is over.

    Of several leases `lock` and `lease_id` name the first that is over; none of them was renewed then.
    """

    def __init__(self, answer: Mapping[str, Any]) -> None:
        self.reason: str = answer["reason"]
        self.lock: Optional[str] = answer.get("lock_name")
        self._lease_id: Optional[str] = answer.get("lease_id")
        super().__init__(f"lock {self.lock!r}: {answer['error']}" if self.lock else answer["error"])

    @property
    def lease_id(self) -> Optional[str]:
        """The id of that lease: a secret."""
        return self._lease_id


class NotReleased(LeaseholdError):
    """There was nothing to release: the lease was over before, and somebody else may have had the lock.

    Of several leases `locks` names those that were over; the others were released.
    """

    def __init__(self, answer: Mapping[str, Any], locks: Sequence[str] = ()) -> None:
        self.reason: str = answer["reason"]
        self.locks: Tuple[str, ...] = tuple(locks)
        super().__init__(f"{named(self.locks)}: {answer['error']}" if locks else answer["error"])


class LeaseLost(LeaseholdError):
    """The lease was lost while it was needed: `reason` says how.

    `what` is what was lost, `lock 'a'` for example, and `detail` is what the server says of it, if it does.
    """

    def __init__(self, reason: Lost, what: Optional[str] = None, detail: Optional[str] = None) -> None:
        self.reason = reason
        self.what = what
        self.detail = detail
        super().__init__((f"{what}: " if what else "") + str(reason) + (f" ({detail})" if detail else ""))


class Failed(LeaseholdError):
    """The server refused, or failed and said so: `code` is for programs, `status` is HTTP's."""

    def __init__(self, status: int, answer: Mapping[str, Any]) -> None:
        self.status = status
        self.code: str = answer["code"]
        self.retryable = answer.get("retryable") is True
        self.may_have_taken_effect = answer.get("may_have_taken_effect") is True
        super().__init__(f"{answer['error']} ({status} {self.code})")


class SessionOver(LeaseholdError):
    """There is no such session, or none any more."""


class Unreachable(LeaseholdError):
    """No connection came about, so nothing was done.

    A certificate that cannot be verified, or TLS where http was expected, is not `retryable`: settings are wrong.
    """

    def __init__(self, message: str, *, retryable: bool = True) -> None:
        self.retryable = retryable
        super().__init__(message)


class Broken(LeaseholdError):
    """The request was sent, but no whole answer came in time."""

    retryable = True
    may_have_taken_effect = True


class Silent(Broken):
    """The request was sent, and nothing at all came back in time."""


class Foreign(LeaseholdError):
    """An answer, but none of a Leasehold server: perhaps there is a proxy in between."""

    def __init__(self, status: int, body: bytes) -> None:
        self.status = status
        #: What was said; nothing of a success, which may be a secret.
        self.body = body if status >= 300 else b""
        self.retryable = status != 501 and (status >= 500 or status == 429)
        self.may_have_taken_effect = status >= 500 or status < 400
        shown = "" if status < 300 else ": " + body[:200].decode(errors="replace")
        super().__init__(f"not a response of a Leasehold server ({status}){shown}")


class Invalid(LeaseholdError, ValueError):
    """It makes no sense, and was not sent."""


class Cancelled(LeaseholdError):
    """A blocking call was ended by another thread. Whoever waited has left the queue."""


class StaleToken(LeaseholdError):
    """A newer token was seen: whoever sent this one has lost its lock."""

    def __init__(self, token: int, newest: int) -> None:
        self.token = token
        self.newest = newest
        super().__init__(f"fencing token {token} is stale: {newest} was seen already")
