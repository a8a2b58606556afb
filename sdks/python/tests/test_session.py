"""Sessions of a real server."""

from __future__ import annotations

import asyncio
import re
from typing import List

import pytest

from leasehold import AsyncClient, Client, Invalid, LeaseLost, Lost, NotReleased, SessionOver

from .proxy import Proxy
from .server import Server, until


def test_one_keepalive_holds_many_locks(client: Client, proxy: Proxy, name: str) -> None:
    with Client(proxy.url) as other, other.session(ttl=6) as session:
        leases = [session.lock(f"{name}/{n}").acquire() for n in range(20)]
        until(lambda: len(proxy.said("/keepalive")) >= 4, "it is kept alive for longer than its ttl")
        assert [lease.held for lease in leases] == [True] * 20
        assert proxy.said("/renew") == []
        assert client.look(f"{name}/7")["held"]
    assert not client.look(f"{name}/7")["held"]
    assert [lease.lost.reason for lease in leases] == [Lost.RELEASED] * 20


def test_a_lock_may_be_released_before_its_session(client: Client, name: str) -> None:
    with client.session(ttl=5) as session:
        with session.lock(name) as lease:
            assert lease.owner == session.owner
        assert not client.look(name)["held"]
        session.check()


def test_everybody_is_told_when_a_session_is_lost(proxy: Proxy, name: str) -> None:
    told: List[str] = []
    with Client(proxy.url) as client:
        session = client.session(ttl=4, on_lost=lambda why: told.append(f"session {why.value}")).open()
        lease = session.lock(name, on_lost=lambda why: told.append(f"lease {why.value}")).acquire()
        proxy.swallow()
        assert lease.lost.wait(180)
        assert session.lost.wait(180)
        until(lambda: len(told) == 2, "both callbacks are called")
        assert sorted(told) == ["lease out_of_time", "session out_of_time"]
        proxy.heal()
        with pytest.raises(SessionOver):
            session.lock(name).acquire()


def test_a_session_that_the_server_ended_is_over(shared_server: Server, name: str) -> None:
    async def main() -> None:
        async with AsyncClient(shared_server.url) as client:
            with pytest.raises(LeaseLost) as lost:
                async with client.session(ttl=9) as session, session.lock(name) as lease:
                    await client.close_session(session.id)
                    assert await lease.lost.wait() is Lost.ENDED
            assert lost.value.reason is Lost.ENDED

    asyncio.run(asyncio.wait_for(main(), 180))


def test_a_close_is_one_however_often_its_answer_is_lost(proxy: Proxy, name: str) -> None:
    with Client(proxy.url) as client:
        session = client.session(ttl=30).open()
        proxy.cut_answers(2)
        session.close()


def test_ttl_and_margin_are_the_session_s(client: Client, name: str) -> None:
    async def main() -> None:
        async with AsyncClient(client._async._settings.urls) as other, other.session(ttl=5) as session:
            request = session.lock(name)
            object.__setattr__(request.options, "ttl", 5.0)
            with pytest.raises(Invalid):
                await request.acquire()

    asyncio.run(main())


def test_a_revoked_lock_of_a_session_is_told_by_its_release(client: Client, name: str) -> None:
    with client.session(ttl=9) as session:
        lease = session.lock(name).acquire()
        client.revoke(name, "a test")
        end = session.end
        until(lambda: session.end > end, "the session is kept alive")
        assert lease.held, "as is documented: it is not renewed by itself"
        with pytest.raises(NotReleased, match=re.escape(repr(name))):
            lease.release()
