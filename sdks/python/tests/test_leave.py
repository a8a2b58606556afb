"""Leaving a lock held, and what is left behind when a lease is lost."""

from __future__ import annotations

import gc
import logging
import math
from typing import Any

import pytest

from leasehold import Client, Failed, Invalid, LeaseLost

from .proxy import Proxy
from .server import until


@pytest.mark.parametrize("seconds", [0, -1, math.nan, math.inf, "5", None, True])
def test_a_time_that_is_none_is_refused_before_anything_changes(client: Client, name: str, seconds: Any) -> None:
    with client.lock(name) as lease, pytest.raises(Invalid):
        lease.leave_for(seconds)
    assert not client.look(name)["held"], "released as any other"
    with client.locks(name, name + "/b") as leases:
        with pytest.raises(Invalid):
            leases.leave_for(seconds)
        leases.check()


def test_a_lease_that_the_server_will_not_leave_for_so_long_goes_on(client: Client, proxy: Proxy, name: str) -> None:
    with Client(proxy.url) as other, other.lock(name, ttl=6) as lease:
        with pytest.raises(Failed, match="extend_by_ms"):
            lease.leave_for(25 * 3600)
        n_renewals = len(proxy.said("/renew"))
        until(lambda: len(proxy.said("/renew")) > n_renewals, "it is renewed as before")
        lease.check()
    assert not client.look(name)["held"]


def test_what_is_left_is_held_and_not_renewed(client: Client, proxy: Proxy, name: str) -> None:
    with Client(proxy.url) as other:
        with other.lock(name, ttl=6) as lease:
            lease.leave_for(600)
            assert not lease.held
            n_renewals = len(proxy.said("/renew"))
            client.lock(name + "/pause", ttl=6).acquire().lost.wait(2.5)
        assert len(proxy.said("/renew")) == n_renewals
        assert proxy.said("/release") == []
    assert client.look(name)["held"]


def test_an_ordinary_loss_leaves_no_task_that_nobody_asked(
    proxy: Proxy, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "asyncio"), Client(proxy.url, timeout=1) as client:
        with pytest.raises(LeaseLost), client.lock(name, ttl=3) as lease:
            proxy.swallow()
            assert lease.lost.wait(180)
        end = lease._inner._end
        assert end is not None
        proxy.heal()
        while not end.done():
            lease.lost.wait(0)
        del end, lease
        gc.collect()
    gc.collect()
    assert "never retrieved" not in caplog.text
