"""HTTP: one request, one answer, and what it means that there was none.

httpx's transport is used without its client: that one would follow the environment's proxies and log URLs, and the id
of a session in a URL is a secret.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
from typing import Any, AsyncIterator, Coroutine, Dict, List, Mapping, NamedTuple, Optional, Tuple, TypeVar, Union

import httpx

from .errors import Broken, Failed, Foreign, Invalid, LeaseholdError, SessionOver, Silent, Unreachable
from .failover import Failover
from .route import Routes
from .settings import Settings, unix_path
from .version import __version__

#: A page of 1000 locks, each with everything it can show, is far smaller.
ANSWER_BYTES_MAX = 64 << 20

#: The server takes 64 KiB unless it is told otherwise. Whoever sends far more is hung up on before all of it is sent,
#: and that looks like any connection that broke: it would be tried again and again.
REQUEST_BYTES_MAX = 1 << 20

T = TypeVar("T")


class Answer(NamedTuple):
    """A whole answer."""

    status: int
    headers: httpx.Headers
    body: bytes

    def failure(self) -> LeaseholdError:
        """Return what it says, if it is no 2xx."""
        said = self.json()
        if isinstance(said, dict) and isinstance(said.get("error"), str) and isinstance(said.get("code"), str):
            return SessionOver(said["error"]) if said["code"] == "NO_SUCH_SESSION" else Failed(self.status, said)
        return Foreign(self.status, self.body)

    def json(self) -> Any:
        """Return the JSON of the body; `None` if it is none."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None


class Stream:
    """An answer that has no end."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self._chunks = response.aiter_raw()
        self._next: Optional[asyncio.Task[bytes]] = None
        self._loop = asyncio.get_running_loop()

    async def chunk(self, silence_max: float) -> bytes:
        """Return what comes next, within so many seconds. Whoever is cancelled loses nothing."""
        if self._next is None:
            self._next = asyncio.ensure_future(_chunk(self._chunks))
        await asyncio.wait({self._next}, timeout=silence_max)
        if not self._next.done():
            raise Broken(f"the server said nothing for {silence_max:g} s")
        done, self._next = self._next, None
        return done.result()

    def __del__(self) -> None:
        # Nobody waits for what comes next any more.
        if self._next is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._next.cancel)

    async def close(self) -> None:
        """End it."""
        if self._next is not None:
            self._next.cancel()
            await asyncio.wait({self._next})
        await self._response.aclose()


async def _chunk(chunks: AsyncIterator[bytes]) -> bytes:
    try:
        return await chunks.__anext__()
    except StopAsyncIteration:
        raise Broken("the server ended the stream") from None
    except httpx.HTTPError as error:
        raise Broken(f"the stream broke: {_words(error)}") from None


class Transport:
    """Connections to one of several servers: the one that worked last. They belong to the running loop."""

    def __init__(self, settings: Settings) -> None:
        direct, follow = settings.direct, settings.follow_any_leader
        self._routes = Routes(settings.urls, direct=direct, follow_any_leader=follow)
        #: What the servers say of leader changes.
        self.failover = Failover()
        self._timeout = settings.timeout
        self._connect_timeout = settings.connect_timeout
        self._headers = {"User-Agent": f"leasehold-python/{__version__}"}
        if settings.api_key is not None:
            self._headers["Authorization"] = f"Bearer {settings.api_key.reveal()}"
        # A Unix socket has connections of its own; all others share theirs.
        paths = {path for path in map(unix_path, settings.urls) if path is not None}
        self._http: Dict[Optional[str], httpx.AsyncHTTPTransport] = {
            path: httpx.AsyncHTTPTransport(
                # Without TLS settings there is no https URL, and nothing to verify.
                verify=settings.tls if settings.tls is not None else False,
                trust_env=False,
                # Whoever waits in a queue has a connection of its own, and renewals must not wait for one. Few are kept
                # idle: each of them is looked at with every request.
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=4, keepalive_expiry=60),
                uds=path,
                socket_options=_keepalive() if path is None else None,
            )
            for path in (None, *paths)
        }

    async def call(
        self,
        method: str,
        path: str,
        body: Optional[Mapping[str, Any]] = None,
        *,
        longer: float = 0.0,
        patience: Optional[float] = None,
        late_is_silent: bool = True,
    ) -> Answer:
        """Send `body` and return the whole answer, within the usual time or `patience`, and `longer`.

        `late_is_silent`: one that has not answered by then is not asked first from then on.
        """
        within = (patience or self._timeout) + longer
        response = await self._ask(method, path, body, {}, within, whole=True, late_is_silent=late_is_silent)
        assert isinstance(response, Answer)
        return response

    async def stream(
        self,
        method: str,
        path: str,
        body: Optional[Mapping[str, Any]] = None,
        *,
        last_event_id: Optional[str] = None,
    ) -> Stream:
        """Ask for a stream of events that has no end."""
        headers = {"Accept": "text/event-stream"}
        if last_event_id is not None:
            if not (last_event_id.isascii() and last_event_id.isprintable()):
                raise Invalid("the id of the last event cannot be sent in a header")
            headers["Last-Event-ID"] = last_event_id
        response = await self._ask(method, path, body, headers, self._timeout, whole=False)
        if isinstance(response, Stream):
            return response
        raise response.failure()

    async def sound(self) -> None:
        """Find out whether the server to be asked is there at all. If not, the next one is asked from then on."""
        if self._routes.are_several:
            with contextlib.suppress(LeaseholdError):
                await self.call("GET", "/livez")

    async def close(self) -> None:
        """Close every connection."""
        for http in self._http.values():
            await http.aclose()

    async def _ask(
        self,
        method: str,
        path: str,
        body: Optional[Mapping[str, Any]],
        headers: Dict[str, str],
        patience: float,
        *,
        whole: bool,
        late_is_silent: bool = True,
    ) -> Union[Answer, Stream]:
        """Ask one URL after the other, as long as it is certain that nothing was done.

        That is if no connection came about, or the server says that another one leads. Anything else is the answer; the
        next request may go elsewhere then.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + patience
        trip = self._routes.begin()
        in_vain: List[Unreachable] = []
        while True:
            # Every server tells of events, and may do so itself: nobody is asked who leads.
            direct = {"Leasehold-Direct": "1"} if trip.direct and whole else {}
            request = self._request(trip.url, method, path, body, {**headers, **direct})
            left = max(until - loop.time(), 0.001)
            request.extensions["timeout"] = {"connect": min(self._connect_timeout, left)}
            try:
                answer = await within(left, self._send(trip.url, request, whole=whole))
            except asyncio.TimeoutError:
                if late_is_silent:
                    trip.failed()
                raise Silent(f"no answer of {trip.url} within {patience:g} s") from None
            except Unreachable as error:
                in_vain.append(error)
                if not trip.go_on():
                    raise _none_reached(in_vain) from None
                continue
            except Broken:
                trip.failed()
                raise
            if isinstance(answer, Answer):
                self.failover.learn(answer.headers)
            if isinstance(answer, Answer) and _is_not_leader(answer):
                if trip.go_on_from_follower(answer.headers.get("Leasehold-Leader")):
                    continue
            elif isinstance(answer, Answer) and answer.status in (502, 503, 504):
                # So says a gateway whose server is not there; another one's may be.
                trip.failed()
            else:
                trip.was_answered()
            return answer

    def _request(
        self, url: str, method: str, path: str, body: Optional[Mapping[str, Any]], headers: Dict[str, str]
    ) -> httpx.Request:
        headers = {**self._headers, **headers}
        content = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            try:
                # Also what is no valid Unicode is noticed here, not by the server.
                content = json.dumps(body, allow_nan=False, ensure_ascii=False).encode()
            except (TypeError, ValueError, RecursionError) as error:
                raise Invalid(f"this cannot be sent as JSON: {error}") from None
            if len(content) > REQUEST_BYTES_MAX:
                raise Invalid(f"a request of {len(content)} bytes is too large: at most {REQUEST_BYTES_MAX} are sent")
        where = url if unix_path(url) is None else "http://localhost"
        return httpx.Request(method, where + path, headers=headers, content=content)

    async def _send(self, url: str, request: httpx.Request, *, whole: bool) -> Union[Answer, Stream]:
        path = unix_path(url)
        try:
            response = await self._http[path].handle_async_request(request)
            if not whole and response.status_code < 300:
                return Stream(response)
            return Answer(response.status_code, response.headers, await _read(response))
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            where = url if path is not None else f"{request.url.scheme}://{request.url.netloc.decode()}"
            raise _not_connected(where, error) from None
        except httpx.LocalProtocolError as error:
            raise Invalid(f"this cannot be sent: {_words(error)}") from None
        except httpx.HTTPError as error:
            if request.url.scheme == "http" and _is_tls(error):
                raise Unreachable(f"cannot talk to {url}: it speaks TLS, use https", retryable=False) from None
            raise Broken(f"the connection broke before the answer: {_words(error)}") from None


async def within(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """Return what `work` does in so many seconds.

    `asyncio.wait_for` of Python 3.11 and before can swallow a cancellation, and then a renewal would go on after a
    release.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=seconds)
        if task.done():
            return task.result()
        raise asyncio.TimeoutError
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
        if not task.cancelled():
            # So that asyncio does not complain that nobody asked.
            task.exception()


async def _read(response: httpx.Response) -> bytes:
    pieces: List[bytes] = []
    n_bytes = 0
    try:
        async for piece in response.aiter_raw():
            n_bytes += len(piece)
            if n_bytes > ANSWER_BYTES_MAX:
                raise Broken("the answer is too long")
            pieces.append(piece)
    finally:
        await response.aclose()
    return b"".join(pieces)


def _not_connected(where: str, error: httpx.HTTPError) -> Unreachable:
    cause: Optional[BaseException] = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            why = f"its certificate cannot be verified: {cause.verify_message}"
            advice = "name the certificate of the authority that issued it by ca_file (LEASEHOLD_CA_FILE)"
            return Unreachable(f"cannot connect to {where}: {why}; {advice}", retryable=False)
        cause = cause.__cause__ or cause.__context__
    return Unreachable(f"cannot connect to {where}: {_words(error)}")


def _none_reached(in_vain: List[Unreachable]) -> Unreachable:
    retryable = any(error.retryable for error in in_vain)
    advice = ". Is the server running? (LEASEHOLD_URL)" if retryable else ""
    return Unreachable("; ".join(map(str, in_vain)) + advice, retryable=retryable)


def _is_tls(error: httpx.HTTPError) -> bool:
    """Whether the answer is no text at all but begins like an alert of TLS, which h11 says in these words."""
    return isinstance(error, httpx.RemoteProtocolError) and str(error) == "illegal request line"


def _is_not_leader(answer: Answer) -> bool:
    """Whether somebody else leads, and nothing was done. A refused `Host` is a 421 too, but not that."""
    said = answer.json()
    code = said.get("code") if isinstance(said, dict) else None
    return answer.status == 421 and code == "NOT_LEADER"


def _keepalive() -> List[Tuple[int, int, int]]:
    """Notice a peer that is gone without a word after about 25 s, also while we wait in a queue."""
    options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)]
    for name, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        option = getattr(socket, name, None)
        if option is not None:
            options.append((socket.IPPROTO_TCP, option, value))
    return options


def _words(error: Exception) -> str:
    """Return what is wrong, in words, also if the error has none."""
    return str(error) or type(error).__name__
