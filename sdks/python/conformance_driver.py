"""Does what the conformance harness tells it: see sdks/conformance/PROTOCOL.md.

It uses `AsyncClient`; with `--sync`, the blocking `Client`, each call on a thread of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any, Callable, Dict, List

sys.path.insert(0, str(Path(__file__).resolve().parent / "src"))

import httpx

import leasehold
from leasehold import errors

Fields = Dict[str, Any]

NAMES = {
    errors.WaitTimeout: "wait_timeout",
    errors.NotAcquired: "held",
    errors.NotReleased: "not_released",
    errors.LeaseLost: "lost",
    errors.Cancelled: "cancelled",
    errors.SessionOver: "session_over",
    errors.Unreachable: "unreachable",
    errors.Broken: "broken",
    errors.Failed: "failed",
    errors.Foreign: "failed",
    errors.Invalid: "invalid",
}


class UnsupportedError(Exception):
    """This driver does not know that command, or its SDK cannot do it."""


class Driver:
    """Everything the harness has named, by its name."""

    def __init__(self, *, is_sync: bool) -> None:
        self._is_sync = is_sync
        self._clients: Dict[str, Any] = {}
        self._leases: Dict[str, Any] = {}
        self._sessions: Dict[str, Any] = {}
        self._commands: Dict[int, asyncio.Task[None]] = {}
        self._requests: Dict[int, Any] = {}
        self._watchers: List[asyncio.Task[None]] = []
        self._stdout = threading.Lock()

    def tell(self, message: Fields) -> None:
        """Write one line."""
        with self._stdout:
            sys.stdout.write(json.dumps(message) + "\n")
            sys.stdout.flush()

    def start(self, line: str) -> None:
        """Begin a command; the next one does not wait for it."""
        command = json.loads(line)
        if command["do"] == "exit":
            os._exit(0)
        self._commands[command["id"]] = asyncio.ensure_future(self.answer(command))

    async def answer(self, command: Fields) -> None:
        """Do a command and say what became of it."""
        try:
            handler = getattr(self, "do_" + command["do"], None)
            if handler is None:
                raise UnsupportedError(f"unknown command {command['do']}")
            self.tell({"id": command["id"], "ok": await handler(command)})
        except asyncio.CancelledError:
            self.tell({"id": command["id"], "error": {"name": "cancelled", "message": "cancelled"}})
        except Exception as error:
            self.tell({"id": command["id"], "error": described(error)})

    async def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call what is a coroutine function of `AsyncClient` and blocks in `Client`."""
        if not self._is_sync:
            return await function(*args)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()

        def run() -> None:
            try:
                result = function(*args)
                loop.call_soon_threadsafe(future.set_result, result)
            except BaseException as error:
                loop.call_soon_threadsafe(future.set_exception, error)

        threading.Thread(target=run, daemon=True).start()
        return await future

    def on_lost(self, **what: str) -> Callable[[leasehold.Lost], None]:
        """Return a callback that tells of a loss."""
        return lambda why: self.tell({"event": "lost", **what, "reason": why.value})

    async def do_hello(self, command: Fields) -> Fields:
        """Say what this is."""
        return {"sdk": "python", "version": leasehold.__version__, "protocol": 1}

    async def do_connect(self, command: Fields) -> Fields:
        """Make a client."""
        kind: Any = leasehold.Client if self._is_sync else leasehold.AsyncClient
        given: Fields = {name: command[name] for name in ("owner", "namespace", "api_key") if name in command}
        if "timeout_ms" in command:
            given["timeout"] = command["timeout_ms"] / 1000
        self._clients[command["client"]] = kind(command["urls"], **given)
        return {}

    async def do_acquire(self, command: Fields) -> Fields:
        """Acquire a lock, alone or in a session."""
        given: Fields = {name: command[name] for name in ("shared", "limit", "metadata") if name in command}
        given.update(seconds(command, "ttl", "wait", "margin", "grace"))
        whose = self._sessions[command["session"]] if "session" in command else self._clients[command["client"]]
        request = whose.lock(command["lock"], on_lost=self.on_lost(lease=command["lease"]), **given)
        self._requests[command["id"]] = request
        lease = self._leases[command["lease"]] = await self.call(request.acquire)
        return {"fencing_token": lease.fencing_token}

    async def do_acquire_all(self, command: Fields) -> Fields:
        """Acquire several locks."""
        wanted = [wanted_lock(lock) for lock in command["locks"]]
        given = seconds(command, "ttl", "wait", "margin")
        on_lost = self.on_lost(lease=command["lease"])
        request = self._clients[command["client"]].locks(*wanted, on_lost=on_lost, **given)
        lease = self._leases[command["lease"]] = await self.call(request.acquire)
        return {"fencing_tokens": [lease.fencing_tokens[lock["lock"]] for lock in command["locks"]]}

    async def do_check(self, command: Fields) -> Fields:
        """Say what the SDK says."""
        return {"held": self._leases[command["lease"]].held}

    async def do_release(self, command: Fields) -> Fields:
        """Release a lease."""
        await self.call(self._leases[command["lease"]].release)
        return {}

    async def do_cancel(self, command: Fields) -> Fields:
        """Cancel a command."""
        if self._is_sync:
            self._requests[command["command"]].cancel()
        else:
            self._commands[command["command"]].cancel()
        return {}

    async def do_session_open(self, command: Fields) -> Fields:
        """Open a session."""
        on_lost = self.on_lost(session=command["session"])
        request = self._clients[command["client"]].session(on_lost=on_lost, **seconds(command, "ttl", "margin"))
        self._sessions[command["session"]] = await self.call(request.open)
        return {}

    async def do_session_close(self, command: Fields) -> Fields:
        """Close a session."""
        await self.call(self._sessions[command["session"]].close)
        return {}

    async def do_write(self, command: Fields) -> Fields:
        """Write to the resource, once."""
        lease = self._leases[command["lease"]]
        if command["checked"]:
            lease.check()
        async with httpx.AsyncClient(trust_env=False) as http:
            body = {"fencing_token": lease.fencing_token, "value": command["value"]}
            return {"status": (await http.post(command["url"], json=body)).status_code}

    async def do_watch(self, command: Fields) -> Fields:
        """Tell of events from here on."""
        events = self._clients[command["client"]].watch(command["prefix"])
        await self.call(events.connect)
        self._watchers.append(asyncio.ensure_future(self.watch(command["watch"], events)))
        return {}

    async def watch(self, name: str, events: Any) -> None:
        """Tell of events for as long as there are any."""
        while True:
            try:
                said = await self.call(events.next)
            except leasehold.LeaseholdError as error:
                sys.stderr.write(f"watch: {error}\n")
                continue
            if isinstance(said, (leasehold.Stale, leasehold.Current)):
                continue
            if isinstance(said, leasehold.Gap):
                self.tell({"event": "gap", "watch": name, "why": said.reason})
            else:
                what = {"kind": said.kind, "lock": said.lock_name, "owner": said.owner_id, "id": said.id}
                self.tell({"event": "happened", "watch": name, "fencing_token": said.fencing_token, **what})

    async def do_campaign(self, command: Fields) -> Fields:
        """Wait to be elected."""
        election = self._clients[command["client"]].election(command["election"], **seconds(command, "ttl"))
        request = election.campaign(command["value"], on_lost=self.on_lost(lease=command["lease"]))
        lease = self._leases[command["lease"]] = await self.call(request.acquire)
        return {"fencing_token": lease.fencing_token}

    async def do_leader(self, command: Fields) -> Fields:
        """Say who leads."""
        leader = await self.call(self._clients[command["client"]].election(command["election"]).leader)
        return {"leader": None if leader is None else vars(leader)}


def seconds(command: Fields, *names: str) -> Dict[str, float]:
    """Return those of the times that are given."""
    return {name: command[name + "_ms"] / 1000 for name in names if name + "_ms" in command}


def wanted_lock(lock: Fields) -> Any:
    """Return one of several locks as the SDK has it."""
    if lock.get("shared"):
        return leasehold.shared(lock["lock"])
    return leasehold.counted(lock["lock"], lock["limit"]) if "limit" in lock else lock["lock"]


def described(error: Exception) -> Fields:
    """Return an error as the protocol has it."""
    if isinstance(error, UnsupportedError):
        return {"name": "unsupported", "message": str(error)}
    name = next((name for kind, name in NAMES.items() if isinstance(error, kind)), "internal")
    found: Fields = {"name": name, "message": f"{type(error).__name__}: {error}"}
    for field in ("code", "reason"):
        if isinstance(getattr(error, field, None), str):
            found[field] = getattr(error, field)
    return found


async def main() -> None:
    """Read commands until there are no more."""
    loop = asyncio.get_running_loop()
    driver = Driver(is_sync="--sync" in sys.argv[1:])

    def read() -> None:
        for line in sys.stdin:
            if line.strip():
                loop.call_soon_threadsafe(driver.start, line)
        # What is held is not given back.
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
