"""Connections that are there and say nothing: another one is tried, and nobody waits for ever."""

from __future__ import annotations

import json
import logging
import threading
import time
from typing import List

import pytest

from leasehold import Broken, Client, Lease, Retry, WaitTimeout, asking

from .proxy import Proxy
from .server import Server, until

SLICE = 0.5


@pytest.fixture
def short_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "WAIT_SLICE", SLICE)


def wait_for(client: Client, name: str, granted: List[Lease], wait: float = 600) -> threading.Thread:
    # One try, to see that slices are none.
    request = client.lock(name, ttl=30, wait=wait, retry=Retry(attempts_max=1))
    thread = threading.Thread(target=lambda: granted.append(request.acquire()))
    thread.start()
    return thread


def request_ids(proxy: Proxy, path: str = "/acquire") -> List[str]:
    return [json.loads(body)["request_id"] for body in proxy.said(path)]


def test_the_next_url_is_asked_after_a_silent_one_also_by_default(
    shared_server: Server, proxy: Proxy, name: str
) -> None:
    proxy.swallow()
    begun_at = time.monotonic()
    with Client([proxy.url, shared_server.url]) as client, client.lock(name) as lease:
        assert lease.held
    assert time.monotonic() - begun_at > 5.5, "more than the 5 s for which a follower may hold a request"
    assert len(request_ids(proxy)) == 1


def test_a_single_silent_url_is_tried_again(proxy: Proxy, name: str) -> None:
    proxy.swallow()
    with Client(proxy.url, timeout=0.3) as client, pytest.raises(Broken):
        client.lock(name, retry=Retry(attempts_max=3)).acquire()
    ids = request_ids(proxy)
    assert (len(ids), len(set(ids))) == (3, 1)


@pytest.mark.usefixtures("short_slices")
def test_a_wait_leaves_a_connection_that_went_silent(client: Client, proxy: Proxy, name: str) -> None:
    granted: List[Lease] = []
    with Client(proxy.url) as waiter:
        with client.lock(name):
            thread = wait_for(waiter, name, granted)
            until(lambda: client.look(name).get("n_waiting") == 1, "it waits")
            proxy.hush()
        thread.join(180)
        assert [lease.held for lease in granted] == [True]
        granted[0].release()


@pytest.mark.usefixtures("short_slices")
def test_slices_of_a_wait_keep_its_place_and_are_no_failures(
    client: Client, proxy: Proxy, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    granted: List[Lease] = []
    with caplog.at_level(logging.INFO, "leasehold"), Client(proxy.url) as waiter, Client(proxy.url) as later:
        with client.lock(name):
            first = wait_for(waiter, name, granted)
            until(lambda: client.look(name).get("n_waiting") == 1, "it waits")
            second = wait_for(later, name, granted)
            until(lambda: len(request_ids(proxy)) >= 8, "it asks in slices")
            assert len(set(request_ids(proxy))) == 2, "each with the id it began with"
            waits = [json.loads(body)["wait_ms"] for body in proxy.said("/acquire")]
            assert min(waits) > 50_000, "the server hears of the whole wait that is left"
            until(lambda: proxy.n_open <= 2, "what is given up is closed")
            until(lambda: [w["parked"] for w in client.look(name).get("queue") or []] == [False] * 2, "both wait")
        first.join(180)
        assert [lease.owner for lease in granted] == [waiter.owner], "who came first goes first"
        granted[0].release()
        second.join(180)
        granted[1].release()
    assert caplog.text == ""


@pytest.mark.usefixtures("short_slices")
def test_several_locks_are_waited_for_in_slices(client: Client, proxy: Proxy, name: str) -> None:
    granted: List[bool] = []
    with Client(proxy.url) as waiter:
        request = waiter.locks(name + "/a", name + "/b", wait=60)

        def wait() -> None:
            with request as leases:
                granted.append(leases.held)

        thread = threading.Thread(target=wait)
        with client.lock(name + "/b"):
            thread.start()
            until(lambda: len(proxy.said("/v1/acquire")) > 2, "it asks in slices")
        thread.join(180)
    assert granted == [True]


@pytest.mark.usefixtures("short_slices")
def test_a_campaign_is_waited_for_in_slices(client: Client, proxy: Proxy, name: str) -> None:
    terms: List[Lease] = []
    with Client(proxy.url) as waiter:
        thread = threading.Thread(target=lambda: terms.append(waiter.election(name).campaign("b").acquire()))
        with client.election(name).campaign("a"):
            thread.start()
            until(lambda: len(request_ids(proxy)) > 2, "it asks in slices")
        thread.join(180)
        terms[0].release()


@pytest.mark.usefixtures("short_slices")
def test_the_next_url_is_asked_after_a_slice(shared_server: Server, proxy: Proxy, name: str) -> None:
    proxy.swallow()
    with Client([proxy.url, shared_server.url], timeout=2) as client, client.lock(name, wait=60):
        assert len(request_ids(proxy)) == 1


@pytest.mark.usefixtures("short_slices")
def test_a_wait_stays_where_somebody_answers(shared_server: Server, client: Client, proxy: Proxy, name: str) -> None:
    # Whoever went to the silent one would lose the place in the queue.
    proxy.swallow()
    granted: List[Lease] = []
    with Client([shared_server.url, proxy.url], timeout=3) as waiter:
        with client.lock(name):
            thread = wait_for(waiter, name, granted)
            until(lambda: client.look(name).get("n_waiting") == 1, "it waits")
            time.sleep(4 * SLICE)
            assert client.look(name).get("n_waiting") == 1
        thread.join(180)
        assert [lease.held for lease in granted] == [True]
        granted[0].release()
    assert request_ids(proxy) == []


def test_a_short_wait_without_any_answer_asks_the_next_url_once(shared_server: Server, proxy: Proxy, name: str) -> None:
    proxy.swallow()
    with Client([proxy.url, shared_server.url], timeout=1) as client, client.lock(name, wait=0.2):
        with Client([proxy.url, shared_server.url], timeout=1) as other, pytest.raises(WaitTimeout):
            other.lock(name, wait=0.2).acquire()
        with Client(proxy.url, timeout=0.3) as other, pytest.raises(Broken):
            other.lock(name, wait=0.2).acquire()
