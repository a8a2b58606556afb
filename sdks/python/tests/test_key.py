"""API keys, with a server that asks for them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Iterator, Tuple

import pytest

from leasehold import Client, Failed

from .server import Server, binary


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Tuple[Server, str]]:
    """A server and the key of its admin."""
    if subprocess.run([binary(), "auth", "--help"], capture_output=True, timeout=300, check=False).returncode != 0:
        pytest.skip("this server does not know API keys yet")
    auth_file = tmp_path / "auth.toml"
    command = [binary(), "auth", "init", "--auth-file", str(auth_file)]
    said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout
    found = re.search(r"^lh_\S+$", said, re.MULTILINE)
    assert found
    server = Server(tmp_path, "--auth-file", str(auth_file))
    yield server, found.group()
    server.stop()


def test_whoever_has_the_key_gets_the_lock(guarded: Tuple[Server, str], tmp_path: Path, name: str) -> None:
    server, key = guarded
    file = tmp_path / "key"
    file.write_text(key + "\n")
    with Client(server.url, api_key_file=file) as client, client.lock(name) as lease:
        assert client.look(name)["held"]
        assert lease.held


@pytest.mark.parametrize("key", [None, "lh_wrong_key"])
def test_nobody_else_does(guarded: Tuple[Server, str], key: str, name: str) -> None:
    with Client(guarded[0].url, api_key=key) as client, pytest.raises(Failed) as refused:
        client.lock(name).acquire()
    assert (refused.value.status, refused.value.code, refused.value.retryable) == (401, "UNAUTHENTICATED", False)
