"""A clock that stands still until somebody moves it."""

from __future__ import annotations

import asyncio
from typing import List, Tuple


class FakeClock:
    def __init__(self) -> None:
        self._now = 1000.0
        self._sleepers: List[Tuple[float, asyncio.Event]] = []

    def now(self) -> float:
        return self._now

    async def sleep_until(self, at: float) -> None:
        while self._now < at:
            event = asyncio.Event()
            self._sleepers.append((at, event))
            await event.wait()

    def advance(self, seconds: float) -> None:
        self._now += seconds
        due = [sleeper for sleeper in self._sleepers if sleeper[0] <= self._now]
        self._sleepers = [sleeper for sleeper in self._sleepers if sleeper[0] > self._now]
        for _, event in due:
            event.set()


async def settle() -> None:
    """Let every task go on until it waits for something."""
    for _ in range(20):
        await asyncio.sleep(0)
