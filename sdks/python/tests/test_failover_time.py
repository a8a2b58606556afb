"""What a cluster says of its leader changes."""

from __future__ import annotations

import logging
from typing import Dict, Iterator

import pytest

from leasehold import Client

from .answers import Answer, Answers

LEASE = {
    "acquired": True,
    "lock_name": "a",
    "owner_id": "me",
    "lease_id": "1.a",
    "fencing_token": 1,
    "lease_expiry_ms": None,
    "expires_in_ms": 9000,
    "expires_after_send_ms": 9000,
}
SESSION = {"session_id": "1.s", "owner_id": "me", "expires_in_ms": 9000, "expires_after_send_ms": 9000}


def answer(path: str) -> Answer:
    headers: Dict[str, str] = {} if path.startswith("/single/") else {"Leasehold-Failover-Ms": "10000"}
    if path.endswith("/release"):
        return 200, headers, {"released": True}
    return 200, headers, SESSION if "/sessions" in path else LEASE


@pytest.fixture
def cluster() -> Iterator[Answers]:
    server = Answers(answer)
    yield server
    server.stop()


@pytest.mark.parametrize("what", ["lock", "session"])
@pytest.mark.parametrize(("path", "ttl", "n"), [("", 3, 1), ("", 10, 0), ("/single", 3, 0)])
def test_a_ttl_shorter_than_a_fail_over_is_warned_of_once(
    cluster: Answers, caplog: pytest.LogCaptureFixture, path: str, ttl: float, n: int, what: str
) -> None:
    with caplog.at_level(logging.WARNING, logger="leasehold"), Client(cluster.url + path) as client:
        for _ in range(2):
            if what == "lock":
                with client.lock("a", ttl=ttl):
                    pass
            else:
                with client.session(ttl=ttl):
                    pass
    warnings = [record.getMessage() for record in caplog.records if "fail-over" in record.getMessage()]
    assert len(warnings) == n, warnings
    assert all("ttl=3 s" in warning and "at least 10 s" in warning for warning in warnings)
