"""Something that is ours, for threads: see `leasehold.holding`."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Dict, Generic, NoReturn, Optional, Tuple, Type, TypeVar

from ..errors import LeaseLost
from ..group import AsyncMultiLease
from ..holding import Holding as AsyncHolding
from ..lease import AsyncLease
from ..loss import Loss, OnLost, call_in_thread
from ..tenure import Lost
from .portal import Portal

A = TypeVar("A", bound=AsyncHolding)
H = TypeVar("H", bound="Holding")  # type: ignore[type-arg]


class Holding(Generic[A]):
    """What is ours until it is released or lost. Any thread may use it; a forked child may not."""

    def __init__(self, portal: Portal, inner: A, on_lost: Optional[OnLost]) -> None:
        self._portal = portal
        self._inner = inner
        self._pid = os.getpid()
        #: Set before it can end, and when it is released.
        self.lost = Loss(inner._tenure)
        if on_lost is not None:
            call_in_thread(inner._tenure, on_lost)

    @property
    def owner(self) -> str:
        """The owner."""
        owner: str = self._inner.owner  # type: ignore[attr-defined]
        return owner

    @property
    def deadline(self) -> float:
        """When it counts as lost unless it is renewed before, on the client's clock."""
        return self._inner.deadline

    @property
    def end(self) -> float:
        """The deadline without the margin: after this somebody else may have it."""
        return self._inner.end

    @property
    def held(self) -> bool:
        """Whether it is ours. Looks at the clock first."""
        return self._inner.held

    def check(self) -> None:
        """Raise `LeaseLost` unless it is ours. Looks at the clock first."""
        self._inner.check()

    def release(self) -> None:
        """Give it back: nothing is renewed from here on, and whoever asks is told it is not ours.

        Whoever calls it again waits for the same end; if that failed and may be temporary, it is tried again, as the
        same request. `NotReleased` means that it had ended before: somebody else
        may have had the lock meanwhile.
        """
        self._refuse_fork()
        # Whoever closed the client has released it.
        if not self._portal.is_closed:
            self._portal.call(self._inner.release())

    def __enter__(self: H) -> H:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        # A child that leaves the `with` of its parent leaves the lease alone.
        if os.getpid() == self._pid and not self._portal.is_closed:
            self._portal.call(self._inner.__aexit__(kind, error, trace))

    def __repr__(self) -> str:
        return repr(self._inner).replace("<Async", "<", 1)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a lease cannot be sent to another process: it is renewed by the one that has it")

    def _refuse_fork(self) -> None:
        if os.getpid() != self._pid:
            raise LeaseLost(Lost.FORKED, self._inner._tenure.what)


class Lease(Holding[AsyncLease]):
    """A lock that is ours until it is released, dropped or lost, and is renewed by a thread as long.

    Its promises are those of `AsyncLease`. A thread that holds the interpreter for longer than the ttl without a pause,
    in an extension that does not release the GIL for example, stops renewals; then it is lost, and `check` says so.
    """

    @property
    def name(self) -> str:
        """The lock's name."""
        return self._inner.name

    @property
    def lease_id(self) -> str:
        """The proof that the lease is ours: a secret."""
        return self._inner.lease_id

    @property
    def fencing_token(self) -> int:
        """The fencing token. Pass it to whatever the lock protects."""
        return self._inner.fencing_token

    def leave_for(self, seconds: float) -> None:
        """Leave it held for so long from now, or a little longer, with nobody to renew it or give it back."""
        self._refuse_fork()
        self._portal.call(self._inner.leave_for(seconds))


class MultiLease(Holding[AsyncMultiLease]):
    """Several locks that are ours: all of them, or it counts as lost."""

    @property
    def names(self) -> Tuple[str, ...]:
        """The names of the locks, in the order in which they were asked for."""
        return self._inner.names

    @property
    def fencing_tokens(self) -> Dict[str, int]:
        """The fencing token of each lock. Pass it to whatever that lock protects."""
        return self._inner.fencing_tokens

    def leave_for(self, seconds: float) -> None:
        """Leave all of them held for so long from now, with nobody to renew them or give them back."""
        self._refuse_fork()
        self._portal.call(self._inner.leave_for(seconds))
