"""A loss is told before the lease can end, and is final. Judged by the server's own history."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from typing import List

import pytest

from leasehold import AsyncClient, Client, LeaseLost, Lost

from .proxy import Proxy
from .server import Server, until


def ended_at(client: Client, name: str) -> float:
    """When the server ended the lease, in epoch seconds."""
    until(lambda: client.history(name)["events"][0]["kind"] == "expired", "it expires")
    return client.history(name)["events"][0]["at_ms"] / 1000


def test_threads_are_told_before_the_end_when_nothing_gets_through(client: Client, proxy: Proxy, name: str) -> None:
    told: List[float] = []
    reasons: List[Lost] = []

    def on_lost(why: Lost) -> None:
        told.append(time.time())
        reasons.append(why)

    with Client(proxy.url) as other:
        # On a busy machine a thread can be told late, so there are seconds between the loss and the end.
        lease = other.lock(name, ttl=10, margin=4, on_lost=on_lost).acquire()
        until(lambda: proxy.said("/renew") != [], "it is renewed once")
        proxy.swallow()
        assert lease.lost.wait(180)
        set_at = time.time()
        assert (lease.held, lease.lost.reason) == (False, Lost.OUT_OF_TIME)
        until(lambda: told != [], "the callback is called")
        end = ended_at(client, name)
        assert max(told[0], set_at) < end, "told before the end"
        assert reasons == [Lost.OUT_OF_TIME]
        proxy.heal()
        n_renewals = len(proxy.said("/renew"))
        with pytest.raises(LeaseLost):
            lease.check()
        assert len(proxy.said("/renew")) == n_renewals, "nothing is renewed after a loss"


def test_tasks_are_told_before_the_end_when_the_server_stops(server: Server, name: str) -> None:
    async def main() -> float:
        told: asyncio.Future[float] = asyncio.get_running_loop().create_future()

        async def on_lost(why: Lost) -> None:
            told.set_result(time.time())

        async with AsyncClient(server.url) as client:
            with pytest.raises(LeaseLost) as lost:
                async with client.lock(name, ttl=10, margin=4, on_lost=on_lost) as lease:
                    server.pause()
                    assert await lease.lost.wait() is Lost.OUT_OF_TIME
                    server.resume()
            assert lost.value.reason is Lost.OUT_OF_TIME
            return await told

    told_at = asyncio.run(main())
    with Client(server.url) as client:
        # What was left of it is released, or has expired.
        ended = client.history(name)["events"][0]
        assert ended["kind"] in ("expired", "released")
        assert told_at < ended["at_ms"] / 1000 + 0.001


def test_the_bound_counts_from_when_the_request_was_sent(proxy: Proxy, name: str) -> None:
    with Client(proxy.url) as client:
        before = client.clock.now()
        lease = client.lock(name, ttl=10).acquire()
        assert before + 9.9 <= lease.end <= client.clock.now() + 9.9
        assert lease.deadline == pytest.approx(lease.end - 0.25)
        lease.release()


def test_a_revocation_is_told_by_the_next_renewal(client: Client, name: str) -> None:
    lease = client.lock(name, ttl=9).acquire()
    client.revoke(name, "a test")
    assert lease.lost.wait(180)
    assert lease.lost.reason is Lost.ENDED


def test_a_watched_lease_hears_of_its_revocation_at_once(
    client: Client, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "leasehold")
    with pytest.raises(LeaseLost), client.lock(name, ttl=600, watched=True) as lease:
        until(lambda: "it is watched" in caplog.text, "it is watched")
        client.revoke(name, "a test")
        assert lease.lost.wait(180), "long before the next renewal"
        assert lease.lost.reason is Lost.ENDED
        assert lease.lost.detail == "revoked: a test", "as the operator says"


def test_watched_leases_hear_of_one_revocation(client: Client, name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "leasehold")
    with (
        pytest.raises(LeaseLost) as lost,
        client.locks(name + "/a", name + "/b", ttl=600, watched=True) as leases,
    ):
        until(lambda: caplog.text.count("it is watched") == 2, "both are watched")
        client.revoke(name + "/b", "a test")
        assert leases.lost.wait(180)
    assert str(lost.value).startswith(f"locks {name + '/a'!r}, {name + '/b'!r}: ")
    assert str(lost.value).endswith(f"(lock {name + '/b'!r}: revoked: a test)")


def test_losses_and_what_is_logged_name_the_lock(
    client: Client, proxy: Proxy, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    one, both = f"lock {name!r}: ", f"locks {name + '/a'!r}, {name + '/b'!r}: "
    with Client(proxy.url, timeout=2) as other:
        lease = other.lock(name, ttl=9).acquire()
        leases = other.locks(name + "/a", name + "/b", ttl=9).acquire()
        client.revoke(name, "a test")
        client.revoke(name + "/b", "a test")
        for holding, what in ((lease, one), (leases, both)):
            assert holding.lost.wait(180)
            with pytest.raises(LeaseLost) as lost:
                holding.check()
            assert str(lost.value).startswith(what)
        assert f"(lock {name + '/b'!r}: " in str(lost.value), "which of them"
        with pytest.raises(LeaseLost), other.lock(name, ttl=9) as lease:
            proxy.swallow()
            assert lease.lost.wait(180)
    assert one + "the server says" in caplog.text
    assert both + "the server says" in caplog.text
    assert one + "renewal failed" in caplog.text


def test_a_release_is_no_loss_to_be_called_for(client: Client, name: str) -> None:
    called = threading.Event()
    with client.lock(name, on_lost=lambda _: called.set()) as lease:
        pass
    assert lease.lost.wait(180), "but whoever waits goes on"
    assert not called.is_set()


def test_work_is_cancelled_where_it_waits_when_the_lease_is_lost(
    shared_server: Server, client: Client, name: str
) -> None:
    async def main() -> None:
        async with AsyncClient(shared_server.url) as other:
            cancelled = asyncio.Event()

            async def work(_: object) -> None:
                client.revoke(name, "a test")
                try:
                    await asyncio.Event().wait()
                finally:
                    cancelled.set()

            with pytest.raises(LeaseLost):
                await other.lock(name, ttl=9).run(work)
            assert cancelled.is_set()

    asyncio.run(main())


def test_a_lease_outlives_a_crash_of_the_server(server: Server, name: str) -> None:
    with Client(server.url) as client, client.lock(name, ttl=20) as lease:
        end = lease.end
        server.kill()
        server.start()
        until(lambda: lease.end > end, "it is renewed by the next server")
        lease.check()
