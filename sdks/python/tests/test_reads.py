"""What only reads is asked again, and what takes away is not."""

from __future__ import annotations

from typing import Any, Callable, List

import pytest

from leasehold import Broken, Client, Failed, Retry, Unreachable

from .answers import Answers
from .proxy import Proxy

BUSY = {"error": "no", "code": "BUSY", "retryable": True, "may_have_taken_effect": False}


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Retry, "pause", lambda *_: 0.0)


READS: List[Callable[[Client], Any]] = [
    lambda client: client.look("a"),
    lambda client: client.list(limit=1),
    lambda client: client.history(limit=1),
    lambda client: client.check_fence("a", 1),
    lambda client: client.ready(),
    lambda client: client.election("a").leader(),
]


@pytest.mark.parametrize("read", READS)
def test_a_read_goes_on_over_a_connection_that_breaks(proxy: Proxy, read: Callable[[Client], Any]) -> None:
    with Client(proxy.url) as client:
        proxy.cut_answers(1)
        read(client)
        proxy.cut()
        read(client)


@pytest.mark.parametrize("read", READS)
def test_a_read_cannot_have_taken_effect(proxy: Proxy, read: Callable[[Client], Any]) -> None:
    with Client(proxy.url) as client:
        proxy.cut_answers(1000)
        with pytest.raises(Broken) as broken:
            read(client)
    assert not broken.value.may_have_taken_effect


def test_that_it_is_not_ready_is_an_answer() -> None:
    answers = Answers(lambda _: (503, {}, BUSY))
    with Client(answers.url) as client, pytest.raises(Failed):
        client.ready()
    assert answers.paths == ["/readyz"]
    answers.stop()


def test_a_revocation_is_sent_once(client: Client, proxy: Proxy, name: str) -> None:
    with Client(proxy.url) as other:
        proxy.cut_answers(1)
        with pytest.raises(Broken) as broken:
            other.revoke(name, "a test")
        assert broken.value.may_have_taken_effect
    assert len(proxy.said("/revoke")) == 1


def test_a_revocation_is_sent_again_if_nothing_was_done() -> None:
    said = iter([(503, BUSY), (200, {"lock_name": "a", "revoked": []})])

    def answer(_: str) -> Any:
        status, body = next(said)
        return status, {}, body

    answers = Answers(answer)
    with Client(answers.url) as client:
        assert client.revoke("a", "a test")["revoked"] == []
    assert len(answers.paths) == 2
    answers.stop()
    with Client(answers.url) as client, pytest.raises(Unreachable):
        client.revoke("a", "a test")
