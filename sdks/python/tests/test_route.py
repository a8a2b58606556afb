"""From URL to URL, as long as it is certain that nothing was done."""

from __future__ import annotations

from typing import Any, List, Optional

import pytest

from leasehold import Client, Invalid, Retry, Unreachable
from leasehold.route import Routes, Trip

from .answers import Answer, Answers

A, B, C = "http://a", "http://b", "http://c"


def routes(*urls: str, direct: bool = True, follow_any_leader: bool = False) -> Routes:
    return Routes(urls, direct=direct, follow_any_leader=follow_any_leader)


def state(trip: Trip) -> tuple[str, bool]:
    return trip.url, trip.direct


def test_every_url_is_tried_once_if_none_is_there() -> None:
    known = routes(A, B, C)
    known.begin().failed()
    trip = known.begin()
    seen = [trip.url]
    while trip.go_on():
        seen.append(trip.url)
    assert seen == [B, C, A]


def test_those_that_fail_together_move_on_by_one() -> None:
    known = routes(A, B, C)
    for trip in [known.begin(), known.begin(), known.begin()]:
        trip.failed()
    assert known.begin().url == B


def test_a_leader_is_followed_to_where_it_was_given() -> None:
    known = routes(A, B, C)
    trip = known.begin()
    assert trip.go_on_from_follower(C + "/")
    assert state(trip) == (C, True)
    trip.was_answered()
    assert known.begin().url == C


@pytest.mark.parametrize("leader", ["http://evil", "unix:/run/a.sock", "b", "https://a", "http://a/other", "", None])
def test_a_leader_that_was_not_given_is_left_to_those_that_know_it(leader: Optional[str]) -> None:
    known = routes(A, B)
    trip = known.begin()
    assert trip.go_on_from_follower(leader)
    assert state(trip) == (B, True)
    assert trip.go_on_from_follower(leader)
    assert state(trip) == (B, False), "it passes it on"
    trip.was_answered()
    assert state(known.begin()) == (B, False), "and so for a while"
    assert not trip.go_on_from_follower(leader)


def test_a_leader_that_is_gone_is_not_asked_twice() -> None:
    trip = routes(A, B).begin()
    assert trip.go_on()
    assert trip.go_on_from_follower(A)
    assert state(trip) == (B, False)
    assert not trip.go_on()


def test_any_leader_is_followed_if_that_is_meant_and_never_to_less_safety() -> None:
    known = routes(A, follow_any_leader=True)
    trip = known.begin()
    assert trip.go_on_from_follower("http://n7:81/")
    assert trip.url == "http://n7:81"
    trip.was_answered()
    trip = known.begin()
    assert trip.url == "http://n7:81"
    assert trip.go_on()
    assert trip.url == A, "back to what was given"
    trip = routes("https://a", "https://b", follow_any_leader=True).begin()
    assert trip.go_on_from_follower("http://c")
    assert trip.url == "https://b"


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("", "a URL is empty"),
        ("http://a,", "a URL is empty"),
        ("http://a,,http://b", "a URL is empty"),
        ("http://a,http://A:80/", "is given twice"),
        (["http://a", "http://a"], "is given twice"),
        ("unix:/a,unix:///a", "is given twice"),
        ("http://a,b", "must begin with"),
        ([], "no URL"),
    ],
)
def test_a_list_that_makes_no_sense_is_refused(url: Any, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        Client(url)


def test_any_leader_is_not_followed_with_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Client(A, follow_any_leader=True)
    with pytest.raises(Invalid, match="only to servers whose URLs are given"):
        Client(A, follow_any_leader=True, api_key="lh_a", insecure=True)
    monkeypatch.setenv("LEASEHOLD_CLIENT_CERT_FILE", "a.pem")
    with pytest.raises(Invalid, match="only to servers whose URLs are given"):
        Client(A, follow_any_leader=True)


def test_a_follower_is_asked_who_leads_and_then_to_pass_it_on() -> None:
    asked: List[Optional[str]] = []

    def follow(_: str) -> Answer:
        direct = follower.headers[-1].get("Leasehold-Direct")
        asked.append(direct)
        no = {"error": "no", "code": "NOT_LEADER", "retryable": True, "may_have_taken_effect": False}
        return (421, {}, no) if direct else (200, {}, {"revoked": []})

    follower = Answers(follow)
    try:
        for url, direct, expected in (
            (f"{follower.url},http://127.0.0.1:1", None, ["1", None]),
            (follower.url, None, [None]),
            (follower.url, True, ["1", None]),
            (f"{follower.url},http://127.0.0.1:1", False, [None]),
        ):
            asked.clear()
            with Client(url, direct=direct) as client:
                assert client.revoke("a", "test")["revoked"] == []
            assert asked == expected
    finally:
        follower.stop()


def test_all_that_cannot_be_reached_are_named() -> None:
    with Client("http://127.0.0.1:1,http://127.0.0.1:2") as client, pytest.raises(Unreachable) as refused:
        client.look("a")
    assert all(f"http://127.0.0.1:{port}" in str(refused.value) for port in (1, 2))
    assert str(refused.value).count("Is the server running?") == 1
    assert not refused.value.may_have_taken_effect


def test_what_one_may_have_done_stays_in_doubt_when_the_other_cannot_be_reached() -> None:
    def vanish(_: str) -> Answer:
        first.stop()
        raise ConnectionAbortedError

    first = Answers(vanish)
    with (
        Client([first.url, "http://127.0.0.1:1"]) as client,
        pytest.raises(Unreachable) as refused,
    ):
        client.lock("a", retry=Retry(attempts_max=3, pause_min=0.001)).acquire()
    assert refused.value.may_have_taken_effect
    with Client("http://127.0.0.1:1") as client, pytest.raises(Unreachable) as refused:
        client.lock("a", retry=Retry(attempts_max=2, pause_min=0.001)).acquire()
    assert not refused.value.may_have_taken_effect
