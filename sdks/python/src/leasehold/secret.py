"""What must not be seen in logs, and names nobody else has."""

from __future__ import annotations

import os
import random
import secrets
import socket


class Secret:
    """A text that is not shown: a key, or the id of a session."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text itself."""
        return self._text

    def __repr__(self) -> str:
        return "…"

    __str__ = __repr__


def request_id() -> str:
    """Return an id for one request."""
    return secrets.token_hex(16)


def owner() -> str:
    """Return an owner that is this process's and no other's: HOST-PID-RANDOM."""
    # The server takes owners of up to 256 bytes.
    host = socket.gethostname()[:60]
    return f"{host}-{os.getpid()}-{secrets.token_hex(4)}"


_random = random.SystemRandom()


def jittered(pause: float) -> float:
    """Return something between half of `pause` and all of it."""
    return pause * _random.uniform(0.5, 1.0)
