"""The wheel as others get it: installed into an environment of its own, with nothing but what it says it needs."""

from __future__ import annotations

import json
import os
import subprocess

from leasehold import __version__

from .server import Server

PROGRAM = """
import asyncio, importlib.metadata, json, sys
import leasehold

async def main():
    async with leasehold.AsyncClient() as client:
        async with client.lock("wheel/async") as lease:
            return lease.fencing_token

with leasehold.Client() as client, client.lock("wheel/sync", ttl=10) as lease:
    token = lease.fencing_token
print(json.dumps({
    "file": leasehold.__file__, "prefix": sys.prefix, "version": importlib.metadata.version("leasehold"),
    "tokens": [token, asyncio.run(main())],
}))
"""


def test_the_wheel_works_with_what_it_says_it_needs(shared_server: Server) -> None:
    python = os.environ.get("LEASEHOLD_WHEEL_PYTHON")
    assert python, "LEASEHOLD_WHEEL_PYTHON must be a Python that the wheel is installed for, as sdks/python/check does"
    environment = {"LEASEHOLD_URL": shared_server.url}
    command = [python, "-I", "-W", "error", "-c", PROGRAM]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stderr
    said = json.loads(ran.stdout)
    assert said["file"].startswith(said["prefix"]), "it is the one that was installed"
    assert (said["version"], said["tokens"]) == (__version__, [1, 1])
