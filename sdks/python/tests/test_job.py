"""Jobs, and the gate at the other side."""

from __future__ import annotations

import asyncio
import functools
import threading
from typing import Any, AsyncIterator, Iterator, List

import pytest

from leasehold import AsyncClient, AsyncLease, Client, FencingGate, Invalid, Lease, NotAcquired, NotReleased, StaleToken

from .server import Server


def test_a_job_runs_under_its_lock_and_gets_the_lease(client: Client, name: str) -> None:
    @client.lock(name, ttl=5).job()
    def report(lease: Lease, day: str, *, copies: int = 1) -> str:
        """Make a report."""
        assert client.look(lease.name)["held"]
        return f"{day} {copies}"

    assert report("monday", copies=2) == "monday 2"
    assert report("tuesday") == "tuesday 1", "and again"
    assert (report.__name__, report.__doc__) == ("report", "Make a report.")
    assert not client.look(name)["held"]


def test_a_job_that_runs_elsewhere_is_refused_or_skipped(client: Client, name: str) -> None:
    ran: List[int] = []
    request = client.lock(name)

    @request.job(skip_if_held=True)
    def skipped(lease: Lease) -> None:
        ran.append(lease.fencing_token)

    @request.job()
    def refused(lease: Lease) -> None:
        ran.append(lease.fencing_token)

    with client.lock(name):
        assert skipped() is None
        with pytest.raises(NotAcquired):
            refused()
        assert ran == []
    skipped()
    assert len(ran) == 1


def test_a_job_that_lost_its_lock_says_so(client: Client, name: str) -> None:
    @client.lock(name).job(skip_if_held=True)
    def late(lease: Lease) -> str:
        client.revoke(lease.name, "a test")
        return "done"

    with pytest.raises(NotReleased):
        late()


def test_a_job_may_be_a_coroutine_function(shared_server: Server, name: str) -> None:
    async def main() -> None:
        async with AsyncClient(shared_server.url) as client:

            @client.lock(name).job(skip_if_held=True)
            async def report(lease: AsyncLease, day: str) -> str:
                assert (await client.look(lease.name))["held"]
                return day

            assert await report("monday") == "monday"
            async with client.lock(name):
                assert await report("tuesday") is None

    asyncio.run(main())


async def _coroutine(lease: object) -> None: ...


def _generator(lease: object) -> Iterator[None]:
    yield


async def _stream(lease: object) -> AsyncIterator[None]:
    yield


class _Called:
    async def __call__(self, lease: object) -> None: ...


POSTPONED: List[Any] = [_coroutine, _generator, _stream, functools.partial(_coroutine), _Called()]


@pytest.mark.parametrize("work", POSTPONED)
def test_what_would_run_without_the_lock_is_refused(client: Client, name: str, work: Any) -> None:
    with pytest.raises(TypeError, match="without the lock"):
        client.lock(name).job()(work)
    with pytest.raises(TypeError, match="without the lock"):
        client.lock(name).run(work)
    assert client.history(name)["events"] == [], "it was not even acquired"


@pytest.mark.filterwarnings("error")
def test_a_function_that_returns_a_coroutine_is_refused(client: Client, name: str) -> None:
    def indirect(lease: Lease) -> object:
        return _coroutine(lease)

    with pytest.raises(TypeError, match="without the lock"):
        client.lock(name).run(indirect)
    assert not client.look(name)["held"]


def test_the_work_of_asyncio_is_a_coroutine_function(shared_server: Server, name: str) -> None:
    def report(lease: AsyncLease) -> Any:
        return 7

    async def main() -> None:
        async with AsyncClient(shared_server.url) as client:
            for generator in (_generator, _stream):
                with pytest.raises(TypeError, match="without the lock"):
                    client.lock(name).job()(generator)  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="use `async def`, or the blocking Client"):
                await client.lock(name).run(report)
            with pytest.raises(TypeError, match="use `async def`, or the blocking Client"):
                await client.lock(name).job()(report)()

    asyncio.run(main())


def test_a_request_is_entered_once_at_a_time(client: Client, name: str) -> None:
    request = client.lock(name, shared=True)
    with request, pytest.raises(RuntimeError):
        request.__enter__()
    with request as lease:
        lease.check()


def test_a_gate_refuses_what_is_stale() -> None:
    gate, file = FencingGate(), []
    gate.write("report", 7, lambda: file.append("seven"))
    gate.write("report", 8, lambda: file.append("eight"))
    with pytest.raises(StaleToken) as stale:
        gate.write("report", 7, lambda: file.append("seven, late"))
    assert (stale.value.token, stale.value.newest) == (7, 8)
    gate.write("report", 8, lambda: file.append("eight again"))
    gate.write("other", 1, lambda: file.append("another resource"))
    assert file == ["seven", "eight", "eight again", "another resource"]
    assert (gate.newest("report"), gate.newest("nothing")) == (8, None)


@pytest.mark.parametrize("token", [float("nan"), 11.0, float("inf"), "11", None, True, -1])
def test_a_gate_refuses_what_is_no_token_and_forgets_it(token: Any) -> None:
    gate, file = FencingGate(), []
    for resource in ("seen", "new"):
        if resource == "seen":
            gate.write(resource, 10, lambda: None)
        with pytest.raises(Invalid):
            gate.write(resource, token, lambda: file.append(token))
    with pytest.raises(StaleToken):
        gate.write("seen", 5, lambda: file.append(5))
    assert (file, gate.newest("seen"), gate.newest("new")) == ([], 10, None)


def test_a_gate_compares_and_writes_in_one_step() -> None:
    gate, file = FencingGate(), []
    inside, go_on = threading.Event(), threading.Event()

    def slow() -> None:
        inside.set()
        assert go_on.wait(180)
        file.append(1)

    older = threading.Thread(target=lambda: gate.write("report", 1, slow))
    older.start()
    assert inside.wait(180)
    newer = threading.Thread(target=lambda: gate.write("report", 2, lambda: file.append(2)))
    newer.start()
    assert gate.newest("report") == 1, "the newer one waits"
    go_on.set()
    older.join(180)
    newer.join(180)
    assert file == [1, 2]
