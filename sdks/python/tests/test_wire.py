"""What is tied to the server: the types of the wire, the version and the license."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import leasehold

HERE = Path(__file__).resolve().parent.parent


def test_the_types_are_what_the_generator_makes_of_the_contract() -> None:
    command = [sys.executable, str(HERE / "generate"), "--stdout"]
    made = subprocess.run(command, check=True, capture_output=True, timeout=120, text=True).stdout
    committed = (HERE / "src/leasehold/wire.py").read_text(encoding="utf-8")
    assert made == committed, "docs/openapi.json has changed: run sdks/python/check --generate"


def test_the_version_is_the_server_s() -> None:
    manifest = (HERE / "../../Cargo.toml").read_text(encoding="utf-8")
    found = re.search(r'^\[workspace\.package\]\nversion = "(.+)"$', manifest, re.MULTILINE)
    assert found
    assert leasehold.__version__ == found.group(1)


def test_the_license_is_the_project_s() -> None:
    """A package needs a copy of its own."""
    assert (HERE / "LICENSE").read_bytes() == (HERE / "../../LICENSE").read_bytes()
