"""The clock leases are counted by: one that goes on while the machine is suspended, where there is one.

Timers are asyncio's, which stand still during suspend. So they look at this clock at least every second.
"""

from __future__ import annotations

import asyncio
import math
import sys
import time
from typing import Protocol

#: How late an alarm can be after a suspend.
TICK = 1.0

#: A moment that never comes.
NEVER = math.inf


class Clock(Protocol):
    """Tells the time and waits for it. Moments are seconds since some start."""

    def now(self) -> float:
        """Return the time now."""

    async def sleep_until(self, at: float) -> None:
        """Return at `at` or soon after, never before."""


class BootClock:
    """The machine's clock: CLOCK_BOOTTIME on Linux, which `/proc/uptime` counts too."""

    def now(self) -> float:
        """Return the seconds since the machine was started."""
        return _read()

    async def sleep_until(self, at: float) -> None:
        """Return at `at` or soon after, never before."""
        while (left := at - self.now()) > 0:
            await asyncio.sleep(min(left, TICK))


if sys.platform == "linux":

    def _read() -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)
elif sys.platform == "darwin":

    def _read() -> float:
        # time.monotonic() stands still while a Mac sleeps, this does not.
        return time.clock_gettime(time.CLOCK_MONOTONIC)
else:

    def _read() -> float:
        return time.monotonic()
