"""Locks of a real server."""

from __future__ import annotations

import asyncio
import gc
import math
import os
import pickle
import subprocess
import sys
import threading
import warnings
from typing import Any, Dict, List, Optional

import pytest

from leasehold import (
    AsyncClient,
    AsyncLease,
    Broken,
    Client,
    Invalid,
    LeaseLost,
    Lost,
    NotAcquired,
    NotReleased,
    NotRenewed,
    Retry,
    WaitTimeout,
    counted,
    shared,
    wire,
)

from .clock import FakeClock
from .proxy import Proxy
from .server import Server, until


def kinds(client: Client, name: str) -> List[str]:
    """What happened to a lock, the oldest first."""
    return [str(event["kind"]) for event in client.history(name)["events"]][::-1]


def test_a_lock_is_held_inside_of_with_and_free_afterwards(client: Client, name: str) -> None:
    with client.lock(name, ttl=5, metadata={"host": "a1"}) as lease:
        assert lease.held
        assert (lease.name, lease.owner) == (name, client.owner)
        state = client.look(name)
        assert state["held"]
        assert (state.get("fencing_token"), state.get("metadata")) == (lease.fencing_token, {"host": "a1"})
        with pytest.raises(NotAcquired) as refused:
            client.lock(name).acquire()
        assert (refused.value.reason, refused.value.holder) == ("HELD", client.owner)
    assert not client.look(name)["held"]
    assert (lease.held, lease.lost.reason) == (False, Lost.RELEASED)
    with pytest.raises(LeaseLost):
        lease.check()


def test_asyncio_has_the_same(shared_server: Server, client: Client, name: str) -> None:
    async def main() -> None:
        async with AsyncClient(shared_server.url) as other, other.lock(name, ttl=5) as lease:
            lease.check()
            assert (await other.look(name))["held"]
            with pytest.raises(NotAcquired):
                await other.lock(name).acquire()
        assert await lease.lost.wait() is Lost.RELEASED

    asyncio.run(main())
    assert kinds(client, name) == ["granted", "released"]


def test_the_token_grows_with_every_grant(client: Client, name: str) -> None:
    tokens = [client.lock(name).run(lambda lease: lease.fencing_token) for _ in range(3)]
    assert tokens == sorted(set(tokens))


def test_an_error_inside_of_with_gives_the_lock_back_and_stays(client: Client, name: str) -> None:
    with pytest.raises(ZeroDivisionError), client.lock(name):
        _ = 1 // 0
    assert not client.look(name)["held"]


def test_whoever_releases_twice_releases_once(client: Client, proxy: Proxy, name: str) -> None:
    with Client(proxy.url) as other:
        lease = other.lock(name).acquire()
        threads = [threading.Thread(target=lease.release) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(180)
        lease.release()
    assert len(proxy.said("/release")) == 1
    assert kinds(client, name) == ["granted", "released"]


def test_a_release_is_one_however_often_its_answer_is_lost(client: Client, proxy: Proxy, name: str) -> None:
    with Client(proxy.url) as other:
        lease = other.lock(name).acquire()
        proxy.cut_answers(3)
        lease.release()
    tries = proxy.said("/release")
    assert len(tries) == 4
    assert len(set(tries)) == 1, "the very same request, with the same id"
    assert kinds(client, name) == ["granted", "released"]


def test_a_release_that_failed_can_be_tried_again(client: Client, proxy: Proxy, name: str) -> None:
    with Client(proxy.url, timeout=1) as other:
        lease = other.lock(name, ttl=60).acquire()
        proxy.swallow()
        with pytest.raises(Broken):
            lease.release()
        assert not lease.held
        n_tries = len(proxy.said("/release"))
        proxy.heal()
        lease.release()
    assert len(proxy.said("/release")) > n_tries > 1
    assert len(set(proxy.said("/release"))) == 1, "it is the same request"
    assert kinds(client, name) == ["granted", "released"]


def test_an_acquire_is_one_however_often_its_answer_is_lost(client: Client, proxy: Proxy, name: str) -> None:
    with Client(proxy.url) as other:
        proxy.cut_answers(3)
        with other.lock(name):
            assert kinds(client, name) == ["granted"]
    tries = proxy.said("/acquire")
    assert len(tries) == 4
    assert len(set(tries)) == 1


def test_a_grant_whose_answer_was_lost_for_good_is_given_back(client: Client, proxy: Proxy, name: str) -> None:
    with Client(proxy.url) as other:
        proxy.cut_answers(3)
        with pytest.raises(Broken):
            other.lock(name, retry=Retry(attempts_max=3)).acquire()
        until(lambda: kinds(client, name) == ["granted", "released"], "nobody knows of it, so it is given back")


def test_nothing_is_renewed_after_a_release(proxy: Proxy, name: str) -> None:
    with Client(proxy.url) as client, client.lock(name + "/kept", ttl=6) as kept:
        released = client.lock(name, ttl=6).acquire()
        end = released.end
        until(lambda: released.end > end, "it is renewed")
        released.release()
        n_renewals = len([body for body in proxy.said("/renew") if released.lease_id.encode() in body])
        end = kept.end
        until(lambda: kept.end > end + 6, "the other one is renewed for more than a ttl")
        assert len([body for body in proxy.said("/renew") if released.lease_id.encode() in body]) == n_renewals


def test_a_grant_counts_from_when_the_request_was_sent(shared_server: Server, name: str) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with AsyncClient(shared_server.url, clock=clock) as client:
            ask = client.acquire

            async def slow(
                lock: str, request: wire.AcquireRequest, *, patience: Optional[float] = None
            ) -> wire.Acquired:
                answer = await ask(lock, request, patience=patience)
                clock.advance(4.0)
                return {**answer, "expires_after_send_ms": 10_000}

            client.acquire = slow  # type: ignore[method-assign]
            sent_at = clock.now()
            async with client.lock(name, ttl=10, margin=1) as lease:
                assert (lease.end, lease.deadline) == pytest.approx((sent_at + 9.9, sent_at + 8.9))
                clock.advance(4.8)
                assert lease.held
                clock.advance(0.2)
                assert not lease.held
                assert await lease.lost.wait() is Lost.OUT_OF_TIME

    with pytest.raises(LeaseLost):
        asyncio.run(main())


def test_after_a_wait_long_enough_for_clocks_to_drift_the_lease_is_renewed_first(
    shared_server: Server, name: str
) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with AsyncClient(shared_server.url, clock=clock) as client:
            ask = client.acquire

            async def late(
                lock: str, request: wire.AcquireRequest, *, patience: Optional[float] = None
            ) -> wire.Acquired:
                answer = await ask(lock, request, patience=patience)
                # As if it had waited so long: 1 % of that is more than the whole lease.
                clock.advance(3000.0)
                return {**answer, "expires_after_send_ms": 3_010_000}

            client.acquire = late  # type: ignore[method-assign]
            async with client.lock(name, ttl=10, wait=6000) as lease:
                # By what the server says, which may be a little more than what it was asked for.
                assert clock.now() + 9.9 <= lease.end < clock.now() + 20

    asyncio.run(main())


def test_a_lease_that_ended_is_not_released(client: Client, name: str) -> None:
    lease = client.lock(name).acquire()
    client.revoke(name, "a test")
    with pytest.raises(NotReleased):
        lease.release()


def test_work_under_a_lock_that_was_taken_away_is_told(client: Client, name: str) -> None:
    with pytest.raises(NotReleased), client.lock(name):
        client.revoke(name, "a test")


def test_a_wait_is_granted_in_turn_or_times_out(client: Client, name: str) -> None:
    first = client.lock(name).acquire()
    with pytest.raises(WaitTimeout):
        client.lock(name, wait=0.1).acquire()
    tokens: List[int] = []
    waiting = threading.Thread(target=lambda: tokens.append(client.lock(name, wait=20).run(lambda x: x.fencing_token)))
    waiting.start()
    until(lambda: client.look(name).get("n_waiting") == 1, "it waits")
    first.release()
    waiting.join(180)
    assert tokens == [first.fencing_token + 1]


def test_whoever_comes_back_gets_it_too(client: Client, name: str) -> None:
    lease = client.lock(name).acquire()
    threading.Timer(0.2, lease.release).start()
    with client.lock(name, wait=20).acquire_with_retry() as second:
        assert second.fencing_token > lease.fencing_token
    assert "queued" not in kinds(client, name)


def test_shared_and_counted(client: Client, name: str) -> None:
    with client.lock(name, shared=True), client.lock(name, shared=True), pytest.raises(NotAcquired):
        client.lock(name).acquire()
    pool = name + "/pool"
    with client.lock(pool, limit=2), client.lock(pool, limit=2), pytest.raises(NotAcquired):
        client.lock(pool, limit=2).acquire()
    with pytest.raises(Invalid):
        client.lock(name, shared=True, limit=2).acquire()


def test_several_locks_or_none(client: Client, name: str) -> None:
    a, b, c = (f"{name}/{letter}" for letter in "abc")
    with client.lock(b):
        with pytest.raises(NotAcquired) as refused:
            client.locks(a, b).acquire()
        assert refused.value.lock == b
        assert not client.look(a)["held"]
    with client.locks(a, shared(b), counted(c, 3), ttl=50) as leases:
        assert leases.names == (a, b, c)
        assert set(leases.fencing_tokens) == {a, b, c}
        (holder,) = client.look(a).get("holders") or []
        assert 20_000 < (holder["expires_in_ms"] or 0) <= 50_000
        with client.lock(b, shared=True):
            pass
    assert [client.look(lock)["held"] for lock in (a, b, c)] == [False] * 3
    with pytest.raises(Invalid):
        client.locks().acquire()


def test_several_locks_are_renewed_together(client: Client, name: str) -> None:
    with client.locks(name + "/a", name + "/b", ttl=6) as leases:
        end = leases.end
        until(lambda: leases.end > end + 2.5, "it is renewed more than once")
        leases.check()


def test_a_lock_can_be_left_held(client: Client, name: str) -> None:
    lease = client.lock(name, ttl=9).acquire()
    lease.leave_for(60)
    assert not lease.held
    (holder,) = client.look(name).get("holders") or []
    assert (holder["expires_in_ms"] or 0) > 50_000
    client.revoke(name, "a test")


def test_a_dropped_lease_is_given_back(client: Client, name: str) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        client.lock(name).acquire()
        gc.collect()
        until(lambda: not client.look(name)["held"], "it is given back")
    assert [str(warning.message) for warning in said if "dropped" in str(warning.message)] != []


def test_a_lease_that_went_with_its_session_is_not_given_back_again(client: Client, proxy: Proxy, name: str) -> None:
    with warnings.catch_warnings(record=True) as said, Client(proxy.url) as other:
        warnings.simplefilter("always")
        with other.session(ttl=30) as session:
            leases = [session.lock(f"{name}/{n}").acquire() for n in range(3)]
        leases.clear()
        gc.collect()
        left = [other.session(ttl=30).open()]
        left += [left[0].lock(name).acquire()]  # type: ignore[list-item]
    assert proxy.said("/release") == [], "closing the client closed the session, and that is enough"
    assert not client.look(name)["held"]
    assert [str(warning.message) for warning in said if "dropped" in str(warning.message)] == []


def test_a_lease_outlives_its_client_and_the_thread_ends_with_the_last_of_them(
    shared_server: Server, client: Client, name: str
) -> None:
    def threads() -> List[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name == "leasehold"]

    before = threads()
    held = [Client(shared_server.url).lock(name, ttl=6).acquire()]
    gc.collect()
    end = held[0].end
    until(lambda: held[0].end > end, "it is renewed")
    (mine,) = set(threads()) - set(before)
    held.pop().release()
    gc.collect()
    mine.join(180)
    assert not mine.is_alive()
    assert not client.look(name)["held"]


def test_what_is_held_when_the_interpreter_ends_is_given_back(shared_server: Server, client: Client, name: str) -> None:
    code = "import leasehold, sys\nlease = leasehold.Client(sys.argv[1]).lock(sys.argv[2]).acquire()\n"
    subprocess.run([sys.executable, "-c", code, shared_server.url, name], check=True, timeout=300, env=environment())
    assert kinds(client, name) == ["granted", "released"]


def environment() -> Dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def test_a_closed_client_gives_back_what_it_has(shared_server: Server, client: Client, name: str) -> None:
    other = Client(shared_server.url)
    lease = other.lock(name).acquire()
    other.close()
    assert not client.look(name)["held"]
    assert not lease.held


def test_a_lease_is_no_letter_to_another_process(client: Client, name: str) -> None:
    with client.lock(name) as lease, pytest.raises(TypeError, match="another process"):
        pickle.dumps(lease)


def test_what_makes_no_sense_is_not_sent(client: Client, name: str) -> None:
    deep: List[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for settings in (
        {"ttl": 0},
        {"ttl": 1, "margin": 0.6},
        {"wait": -1},
        {"ttl": math.nan},
        {"ttl": math.inf},
        {"metadata": {1, 2}},
        {"metadata": deep},
        {"metadata": "x" * (1 << 20)},
        {"metadata": "\ud800"},
        {"owner": "\ud800"},
    ):
        with pytest.raises(Invalid):
            client.lock(name, **settings).acquire()
    for odd in ("", "\ud800"):
        with pytest.raises(Invalid):
            client.lock(odd).acquire()


def test_names_and_namespaces_arrive_as_they_are(shared_server: Server) -> None:
    with Client(shared_server.url, namespace="größe/1") as client:
        for name in ("a/b c", "ü%2F?#", "..", "."):
            with client.lock(name) as lease:
                assert lease.name == name
                assert client.check_fence(name, lease.fencing_token)["accepted"]
        assert {lock["lock_name"] for lock in client.list()["locks"]} == {"a/b c", "ü%2F?#", "..", "."}


def test_which_of_several_leases_of_one_lock_is_over_is_told(shared_server: Server, name: str) -> None:
    async def main() -> None:
        async with AsyncClient(shared_server.url, owner="ann") as client:
            kept, lost = [await client.lock(name, limit=2).acquire() for _ in range(2)]
            leases: List[wire.HeldLease] = [
                {"lock_name": name, "lease_id": lease.lease_id, "fencing_token": lease.fencing_token}
                for lease in (kept, lost)
            ]
            await lost.release()
            with pytest.raises(NotRenewed) as refused:
                await client.renew_all({"owner_id": "ann", "extend_by_ms": 1000, "leases": leases})
            assert (refused.value.lock, refused.value.lease_id) == (name, lost.lease_id)
            assert lost.lease_id not in str(refused.value) + repr(refused.value)
            await kept.release()

    asyncio.run(main())


def test_an_admin_revokes_all_that_an_owner_has(shared_server: Server, client: Client, name: str) -> None:
    with Client(shared_server.url, owner=name) as other:
        lease = other.lock(name, ttl=9).acquire()
        asked: wire.RevokeAllRequest = {"owner": name, "reason": "test", "dry_run": True}
        assert client.revoke_all(asked)["n_revoked"] == 1
        assert lease.held
        revoked = client.revoke_all({"owner": name, "reason": "test"})
        assert [(one["lock_name"], one["fencing_token"]) for one in revoked["revoked"]] == [(name, 1)]
        assert lease.lost.wait(180)
        client.ready()


def test_what_a_closed_loop_held_is_given_back_in_another(shared_server: Server, client: Client, name: str) -> None:
    asyncs = AsyncClient(shared_server.url)

    async def acquire(lock: str) -> AsyncLease:
        return await asyncs.lock(lock, ttl=30, watched=True).acquire()

    lease = asyncio.run(acquire(name))
    assert lease.held, "until its deadline"
    asyncio.run(lease.release())
    assert not client.look(name)["held"]
    lease = asyncio.run(acquire(name))
    asyncio.run(asyncs.close())
    assert not client.look(name)["held"]
    assert not lease.held
