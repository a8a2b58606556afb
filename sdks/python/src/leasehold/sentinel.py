"""Hearing of the end of a lease when it ends, not when it is renewed."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Any, Mapping

from .errors import Failed, LeaseholdError, named
from .loss import tell
from .sse import Parser
from .tenure import Lost, Tenure

if TYPE_CHECKING:
    from .client import AsyncClient

#: The server says something at least every 15 s, if only a comment.
SILENCE_MAX = 45.0
#: The pause after the server could not be watched.
PAUSE = 1.0

logger = logging.getLogger("leasehold")


class Sentinel:
    """A task that watches one lease, with a connection of its own. If it cannot, renewals still tell."""

    def __init__(self, client: AsyncClient, lock: str, proof: Mapping[str, Any], tenure: Tenure) -> None:
        self._task = asyncio.ensure_future(_watch(client, lock, proof, tenure))
        loop = asyncio.get_running_loop()
        tenure.listen(lambda _: tell(loop, self._task.cancel))

    async def stop(self) -> None:
        """End it, and return when it has ended."""
        if self._task.get_loop().is_closed():
            return
        self._task.cancel()
        await asyncio.wait({self._task})


async def _watch(client: AsyncClient, lock: str, proof: Mapping[str, Any], tenure: Tenure) -> None:
    while tenure.loss() is None:
        try:
            detail = await _until_end(client, lock, proof)
        except LeaseholdError as error:
            if not (isinstance(error, Failed) and error.code == "LEASE_NOT_HELD"):
                logger.debug("lock %r: it cannot be watched now: %s", lock, error)
                await asyncio.sleep(PAUSE)
                continue
            detail = str(error)
        logger.warning("lock %r: the server says that it is over: %s", lock, detail)
        # One of several is named.
        tenure.lose(Lost.ENDED, detail if tenure.what == named([lock]) else f"{named([lock])}: {detail}")


async def _until_end(client: AsyncClient, lock: str, proof: Mapping[str, Any]) -> str:
    """Return how it ended, and an operator's reason: `revoked: the host is gone`."""
    stream = await client._transport().stream("POST", client._lock_path(lock, "/watch"), proof)
    parser = Parser()
    try:
        while True:
            for message in parser.push(await stream.chunk(SILENCE_MAX)):
                if message.event == "watching":
                    logger.debug("lock %r: it is watched", lock)
                if message.event == "ended":
                    return _how(message.data)
    finally:
        await stream.close()


def _how(data: str) -> str:
    try:
        said = json.loads(data)
    except (ValueError, RecursionError):
        said = None
    said = said if isinstance(said, dict) else {}
    return ": ".join(str(said[name]) for name in ("how", "reason") if said.get(name)) or "ended"
