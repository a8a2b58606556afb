"""Answers that are none of our server's: always an error of ours, never a lease, and never another exception."""

from __future__ import annotations

import asyncio
from typing import Any, Awaitable, Callable, Dict, Iterator, List

import pytest

from leasehold import AsyncClient, Client, Foreign, LeaseholdError, Retry

from .answers import Answer, Answers

LEASE: Dict[str, Any] = {
    "acquired": True,
    "lock_name": "a",
    "owner_id": "me",
    "lease_id": "1.a",
    "fencing_token": 1,
    "expires_after_send_ms": 9000,
}
#: What is said instead of a lease; each of these lacks something, or has something else.
ODD: List[Any] = [
    b"",
    b"<html>",
    b"[" * 100_000,
    b'{"a":' * 100_000,
    None,
    [],
    {},
    7,
    {"error": 5, "code": []},
    {"error": "no", "code": None},
    {"reason": "HELD"},
    {"reason": [], "error": 7, "lock_name": {}, "recommended_retry_ms": "soon"},
    *(
        {name: value for name, value in LEASE.items() if name != left_out}
        for left_out in LEASE
        if left_out != "acquired"
    ),
    {**LEASE, "expires_after_send_ms": "soon"},
    {**LEASE, "expires_after_send_ms": True},
    {**LEASE, "expires_after_send_ms": -1},
    {**LEASE, "fencing_token": "1"},
    {**LEASE, "lease_id": None},
]
CALLS: List[Callable[[AsyncClient], Awaitable[Any]]] = [
    lambda client: client.lock("a", retry=Retry(attempts_max=1)).acquire(),
    lambda client: client.locks("a", "b", retry=Retry(attempts_max=1)).acquire(),
    lambda client: client.cancel("me", "r"),
    lambda client: client.open_session("me", 1000),
    lambda client: client.look("a"),
]


class Said(Answers):
    """Says what it was told last."""

    def __init__(self) -> None:
        self.said: Answer = (500, {}, None)
        super().__init__(lambda _: self.said)


@pytest.fixture
def answers() -> Iterator[Said]:
    answers = Said()
    yield answers
    answers.stop()


@pytest.mark.parametrize("status", [200, 201, 404, 409, 421, 500])
def test_what_is_no_answer_is_an_error_of_ours(status: int, answers: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Retry, "pause", lambda *_: 0.0)

    async def main() -> None:
        async with AsyncClient(answers.url, timeout=5) as client:
            for body in ODD:
                answers.said = (status, {}, body)
                for n, call in enumerate(CALLS):
                    try:
                        got = await call(client)
                    except LeaseholdError:
                        continue
                    # Whoever looks at a lock gets what the server says, whatever that is.
                    assert (n, status < 300) == (len(CALLS) - 1, True), (body, got)

    asyncio.run(main())


def test_a_renewal_that_is_no_answer_keeps_nothing(answers: Said) -> None:
    answers.said = (200, {}, {**LEASE, "expires_after_send_ms": 1000})
    with Client(answers.url) as client:
        lease = client.lock("a", ttl=1).acquire()
        answers.said = (200, {}, {})
        assert lease.lost.wait(180)
        assert "/v1/locks/a/renew" in answers.paths


def test_what_somebody_else_said_can_be_read(answers: Said) -> None:
    with Client(answers.url) as client:
        for status, shown in ((404, b"<html>"), (200, b"")):
            answers.said = (status, {}, b"<html>")
            with pytest.raises(Foreign) as foreign:
                client.look("a")
            assert foreign.value.body == shown, "a success may be a secret"
