"""Server-Sent Events: bytes to messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import List

from .errors import Broken

#: Far more than any line of an event, or than all its data.
LINE_BYTES_MAX = 1 << 20


@dataclass
class Message:
    """One event of a stream."""

    event: str = ""
    id: str = ""
    data: str = ""

    def take(self, line: str) -> None:
        """Take one line of it."""
        field, _, value = line.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if field == "event":
            self.event = value
        elif field == "id":
            self.id = value
        elif field == "data":
            self.data += value


class Parser:
    """Takes the stream in whatever pieces it comes."""

    def __init__(self) -> None:
        self._rest = b""
        self._message = Message()

    def push(self, piece: bytes) -> List[Message]:
        """Return the messages that are complete with this piece."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        if len(self._rest) > LINE_BYTES_MAX:
            raise Broken("an event is too long")
        messages = []
        for line in lines:
            text = line.rstrip(b"\r").decode(errors="replace")
            if text:
                self._message.take(text)
                if len(self._message.data) > LINE_BYTES_MAX:
                    raise Broken("an event is too long")
                continue
            if self._message.data:
                messages.append(self._message)
            self._message = Message()
        return messages
