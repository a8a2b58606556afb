"""What the console shows of a lock in Python runs as it is, whatever the lock is called."""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys

import httpx
import pytest

from .server import Server
from .test_readme import HERE


def snippet(server: Server, name: str) -> str:
    page = httpx.get(f"{server.url}/console/take", params={"name": name, "namespace": "shop"})
    found = re.search('aria-label="Example for Python">(.*?)</pre>', page.text, re.DOTALL)
    assert found, page.text
    return html.unescape(found[1])


@pytest.mark.parametrize("name", ["nightly", "a'b\"c\\d $x `y` \u202e\U000e0001 {0} \N{SNOWMAN}/1"])
def test_the_snippet_runs(shared_server: Server, name: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(HERE / "src")}
    command = [sys.executable, "-W", "error", "-c", snippet(shared_server, name)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "write with token 1\n", "")
    state = httpx.get(f"{shared_server.url}/v1/namespaces/shop/history", params={"limit": 2}).json()
    assert [event["lock_name"] for event in state["events"]] == [name, name], "granted and released"
