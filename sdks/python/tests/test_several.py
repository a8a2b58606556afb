"""Several locks as one: what became of each is told."""

from __future__ import annotations

import pytest

from leasehold import Broken, Client, LeaseLost, NotReleased, Retry

from .proxy import Proxy


def test_one_of_several_that_was_taken_away_is_told_at_the_end(client: Client, name: str) -> None:
    a, b = name + "/a", name + "/b"
    with pytest.raises(NotReleased, match=b.replace("[", r"\[")) as refused, client.locks(a, b):
        client.revoke(b, "a test")
        other = client.lock(b).acquire()
    assert (refused.value.locks, refused.value.reason) == ((b,), "NOT_OWNER")
    assert not client.look(a)["held"], "the others are released"
    assert client.look(b)["held"], "and nothing of somebody else's"
    other.release()


def test_a_release_after_the_loss_was_noticed_tells_it_too(client: Client, name: str) -> None:
    a, b = name + "/a", name + "/b"
    leases = client.locks(a, b, ttl=9).acquire()
    client.revoke(b, "a test")
    assert leases.lost.wait(180)
    with pytest.raises(NotReleased) as refused:
        leases.release()
    assert refused.value.locks == (b,)
    with pytest.raises(LeaseLost), client.locks(a, b, ttl=9) as leases:
        client.revoke(b, "a test")
        assert leases.lost.wait(180)


def test_a_release_of_several_that_is_repeated_is_one(
    client: Client, proxy: Proxy, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Retry, "pause", lambda *_: 0.0)
    a, b = name + "/a", name + "/b"
    with Client(proxy.url) as other:
        leases = other.locks(a, b).acquire()
        proxy.cut_answers(1)
        leases.release()
        assert len(proxy.said("/release")) == 2, "the first was served, and its answer lost"
        leases = other.locks(a, b).acquire()
        proxy.cut_answers(8)
        with pytest.raises(Broken):
            leases.release()
        leases.release()
    assert [client.look(lock)["held"] for lock in (a, b)] == [False, False]


def test_what_was_taken_away_is_told_also_by_a_release_that_was_not_served(
    client: Client, proxy: Proxy, name: str
) -> None:
    a, b = name + "/a", name + "/b"
    with Client(proxy.url, timeout=1) as other:
        leases = other.locks(a, b).acquire()
        client.revoke(b, "a test")
        proxy.hush()
        with pytest.raises(NotReleased) as refused:
            leases.release()
        assert len(proxy.said("/release")) > 1
    assert refused.value.locks == (b,)
