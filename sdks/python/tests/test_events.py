"""Events and elections of a real server."""

from __future__ import annotations

import asyncio
from typing import List, Tuple

import pytest

from leasehold import AsyncClient, Broken, Client, Current, Event, Gap, Stale, wire
from leasehold.sse import LINE_BYTES_MAX, Parser

from .answers import Answers
from .proxy import Proxy
from .server import Server, until


def test_what_happens_is_told_in_order(client: Client, name: str) -> None:
    with client.watch(name) as events:
        with client.lock(name) as lease:
            pass
        told = [events.next(180), events.next(180)]
    seen = [(said.kind, said.lock_name, said.fencing_token) for said in told if isinstance(said, Event)]
    assert seen == [("granted", name, lease.fencing_token), ("released", name, lease.fencing_token)]
    first = told[0]
    assert isinstance(first, Event)
    again = client.watch(name, since=first.id).next(180)
    assert again == told[1], "an id is where to go on"


def test_a_stream_goes_on_over_crashes_and_misses_nothing(server: Server, name: str) -> None:
    proxy = Proxy(server.port)
    with Client(server.url) as client, Client(proxy.url) as watcher:
        events = watcher.watch(name)
        events.connect()
        told: List[Tuple[str, int]] = []
        for n in range(1, 5):
            client.lock(name).acquire().release()
            for _ in range(2):
                said = events.next(20)
                assert isinstance(said, Event), said
                told.append((said.kind, said.fencing_token))
            if n == 2:
                server.kill()
                server.start()
            else:
                proxy.cut()
        assert told == [(kind, n) for n in range(1, 5) for kind in ("granted", "released")]
    proxy.stop()


def test_what_may_be_missing_is_told(client: Client, proxy: Proxy, name: str) -> None:
    with Client(proxy.url) as other, other.watch(name) as events:
        proxy.cut()
        assert isinstance(events.next(20), Gap), "nothing had come that could be gone on from"
        stale = client.watch(name, since="0-1-0").next(20)
        assert isinstance(stale, Gap), "the server does not know that id"


def test_whoever_gives_up_waiting_for_an_event_misses_nothing(client: Client, name: str) -> None:
    with client.watch(name) as events:
        with pytest.raises(asyncio.TimeoutError):
            events.next(0.05)
        with client.lock(name):
            said = events.next(180)
        assert isinstance(said, Event)
        assert said.kind == "granted"


def test_that_events_can_be_late_is_told_and_that_they_no_longer_are() -> None:
    stream = b'event: stale\ndata: {"reason":"cut off"}\n\nevent: current\ndata: {"reason":"back"}\n\n'
    answers = Answers(lambda _: (200, {"Content-Type": "text/event-stream"}, stream))
    with Client(answers.url) as client, client.watch("") as events:
        assert events.next(180) == Stale("cut off")
        assert events.next(180) == Current("back")
    answers.stop()


def test_a_message_may_come_in_any_pieces() -> None:
    text = b": hello\n\nid: 1-2\r\nevent: granted\r\ndata: {}\r\n\r\ndata:x\nid:3\n\n"
    for n in range(1, len(text)):
        parser = Parser()
        said = [m for at in range(0, len(text), n) for m in parser.push(text[at : at + n])]
        assert [(m.event, m.id, m.data) for m in said] == [("granted", "1-2", "{}"), ("", "3", "x")], n


def test_a_line_without_an_end_is_not_kept_for_ever() -> None:
    with pytest.raises(Broken):
        Parser().push(b"x" * (LINE_BYTES_MAX + 1))


def test_an_event_without_an_end_is_not_kept_for_ever() -> None:
    parser, piece = Parser(), b"data: " + b"x" * (1 << 16) + b"\n"
    for _ in range(16):
        parser.push(piece)
    with pytest.raises(Broken):
        parser.push(piece)


def test_one_leads_and_the_next_one_after_it(client: Client, name: str) -> None:
    election = client.election(name, ttl=5)
    assert election.leader() is None
    with election.observe() as leaders:
        assert leaders.next(180) is None
        with election.campaign({"address": "10.0.0.7"}) as term:
            leader = leaders.next(180)
            assert leader is not None
            assert (leader.owner, leader.value) == (client.owner, {"address": "10.0.0.7"})
            assert leader.fencing_token == term.fencing_token
        assert leaders.next(180) is None
        with election.campaign("second") as second:
            assert second.fencing_token > term.fencing_token
            assert leaders.next(180) == election.leader()


def test_an_observer_that_could_not_look_looks_again(shared_server: Server, client: Client, name: str) -> None:
    async def main() -> None:
        async with AsyncClient(shared_server.url) as other, other.election(name).observe() as leaders:
            assert await leaders.next() is None
            look = other.look

            async def broken(lock: str) -> wire.LockState:
                other.look = look  # type: ignore[method-assign]
                raise Broken("cut")

            other.look = broken  # type: ignore[method-assign]
            with client.election(name).campaign("first") as term:
                with pytest.raises(Broken):
                    await leaders.next()
                leader = await leaders.next()
                assert leader is not None
                assert leader.fencing_token == term.fencing_token

    asyncio.run(asyncio.wait_for(main(), 180))


def test_a_candidate_waits_for_the_leader_to_resign(shared_server: Server, client: Client, name: str) -> None:
    async def main() -> None:
        async with AsyncClient(shared_server.url) as other:
            term = await other.election(name).campaign("first").acquire()
            candidate = asyncio.ensure_future(other.election(name).campaign("second").acquire())
            while (await other.look(name)).get("n_waiting") != 1:
                await asyncio.sleep(0.01)
            await term.release()
            second = await candidate
            leader = await other.election(name).leader()
            assert leader is not None
            assert (leader.value, leader.fencing_token) == ("second", second.fencing_token)
            await second.release()

    asyncio.run(asyncio.wait_for(main(), 180))
    until(lambda: not client.look(name)["held"], "it is free")
