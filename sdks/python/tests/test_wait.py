"""Waiting in the queue, over whatever happens."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from typing import List, Optional

import pytest

from leasehold import AsyncClient, Cancelled, Client, Lease, LeaseholdError, Retry

from .proxy import Proxy
from .server import Server, until


def wait_for(client: Client, name: str, granted: List[Lease]) -> threading.Thread:
    thread = threading.Thread(target=lambda: granted.append(client.lock(name, ttl=60, wait=600).acquire()))
    thread.start()
    return thread


def test_waiting_survives_a_crash_of_the_server(server: Server, name: str) -> None:
    proxy = Proxy(server.port)
    with Client(server.url) as holder, Client(proxy.url) as waiter, Client(server.url) as later:
        granted: List[Lease] = []
        lease = holder.lock(name, ttl=600).acquire()
        first = wait_for(waiter, name, granted)
        until(lambda: holder.look(name).get("n_waiting") == 1, "it waits")
        behind = wait_for(later, name, granted)
        until(lambda: holder.look(name).get("n_waiting") == 2, "another waits behind it")
        server.kill()
        server.start()
        queue = [{"owner_id": waiter.owner, "parked": False}, {"owner_id": later.owner, "parked": False}]

        def is_back() -> bool:
            seen = holder.look(name).get("queue") or []
            return [{key: place.get(key) for key in ("owner_id", "parked")} for place in seen] == queue

        until(is_back, "both are back in their places")
        lease.release()
        first.join(180)
        assert [lease.owner for lease in granted] == [waiter.owner], "who came first goes first"
        granted[0].release()
        behind.join(180)
        assert [lease.owner for lease in granted] == [waiter.owner, later.owner]
        ids = {json.loads(body)["request_id"] for body in proxy.said("/acquire")}
        assert len(proxy.said("/acquire")) > 1
        assert len(ids) == 1, "the same request id, however often it is asked"
        granted[1].release()
    proxy.stop()


def test_waiting_survives_broken_connections(client: Client, proxy: Proxy, name: str) -> None:
    with Client(proxy.url) as waiter:
        granted: List[Lease] = []
        lease = client.lock(name).acquire()
        thread = wait_for(waiter, name, granted)
        for n in range(1, 4):
            until(lambda n=n: len(proxy.said("/acquire")) == n, "it asks")  # type: ignore[misc]
            until(lambda: [w["parked"] for w in client.look(name).get("queue") or []] == [False], "it waits")
            proxy.cut()
        lease.release()
        thread.join(180)
        assert [lease.held for lease in granted] == [True]
        granted[0].release()


def test_a_wait_longer_than_the_ttl_ends_in_a_lease_that_is_held(client: Client, name: str) -> None:
    granted: List[Lease] = []
    lease = client.lock(name).acquire()
    thread = threading.Thread(target=lambda: granted.append(client.lock(name, ttl=6, wait=600).acquire()))
    thread.start()
    until(lambda: [w["waiting_ms"] > 6100 for w in client.look(name).get("queue") or []] == [True], "it waits long")
    lease.release()
    thread.join(180)
    end = granted[0].end
    until(lambda: granted[0].end > end, "it is renewed")
    granted[0].release()


def test_whoever_is_cancelled_leaves_the_queue(shared_server: Server, client: Client, name: str) -> None:
    async def main() -> None:
        async with AsyncClient(shared_server.url) as other:
            waiting = asyncio.ensure_future(other.lock(name, wait=60).acquire())
            while (await other.look(name)).get("n_waiting") != 1:
                await asyncio.sleep(0.01)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert (await other.look(name)).get("n_waiting", 0) == 0, "at once, not parked"

    with client.lock(name):
        asyncio.run(asyncio.wait_for(main(), 180))


def test_a_grant_that_nobody_took_is_given_back(shared_server: Server, client: Client, name: str) -> None:
    async def main() -> None:
        async with AsyncClient(shared_server.url) as other:
            original = other.acquire

            async def slow(lock: str, request: object, *, patience: Optional[float] = None) -> object:
                answer = await original(lock, request, patience=patience)  # type: ignore[arg-type]
                if "granted" not in told:
                    told.append("granted")
                    await asyncio.Event().wait()
                return answer

            told: List[str] = []
            other.acquire = slow  # type: ignore[method-assign, assignment]
            waiting = asyncio.ensure_future(other.lock(name, wait=60).acquire())
            while not told:
                await asyncio.sleep(0.01)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting

    asyncio.run(asyncio.wait_for(main(), 180))
    assert not client.look(name)["held"]
    assert [event["kind"] for event in client.history(name)["events"]] == ["released", "granted"]


def test_a_thread_that_waits_is_ended_by_another(client: Client, name: str) -> None:
    errors: List[Exception] = []
    request = client.lock(name, wait=60)

    def wait() -> None:
        try:
            request.acquire()
        except Cancelled as error:
            errors.append(error)

    with client.lock(name):
        thread = threading.Thread(target=wait)
        thread.start()
        until(lambda: client.look(name).get("n_waiting") == 1, "it waits")
        request.cancel()
        thread.join(180)
        assert len(errors) == 1
        assert client.look(name).get("n_waiting", 0) == 0, "at once, not parked"
    with request as lease:
        request.cancel()
        lease.check()


def test_a_client_that_is_closed_ends_its_waits_and_its_leases(
    shared_server: Server, client: Client, name: str
) -> None:
    errors: List[Exception] = []
    other = Client(shared_server.url)

    def wait() -> None:
        try:
            other.lock(name, wait=60).acquire()
        except Cancelled as error:
            errors.append(error)

    with other.lock(name) as lease:
        thread = threading.Thread(target=wait)
        thread.start()
        until(lambda: client.look(name).get("n_waiting") == 1, "it waits")
        other.close()
        thread.join(180)
        assert len(errors) == 1
        assert not client.look(name)["held"]
        assert not lease.held
        lease.release()
    with other.lock(name):
        assert client.look(name)["held"], "it can be used again"
    other.close()


def test_ctrl_c_leaves_the_queue(shared_server: Server, client: Client, name: str) -> None:
    with client.lock(name):

        def interrupt() -> None:
            until(lambda: client.look(name).get("n_waiting") == 1, "it waits")
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        with Client(shared_server.url) as other, pytest.raises(KeyboardInterrupt):
            other.lock(name, wait=60).acquire()
        thread.join(180)
        assert client.look(name).get("n_waiting", 0) == 0


def test_a_ttl_that_is_too_short_is_said_to_be(client: Client, name: str) -> None:
    with pytest.raises(LeaseholdError, match=r"ttl, 0\.001 s, is too short"):
        client.lock(name, ttl=0.001, retry=Retry(attempts_max=2)).acquire()
