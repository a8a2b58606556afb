"""Work that ends with its lease."""

from __future__ import annotations

import asyncio
from typing import Awaitable, TypeVar

from .errors import LeaseLost
from .holding import Holding

R = TypeVar("R")


async def unless_lost(holding: Holding, work: Awaitable[R]) -> R:
    """Return what `work` returns. If the lease is lost before, the work is cancelled where it waits: `LeaseLost`.

    What it does without waiting cannot be stopped: send the fencing token along.
    """
    task = asyncio.ensure_future(work)
    alarm = asyncio.ensure_future(holding.lost.wait())
    try:
        await asyncio.wait({task, alarm}, return_when=asyncio.FIRST_COMPLETED)
        if alarm.done():
            raise LeaseLost(alarm.result())
        return task.result()
    finally:
        alarm.cancel()
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
        if not task.cancelled():
            task.exception()
