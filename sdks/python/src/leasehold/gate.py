"""The other side of a fencing token: what is protected refuses what is stale."""

from __future__ import annotations

import threading
from typing import Callable, Dict, Optional, TypeVar

from .errors import Invalid, StaleToken

T = TypeVar("T")


class FencingGate:
    """Lets a write through only if no newer token was seen for the same resource.

    The comparison and the write have to be one step, or two writers can pass in one order and write in the other. Here
    the write is a function that runs while the resource is locked. This gate forgets with its process: what outlives
    it needs a gate that does too, in the same transaction as the data.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._resources: Dict[str, _Resource] = {}

    def write(self, resource: str, token: int, write: Callable[[], T]) -> T:
        """Run `write` if `token` is not older than the newest seen for `resource`, else raise `StaleToken`.

        What is no token, a whole number that is not less than 0, is `Invalid`: it compares with nothing, and everything
        would pass after it.
        """
        if not isinstance(token, int) or isinstance(token, bool) or token < 0:
            raise Invalid(f"a fencing token is a whole number that is not less than 0, not {token!r}")
        with self._lock:
            found = self._resources.setdefault(resource, _Resource())
        with found.writer:
            found.admit(token)
            return write()

    def newest(self, resource: str) -> Optional[int]:
        """Return the newest token seen."""
        with self._lock:
            found = self._resources.get(resource)
        return None if found is None else found.newest


class _Resource:
    def __init__(self) -> None:
        self.newest: Optional[int] = None
        self.writer = threading.Lock()

    def admit(self, token: int) -> None:
        if self.newest is not None and token < self.newest:
            raise StaleToken(token, self.newest)
        self.newest = token
