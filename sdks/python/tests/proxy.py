"""A proxy between a client and a server that can be told to fail."""

from __future__ import annotations

import asyncio
import re
import threading
from typing import List, Optional, Set

from .loop import Between


class Proxy(Between):
    """Passes bytes on. `swallow` loses all of them, `cut` breaks every connection, `cut_answers` the next answers."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._swallows = threading.Event()
        self._n_cut = 0
        self._writers: Set[asyncio.StreamWriter] = set()
        self._hushed: Set[asyncio.StreamWriter] = set()
        #: What clients sent, one for each connection.
        self._sent: List[bytearray] = []
        super().__init__()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def swallow(self) -> None:
        """From now on nothing gets through, in either direction."""
        self._swallows.set()

    def hush(self) -> None:
        """Nothing gets through the connections there are any more. New ones work."""
        self._hushed |= self._writers

    @property
    def n_open(self) -> int:
        """How many clients are connected."""
        return len(self._writers) // 2

    def heal(self) -> None:
        """New connections work again; the old ones are gone, and what was swallowed is lost."""
        self._swallows.clear()
        self.cut()

    def cut(self) -> None:
        """Break every connection there is."""
        done = threading.Event()

        def cut() -> None:
            for writer in list(self._writers):
                writer.transport.abort()
            done.set()

        self._loop.call_soon_threadsafe(cut)
        assert done.wait(180)

    def cut_answers(self, n: int) -> None:
        """Break the connection instead of passing on the next n answers. The server has served the request then."""
        self._n_cut = n

    def said(self, path: str) -> List[bytes]:
        """Return the bodies of the requests to paths that end so that arrived whole, also if they were swallowed."""
        bodies = []
        for sent in self._sent:
            rest = bytes(sent)
            while b"\r\n\r\n" in rest:
                head, rest = rest.split(b"\r\n\r\n", 1)
                length = re.search(rb"(?i)content-length: *(\d+)", head)
                n_bytes = int(length.group(1)) if length else 0
                if len(rest) < n_bytes:
                    break
                if head.split(b" ", 2)[1].endswith(path.encode()):
                    bodies.append(rest[:n_bytes])
                rest = rest[n_bytes:]
        return bodies

    def stop(self) -> None:
        self.cut()
        super().stop()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            upstream_reader, upstream = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, upstream}
        sent = bytearray()
        self._sent.append(sent)
        passes = [
            asyncio.ensure_future(self._pass(reader, upstream, sent)),
            asyncio.ensure_future(self._pass(upstream_reader, writer, None)),
        ]
        try:
            await asyncio.wait(passes, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for end in (writer, upstream):
                self._writers.discard(end)
                end.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, log: Optional[bytearray]) -> None:
        try:
            while piece := await reader.read(65536):
                if log is not None:
                    log.extend(piece)
                elif self._n_cut > 0 and piece.startswith(b"HTTP/"):
                    self._n_cut -= 1
                    return
                if not self._swallows.is_set() and writer not in self._hushed:
                    writer.write(piece)
                    await writer.drain()
        except OSError:
            return
