"""Several servers that are one service."""

from __future__ import annotations

from typing import Iterator, List

import pytest

from leasehold import Client, Failed, Foreign, Retry

from .answers import Answer, Answers
from .proxy import Proxy
from .server import Server, until

NOWHERE = "http://127.0.0.1:1"
KEY = "lh_key"


def failure(code: str, *, retryable: bool = True) -> dict[str, object]:
    return {"error": "no", "code": code, "retryable": retryable, "may_have_taken_effect": False}


@pytest.fixture
def stubs() -> Iterator[List[Answers]]:
    made: List[Answers] = []
    yield made
    for stub in made:
        stub.stop()


def test_who_refuses_connections_is_passed_over(shared_server: Server, client: Client, name: str) -> None:
    with Client([NOWHERE, shared_server.url]) as other, other.lock(name):
        assert client.look(name)["held"]


def test_a_lease_goes_on_by_another_server(shared_server: Server, client: Client, proxy: Proxy, name: str) -> None:
    with Client([proxy.url, shared_server.url], timeout=1) as other, other.lock(name, ttl=9) as lease:
        proxy.swallow()
        end = lease.end
        until(lambda: lease.end > end + 4, "it is renewed by the other one, more than once")
        lease.check()
    assert [event["kind"] for event in client.history(name)["events"]] == ["released", "granted"]


def test_503_is_asked_elsewhere_next(shared_server: Server, stubs: List[Answers], name: str) -> None:
    busy = Answers(lambda _: (503, {}, failure("BUSY")))
    stubs.append(busy)
    with Client([busy.url, shared_server.url]) as other, other.lock(name):
        assert len(busy.paths) == 1


def test_a_wait_outlasts_an_outage_of_the_store_however_many_tries_that_takes(stubs: List[Answers]) -> None:
    granted = {"acquired": True, "lock_name": "a", "owner_id": "o", "lease_id": "1.a", "fencing_token": 7}
    times = {"lease_expiry_ms": None, "expires_in_ms": 60_000, "expires_after_send_ms": 60_000}
    busy: List[Answer] = [(503, {}, failure(code)) for code in ["UNKNOWN", "BUSY"] * 15]
    said = iter([*busy, (200, {}, {**granted, **times})])
    answers = Answers(lambda path: (200, {}, {"released": True}) if path.endswith("/release") else next(said))
    stubs.append(answers)
    retry = Retry(pause_min=0.001, pause_max=0.001)
    with Client(answers.url) as other, other.lock("a", wait=600, retry=retry) as lease:
        assert lease.fencing_token == 7
        assert len(answers.paths) == 31


def test_who_does_not_lead_names_the_leader(shared_server: Server, stubs: List[Answers], name: str) -> None:
    unused = Answers(lambda _: (500, {}, failure("INTERNAL", retryable=False)))
    follower = Answers(lambda _: (421, {"Leasehold-Leader": shared_server.url + "/"}, failure("NOT_LEADER")))
    stubs += [unused, follower]
    with Client([follower.url, unused.url, shared_server.url], api_key=KEY) as other, other.lock(name):
        assert len(follower.paths) == 1
        assert unused.paths == []


def test_a_leader_that_was_not_configured_gets_nothing(shared_server: Server, stubs: List[Answers], name: str) -> None:
    stranger = Answers(lambda _: (200, {}, {}))
    follower = Answers(lambda _: (421, {"Leasehold-Leader": stranger.url}, failure("NOT_LEADER")))
    stubs += [stranger, follower]
    with Client([follower.url, shared_server.url], api_key=KEY) as other, other.lock(name):
        assert follower.keys == [f"Bearer {KEY}"]
    assert stranger.paths == []
    once = Retry(attempts_max=1)
    with Client(follower.url, api_key=KEY) as other, pytest.raises(Failed) as failed:
        other.lock(name, retry=once).acquire()
    assert (failed.value.status, failed.value.code, stranger.paths) == (421, "NOT_LEADER", [])


def test_a_refused_host_is_no_follower(shared_server: Server, stubs: List[Answers], name: str) -> None:
    strict = Answers(lambda _: (421, {}, failure("HOST_NOT_ALLOWED", retryable=False)))
    stubs.append(strict)
    with Client([strict.url, shared_server.url]) as other, pytest.raises(Failed) as failed:
        other.lock(name).acquire()
    assert failed.value.code == "HOST_NOT_ALLOWED"


def test_a_redirect_is_not_followed(stubs: List[Answers], name: str) -> None:
    target = Answers(lambda _: (200, {}, {}))

    def redirect(path: str) -> Answer:
        return 307, {"Location": target.url + path}, {}

    stubs += [target, Answers(redirect)]
    with Client(stubs[1].url, api_key=KEY) as other, pytest.raises(Foreign):
        other.lock(name).acquire()
    assert target.paths == []


def test_an_answer_of_somebody_else_is_said_to_be_one(stubs: List[Answers], name: str) -> None:
    stubs.append(Answers(lambda _: (200, {}, {"hello": "world"})))
    with Client(stubs[0].url) as other, pytest.raises(Foreign):
        other.lock(name).acquire()
    stubs.append(Answers(lambda _: (401, {}, failure("BRAND_NEW", retryable=False))))
    with Client(stubs[1].url) as other, pytest.raises(Failed) as failed:
        other.lock(name).acquire()
    assert failed.value.code == "BRAND_NEW", "also a code that this version does not know"
