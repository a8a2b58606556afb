"""A thread with a loop of its own, in which everything that goes on in the background does."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import os
import threading
import weakref
from typing import Any, Callable, Coroutine, Dict, Optional, Set, TypeVar

from ..errors import Cancelled
from ..loss import tell

T = TypeVar("T")
Begun = Callable[["concurrent.futures.Future[Any]"], None]

#: How long whoever is interrupted waits for what it began to be undone: a place in a queue to be left.
UNDO_MAX = 2.5


class Portal:
    """The way into that loop. The thread is a daemon, and ends when nobody has the portal any more."""

    def __init__(self, close: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start the thread; `close` is what it does last."""
        self._pid = os.getpid()
        self._calls: Dict[concurrent.futures.Future[Any], threading.Event] = {}
        self._loop = asyncio.new_event_loop()
        # It must not know the portal, or the portal would never be dropped.
        self._thread = threading.Thread(target=_serve, args=(self._loop, close), name="leasehold", daemon=True)
        _threads.add(self._thread)
        _portals.add(self)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, T], begun: Optional[Begun] = None) -> T:
        """Block until the work is done in the loop. Whoever is interrupted, by Ctrl-C say, cancels it.

        `begun` is told of what can be cancelled by another thread: `Cancelled`.
        """
        if self.is_closed:
            work.close()
            raise Cancelled("the client is closed")
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("a blocking call in the thread that renews would never end")
        ended = threading.Event()

        async def run() -> T:
            try:
                return await work
            finally:
                ended.set()

        future = asyncio.run_coroutine_threadsafe(run(), self._loop)
        self._calls[future] = ended
        if begun is not None:
            begun(future)
        try:
            return future.result()
        except BaseException as error:
            if future.cancel():
                ended.wait(UNDO_MAX)
            if isinstance(error, concurrent.futures.CancelledError):
                raise Cancelled("cancelled by another thread") from None
            raise
        finally:
            self._calls.pop(future, None)

    @property
    def is_closed(self) -> bool:
        """Whether the thread has ended. Nothing is held then."""
        return self._loop.is_closed()

    def stop(self) -> None:
        """End the thread, and return when it has ended. Whoever waits for something is cancelled first."""
        calls = dict(self._calls)
        for future in calls:
            future.cancel()
        for ended in calls.values():
            ended.wait(UNDO_MAX)
        self._leave()
        self._thread.join(UNDO_MAX)

    def __del__(self) -> None:
        self._leave()

    def _leave(self) -> None:
        # In a forked child the loop's files are its parent's.
        if os.getpid() == self._pid:
            tell(self._loop, self._loop.stop)


_portals: weakref.WeakSet[Portal] = weakref.WeakSet()
_threads: Set[threading.Thread] = set()


def _serve(loop: asyncio.AbstractEventLoop, close: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        loop.run_until_complete(close())
        loop.run_until_complete(_cancel_others())
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()
        _threads.discard(threading.current_thread())


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=UNDO_MAX)


def _at_exit() -> None:
    for portal in list(_portals):
        portal._leave()
    for thread in list(_threads):
        thread.join(UNDO_MAX)


def _after_fork_in_child() -> None:
    # A child has none of its parent's threads.
    _threads.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
atexit.register(_at_exit)
