"""A server of the test's own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Callable, List, Optional

#: Far beyond what anything takes; only what hangs gets here.
PATIENCE = 180.0


def until(condition: Callable[[], bool], what: str, patience: float = PATIENCE) -> None:
    """Return when the condition holds, or fail."""
    end = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < end, f"not within {patience:g} s: {what}"
        time.sleep(0.01)


def binary() -> str:
    """Return the server's binary."""
    found = os.environ.get("LEASEHOLD_BIN")
    assert found, "LEASEHOLD_BIN must be the server's binary"
    return found


class Server:
    """A process that serves on a free port, the same one after every restart."""

    def __init__(self, folder: Path, *options: str, scheme: str = "http") -> None:
        self._folder = folder
        self._scheme = scheme
        self._options = options
        self._process: Optional[subprocess.Popen[bytes]] = None
        # A socket that is bound and does not listen: nobody else gets the port while the server is restarted.
        self._reserved = socket.socket()
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reserved.bind(("127.0.0.1", 0))
        self.port: int = self._reserved.getsockname()[1]
        self.start()

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.port}"

    def start(self) -> None:
        port_file = self._folder / "port"
        port_file.unlink(missing_ok=True)
        command: List[str] = [binary(), "serve", *self._options, "--listen", self.url, "--log", "error"]
        command += ["--port-file", str(port_file), "--data", str(self._folder / "data")]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("LEASEHOLD_")}
        self._process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
        until(lambda: port_file.exists() and port_file.read_text().strip() != "", "the server starts")

    def kill(self) -> None:
        """As if it had crashed."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(PATIENCE)
        self._process = None

    def pause(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        if self._process is not None:
            self.resume()
            self.kill()
        self._reserved.close()
