"""Being told of a loss: an event to ask and to wait for, and a callback."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from typing import Any, Callable, Optional, Set

from .errors import LeaseLost
from .tenure import Lost, Tenure

logger = logging.getLogger("leasehold")

#: Called with the reason when a lease is lost, but not when it is released.
OnLost = Callable[[Lost], Any]


class Loss:
    """The loss of a lease or a session, as an event of threads. It is set before the lease can end."""

    def __init__(self, tenure: Tenure) -> None:
        self._tenure = tenure
        self._event = threading.Event()
        tenure.listen(lambda _: self._event.set())

    @property
    def reason(self) -> Optional[Lost]:
        """Why it is lost; `None` as long as it is not. Looks at the clock first."""
        return self._tenure.loss()

    @property
    def detail(self) -> Optional[str]:
        """What the server says of the loss, if it does: an operator's reason for a revocation, if it is watched."""
        return self._tenure.detail

    def is_set(self) -> bool:
        """Whether it is lost, or released. Looks at the clock first."""
        return self._tenure.loss() is not None

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Block until it is lost or released, or for so many seconds. Whether it is."""
        return self.is_set() or self._event.wait(timeout) or self.is_set()


class AsyncLoss:
    """The same for a task: `await lease.lost.wait()`."""

    def __init__(self, tenure: Tenure) -> None:
        self._tenure = tenure
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        tenure.listen(lambda _: tell(self._loop, self._event.set))

    @property
    def reason(self) -> Optional[Lost]:
        """Why it is lost; `None` as long as it is not. Looks at the clock first."""
        return self._tenure.loss()

    @property
    def detail(self) -> Optional[str]:
        """What the server says of the loss, if it does: an operator's reason for a revocation, if it is watched."""
        return self._tenure.detail

    def is_set(self) -> bool:
        """Whether it is lost, or released. Looks at the clock first."""
        return self._tenure.loss() is not None

    async def wait(self) -> Lost:
        """Return when it is lost or released, with the reason."""
        while (lost := self._tenure.loss()) is None:
            await self._event.wait()
        return lost


def check(tenure: Tenure) -> None:
    """Raise `LeaseLost` unless it is ours."""
    lost = tenure.loss()
    if lost is not None:
        raise LeaseLost(lost, tenure.what, tenure.detail)


def call_in_thread(tenure: Tenure, on_lost: OnLost) -> None:
    """Have `on_lost` called on a thread of its own, so that whatever it does stops no renewals."""

    def run(why: Lost) -> None:
        try:
            on_lost(why)
        except Exception:
            logger.exception("the on_lost callback failed")

    def listener(why: Lost) -> None:
        if why is not Lost.RELEASED:
            threading.Thread(target=run, args=(why,), name="leasehold-lost", daemon=True).start()

    tenure.listen(listener)


_callbacks: Set[asyncio.Task[Any]] = set()


def call_in_loop(tenure: Tenure, on_lost: OnLost) -> None:
    """Have `on_lost`, a function or a coroutine function, called in the running loop."""
    loop = asyncio.get_running_loop()

    async def run(why: Lost) -> None:
        try:
            result = on_lost(why)
            if inspect.isawaitable(result):
                await result
        except Exception:
            logger.exception("the on_lost callback failed")

    def start(why: Lost) -> None:
        task = loop.create_task(run(why))
        _callbacks.add(task)
        task.add_done_callback(_callbacks.discard)

    def listener(why: Lost) -> None:
        if why is not Lost.RELEASED:
            tell(loop, lambda: start(why))

    tenure.listen(listener)


def tell(loop: asyncio.AbstractEventLoop, what: Callable[[], Any]) -> None:
    """Have `what` called in a loop, from any thread."""
    try:
        loop.call_soon_threadsafe(what)
    except RuntimeError:
        # The loop is closed: nobody waits in it any more.
        return
