"""A loop in a thread of its own, for what stands between a client and a server."""

from __future__ import annotations

import asyncio
import ssl
import threading
from typing import Optional


class Between:
    """Listens on a free port and serves each connection by `serve`."""

    def __init__(self, context: Optional[ssl.SSLContext] = None) -> None:
        self._context = context
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self.port = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(180)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(180)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        start = asyncio.start_server(self.serve, "127.0.0.1", 0, ssl=self._context)
        server = self._loop.run_until_complete(start)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        self._loop.run_until_complete(_end())
        self._loop.close()


async def _end() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    # Sockets are closed by the loop's next round.
    await asyncio.sleep(0)
