"""Where the server is, who asks, and how to prove it: from arguments, files and the environment."""

from __future__ import annotations

import collections.abc
import ipaddress
import math
import os
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, List, Mapping, Optional, Sequence, Tuple, Union

import httpx

from .clock import BootClock, Clock
from .errors import Invalid
from .secret import Secret

DEFAULT_URL = "http://127.0.0.1:8080"


@dataclass(frozen=True)
class Settings:
    """The settings of a client, checked. Showing them shows no secret."""

    urls: Tuple[str, ...]
    namespace: Optional[str]
    #: `None` is a name of its own for every process.
    owner: Optional[str]
    api_key: Optional[Secret]
    timeout: float
    connect_timeout: float
    tls: Optional[ssl.SSLContext] = field(repr=False)
    #: Whoever does not lead is asked to say who does.
    direct: bool = False
    #: Also to a leader whose URL was not given.
    follow_any_leader: bool = False
    clock: Clock = field(repr=False, default_factory=BootClock)

    @classmethod
    def read(
        cls,
        url: Union[str, Sequence[str], None],
        *,
        namespace: Optional[str],
        owner: Optional[str],
        api_key: Optional[str],
        api_key_file: Union[str, os.PathLike[str], None],
        insecure: bool,
        direct: Optional[bool],
        follow_any_leader: bool,
        ca_file: Union[str, os.PathLike[str], None],
        client_cert_file: Union[str, os.PathLike[str], None],
        client_key_file: Union[str, os.PathLike[str], None],
        timeout: float,
        connect_timeout: float,
        clock: Optional[Clock] = None,
        environment: Mapping[str, str] = os.environ,
    ) -> Settings:
        """Return them, with what is not given taken from the environment."""

        def given(argument: Union[str, os.PathLike[str], None], name: str) -> Optional[str]:
            return os.fspath(argument) if argument is not None else environment.get(name) or None

        for named, time in (("timeout", timeout), ("connect_timeout", connect_timeout)):
            if isinstance(time, bool) or not isinstance(time, (int, float)) or not 0 < time < math.inf:
                raise Invalid(f"{named} must be more than 0 and have an end, not {time!r}")
        check_owner(owner)
        urls = _urls(url if url is not None else environment.get("LEASEHOLD_URL") or DEFAULT_URL)
        secret = _api_key(api_key, api_key_file, environment)
        if secret is not None and not insecure:
            _refuse_plain(urls)
        tls = None
        if any(url.startswith("https:") for url in urls):
            tls = _tls(
                given(ca_file, "LEASEHOLD_CA_FILE"),
                given(client_cert_file, "LEASEHOLD_CLIENT_CERT_FILE"),
                given(client_key_file, "LEASEHOLD_CLIENT_KEY_FILE"),
            )
        if follow_any_leader and (secret is not None or given(client_cert_file, "LEASEHOLD_CLIENT_CERT_FILE")):
            raise Invalid(
                "an API key and a client certificate are sent only to servers whose URLs are given; "
                "give all of them instead of follow_any_leader"
            )
        if direct is None:
            direct = len(urls) > 1 or follow_any_leader
        namespace = given(namespace, "LEASEHOLD_NAMESPACE")
        follow, clock = follow_any_leader, clock or BootClock()
        return cls(urls, namespace, owner, secret, timeout, connect_timeout, tls, direct, follow, clock)


def check_owner(owner: Any) -> None:
    """Raise `Invalid` if it is given and no name: somebody else's would be taken instead."""
    if owner is not None and (not isinstance(owner, str) or not owner):
        raise Invalid(f"owner must be a name that is not empty, not {owner!r}")


def _urls(given: Union[str, Sequence[str]]) -> Tuple[str, ...]:
    """Return the URLs, without a slash at their end. A text may have several, with commas between."""
    if not isinstance(given, collections.abc.Sequence) or not all(isinstance(text, str) for text in given):
        # Not shown: there may be a password in it.
        raise Invalid(f"url must be a str or a list of them, not {type(given).__name__}")
    texts = [part.strip() for text in ([given] if isinstance(given, str) else given) for part in text.split(",")]
    if not texts:
        raise Invalid("no URL of a server is given")
    urls: List[str] = []
    places: List[str] = []
    for text in texts:
        url = base(text)
        place = unix_path(url) or url
        if place in places:
            raise Invalid(f"{text!r} is given twice")
        urls.append(url)
        places.append(place)
    return tuple(urls)


def base(text: str) -> str:
    """Return a URL as it is compared and used, or say what is wrong with it."""
    if not text:
        raise Invalid("a URL is empty; separate several with commas: http://a,http://b")
    if text.startswith("unix:"):
        if not unix_path(text):
            raise Invalid(f"{text!r} has no path; write unix:/run/leasehold.sock")
        return text
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL as error:
        raise Invalid(f"not a URL: {error}") from None
    if url.userinfo:
        # Not shown: it is a secret.
        raise Invalid("a URL must have no user and no password; use api_key or api_key_file")
    if url.scheme not in ("http", "https") or not url.host:
        raise Invalid(f"{text!r} must begin with http:// or https:// and name a host, or with unix:")
    if url.port is not None and not 0 < url.port < 1 << 16:
        raise Invalid(f"{text!r}: a port is a number from 1 to 65535")
    if url.query or url.fragment:
        raise Invalid(f"{text!r} must have no query and no fragment")
    return str(url).rstrip("/")


def unix_path(url: str) -> Optional[str]:
    """Return the path of a Unix socket, if it is one: `unix:/run/a.sock`, or `unix:///run/a.sock`."""
    if not url.startswith("unix:"):
        return None
    path = url[len("unix:") :]
    return path[2:] if path.startswith("//") else path


def _api_key(
    key: Optional[str], file: Union[str, os.PathLike[str], None], environment: Mapping[str, str]
) -> Optional[Secret]:
    if key is not None and file is not None:
        raise Invalid("give api_key or api_key_file, not both")
    if key is None:
        named = environment.get("LEASEHOLD_API_KEY_FILE")
        path = file if file is not None else named
        key = _key_in(path) if path else environment.get("LEASEHOLD_API_KEY")
        if path and not key:
            raise Invalid(f"{os.fspath(path)} is empty, but should have an API key")
    if not key:
        return None
    if not (key.isascii() and key.isprintable()):
        raise Invalid("the API key has characters that cannot be sent in a header")
    return Secret(key)


def _key_in(path: Union[str, os.PathLike[str]]) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        # What is no UTF-8 is not shown: it may be part of a key.
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        where = "api_key_file (LEASEHOLD_API_KEY_FILE)"
        raise Invalid(f"{where}: {os.fspath(path)} cannot be read: {why}") from None


def _refuse_plain(urls: Tuple[str, ...]) -> None:
    for text in urls:
        if unix_path(text) is not None:
            continue
        url = httpx.URL(text)
        if url.scheme == "http" and not _is_loopback(url.host):
            raise Invalid(f"the API key would be readable on the way to {text}; use https or insecure=True")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _tls(ca_file: Optional[str], cert_file: Optional[str], key_file: Optional[str]) -> ssl.SSLContext:
    if key_file and not cert_file:
        raise Invalid("a client key needs its certificate: client_cert_file")
    try:
        # Without a CA file of our own, whoever httpx trusts.
        context = ssl.create_default_context(cafile=ca_file) if ca_file else httpx.create_ssl_context()
    except OSError as error:
        raise Invalid(f"ca_file (LEASEHOLD_CA_FILE): no certificate in {ca_file}: {error.strerror or error}") from None
    if cert_file:
        try:
            context.load_cert_chain(cert_file, key_file)
        except OSError as error:
            settings = "client_cert_file, client_key_file (LEASEHOLD_CLIENT_CERT_FILE, LEASEHOLD_CLIENT_KEY_FILE)"
            files = cert_file if key_file is None else f"{cert_file} and {key_file}"
            why = f"no certificate with its key in {files}: {error.strerror or error}"
            raise Invalid(f"{settings}: {why}") from None
    return context
