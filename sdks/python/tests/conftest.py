"""What the tests share."""

from __future__ import annotations

from pathlib import Path
from typing import Iterator

import pytest

from leasehold import Client

from .proxy import Proxy
from .server import Server


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server for everything that does not break it. Every test uses names of its own."""
    server = Server(tmp_path_factory.mktemp("server"))
    yield server
    server.stop()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server that may be killed."""
    server = Server(tmp_path)
    yield server
    server.stop()


@pytest.fixture
def proxy(shared_server: Server) -> Iterator[Proxy]:
    """The way to the shared server, which can be broken."""
    proxy = Proxy(shared_server.port)
    yield proxy
    proxy.stop()


@pytest.fixture
def client(shared_server: Server) -> Iterator[Client]:
    with Client(shared_server.url) as client:
        yield client


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A lock nobody else uses."""
    return f"tests/{request.node.nodeid}"
