"""A thread with a loop of its own, in which everything that goes on in the background does."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Coroutine, TypeVar

T = TypeVar("T")

#: How long whoever is interrupted waits for what it began to be undone: a place in a queue to be left.
UNDO_MAX = 2.5


class Portal:
    """The way into that loop. The thread is a daemon: it does not keep the process alive."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="leasehold", daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Block until the work is done in the loop. Whoever is interrupted, by Ctrl-C say, cancels it."""
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
        try:
            return future.result()
        except BaseException:
            if future.cancel():
                ended.wait(UNDO_MAX)
            raise

    def stop(self) -> None:
        """End the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(UNDO_MAX)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()
