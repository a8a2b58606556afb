"""Runs the examples of README.md, docs/reference/sdk.md and docs/reference/sdk-python.md, each as its own program."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import List, Tuple

import pytest

from .server import Server

HERE = Path(__file__).resolve().parent.parent


def examples() -> List[Tuple[str, str]]:
    found = []
    reference = HERE / "../../docs/reference"
    for page in (HERE / "README.md", reference / "sdk.md", reference / "sdk-python.md"):
        blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
        assert blocks, f"{page} has no examples"
        found += [(f"{page.name}-{n}", block) for n, block in enumerate(blocks, 1)]
    return found


@pytest.mark.parametrize("code", [code for _, code in examples()], ids=[name for name, _ in examples()])
def test_an_example_runs(code: str, shared_server: Server) -> None:
    code = code.replace("http://127.0.0.1:8080", shared_server.url)
    environment = {**os.environ, "LEASEHOLD_URL": shared_server.url, "PYTHONPATH": str(HERE / "src")}
    command = [sys.executable, "-W", "error", "-c", code]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stderr
