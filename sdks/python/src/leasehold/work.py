"""Work that ends with its lease, and does not only begin after it."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any, Awaitable, Callable, TypeVar

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
            raise LeaseLost(alarm.result(), holding._tenure.what, holding._tenure.detail)
        return task.result()
    finally:
        alarm.cancel()
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
        if not task.cancelled():
            task.exception()


def refuse_postponed(function: Callable[..., Any]) -> None:
    """Raise `TypeError` for a function of asyncio, or a generator: calling it does nothing yet."""
    refuse_generator(function)
    if _is(inspect.iscoroutinefunction, function):
        raise TypeError(f"{function!r} is `async def`: its body would run without the lock; use AsyncClient")


def refuse_generator(function: Callable[..., Any]) -> None:
    """Raise `TypeError` for a generator function: its body would run when somebody iterates."""
    if _is(inspect.isgeneratorfunction, function) or _is(inspect.isasyncgenfunction, function):
        raise TypeError(f"{function!r} is a generator function: its body would run without the lock")


def _is(kind: Callable[[Any], bool], function: Callable[..., Any]) -> bool:
    """Whether it is, or an object that is called like one."""
    return kind(function) or kind(getattr(function, "__call__", None))  # noqa: B004, not whether there is one


def done(result: R) -> R:
    """Return what a function returned, unless that is work that has not begun: `TypeError`."""
    if inspect.iscoroutine(result):
        result.close()
        raise TypeError("the work is a coroutine, which would run without the lock; use AsyncClient")
    return result


def awaitable(work: Awaitable[R]) -> Awaitable[R]:
    """Return what a coroutine function returned. Any other function's result is a `TypeError`."""
    if not inspect.isawaitable(work):
        raise TypeError(
            f"the work returned {type(work).__name__}, which cannot be awaited; use `async def`, or the blocking Client"
        )
    return work
