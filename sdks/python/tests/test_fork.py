"""A forked child has none of its parent's leases, and touches none."""

from __future__ import annotations

import os
from typing import Callable

import pytest

from leasehold import Client, LeaseLost, Lost

from .server import until

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


def in_child(work: Callable[[], None]) -> None:
    """Do the work in a forked child, and fail if that fails."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    ended: list[int] = []

    def has_ended() -> bool:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            ended.append(os.waitstatus_to_exitcode(status))
        return bool(ended)

    try:
        until(has_ended, "the child ends")
    except AssertionError:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        raise
    assert ended == [0]


def test_a_child_has_no_lease_and_releases_none(client: Client, name: str) -> None:
    def child() -> None:
        assert (lease.held, lease.lost.is_set(), lease.lost.reason) == (False, True, Lost.FORKED)
        for call in (lease.check, lease.release):
            with pytest.raises(LeaseLost) as lost:
                call()
            assert lost.value.reason is Lost.FORKED
        # The way out of the parent's `with`.
        lease.__exit__(None, None, None)

    with client.lock(name, ttl=9) as lease:
        in_child(child)
        lease.check()
        end = lease.end
        until(lambda: lease.end > end, "the parent goes on renewing")
    kinds = [event["kind"] for event in client.history(name)["events"]]
    assert kinds == ["released", "granted"], "once, by the parent"


def test_a_child_that_ends_as_programs_do_releases_nothing(client: Client, name: str) -> None:
    def child() -> None:
        import atexit
        import gc

        del held[:]
        gc.collect()
        atexit._run_exitfuncs()

    held = [client.lock(name).acquire()]
    in_child(child)
    assert client.look(name)["held"]
    held.pop().release()


def test_a_child_may_use_its_parent_s_client_as_another_owner(client: Client, name: str) -> None:
    parent = client.owner
    client.look(name)

    def child() -> None:
        assert client.owner != parent
        with client.lock(name + "/child", ttl=30) as lease:
            assert lease.owner == client.owner
            assert lease.held

    in_child(child)
    events = client.history(name + "/child")["events"]
    assert [event["kind"] for event in events] == ["released", "granted"]
    assert events[0]["owner_id"] != parent
    assert client.owner == parent
    client.look(name)


def test_a_session_stays_with_the_parent(client: Client, name: str) -> None:
    def child() -> None:
        with pytest.raises(LeaseLost) as lost:
            session.lock(name)
        assert lost.value.reason is Lost.FORKED
        session.__exit__(None, None, None)

    with client.session(ttl=30) as session, session.lock(name) as lease:
        in_child(child)
        assert lease.held
        assert client.look(name)["held"]
