"""Where the server is and how to prove who asks."""

from __future__ import annotations

import logging
import math
import pickle
from pathlib import Path
from typing import Any

import pytest
import trustme

import leasehold
from leasehold import AsyncClient, Client, Invalid, Unreachable

from .proxy import Proxy
from .server import Server

KEY = "lh_canary_0123456789abcdef"
VARIABLES = (
    "URL",
    "NAMESPACE",
    "API_KEY",
    "API_KEY_FILE",
    "CA_FILE",
    "CLIENT_CERT_FILE",
    "CLIENT_KEY_FILE",
)


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv("LEASEHOLD_" + name, raising=False)


def key_of(client: AsyncClient) -> object:
    key = client._settings.api_key
    return None if key is None else key.reveal()


def test_the_key_comes_from_argument_file_or_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "key"
    file.write_text(f"{KEY}\n")
    assert key_of(AsyncClient()) is None
    assert key_of(AsyncClient(api_key=KEY)) == KEY
    assert key_of(AsyncClient(api_key_file=file)) == KEY
    monkeypatch.setenv("LEASEHOLD_API_KEY", "from-environment")
    assert key_of(AsyncClient()) == "from-environment"
    monkeypatch.setenv("LEASEHOLD_API_KEY_FILE", str(file))
    assert key_of(AsyncClient()) == KEY, "a file goes before the variable"
    assert key_of(AsyncClient(api_key="argument")) == "argument", "an argument goes before both"


def test_a_key_that_cannot_be_one_is_refused_and_not_shown(tmp_path: Path) -> None:
    empty = tmp_path / "key"
    empty.write_text("\n")
    given: Any
    for given in ({"api_key": KEY, "api_key_file": empty}, {"api_key_file": empty}, {"api_key": f"{KEY}\r\nX: y"}):
        with pytest.raises(Invalid) as refused:
            Client(**given)
        assert KEY not in str(refused.value)


def test_files_that_cannot_be_used_are_refused_and_their_setting_named(tmp_path: Path) -> None:
    missing, junk = tmp_path / "missing", tmp_path / "junk"
    junk.write_bytes(b"\xff\xfe no certificate")
    alone = tmp_path / "alone.pem"
    trustme.CA().issue_cert("a").cert_chain_pems[0].write_to_path(str(alone))
    given: Any
    for given in (
        {"api_key_file": missing},
        {"api_key_file": junk},
        {"ca_file": missing},
        {"ca_file": junk},
        {"client_cert_file": missing},
        {"client_cert_file": alone},
        {"client_cert_file": alone, "client_key_file": junk},
    ):
        ((setting, file), *_) = given.items()
        with pytest.raises(Invalid, match=setting) as refused:
            Client("https://a", **given)
        assert str(file) in str(refused.value)
        assert "LEASEHOLD_" in str(refused.value)


@pytest.mark.parametrize(
    "given",
    [
        {"timeout": 0},
        {"timeout": math.nan},
        {"timeout": math.inf},
        {"timeout": None},
        {"connect_timeout": -1},
        {"owner": ""},
        {"owner": 5},
        {"url": 5},
        {"url": [5]},
    ],
)
def test_what_makes_no_sense_is_refused_at_once(given: Any) -> None:
    with pytest.raises(Invalid, match=next(iter(given))):
        Client(**given)


def test_who_has_no_name_is_refused(client: Client, name: str) -> None:
    with pytest.raises(Invalid, match="owner"):
        client.lock(name, owner="").acquire()
    given: Any
    for given in (5, None, ""):
        with pytest.raises(Invalid):
            client.lock(given).acquire()
        with pytest.raises(Invalid):
            client.locks(given).acquire()


def test_a_client_is_not_pickled(client: Client) -> None:
    for whole in (client, client._async):
        with pytest.raises(TypeError, match="make one there"):
            pickle.dumps(whole)


@pytest.mark.parametrize(
    "url", ["http://locks.example.org", "http://10.0.0.7:8080", "https://a.example,http://b.example"]
)
def test_a_key_is_not_sent_in_the_open(url: str) -> None:
    with pytest.raises(Invalid, match="insecure=True"):
        Client(url, api_key=KEY)
    Client(url, api_key=KEY, insecure=True)
    Client(url)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1", "http://127.8.0.1", "http://[::1]:1", "http://localhost", "https://x"]
)
def test_a_key_may_stay_on_this_machine_or_go_over_tls(url: str) -> None:
    Client(url, api_key=KEY)


def test_several_urls_from_a_list_a_text_or_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    both = ("http://a:1", "https://b/locks")
    assert AsyncClient(["http://a:1/", "https://b/locks/"])._settings.urls == both
    assert AsyncClient("http://a:1, https://b/locks")._settings.urls == both
    monkeypatch.setenv("LEASEHOLD_URL", "http://a:1,https://b/locks")
    monkeypatch.setenv("LEASEHOLD_NAMESPACE", "shop")
    assert AsyncClient()._settings.urls == both
    assert AsyncClient().namespace == "shop"
    assert AsyncClient(namespace="other").namespace == "other"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ftp://a",
        "127.0.0.1:8080",
        "http://",
        "http://a?b=c",
        "http://a:99999",
        "http://a:0",
        f"http://u:{KEY}@a",
        [],
    ],
)
def test_what_is_no_url_is_refused(url: Any) -> None:
    with pytest.raises(Invalid) as refused:
        Client(url)
    assert KEY not in str(refused.value)


def test_who_cannot_be_reached_is_named() -> None:
    with (
        Client("http://127.0.0.1:1") as client,
        pytest.raises(Unreachable, match=r"http://127\.0\.0\.1:1.*LEASEHOLD_URL"),
    ):
        client.look("a")


def test_no_secret_is_shown_or_logged(proxy: Proxy, caplog: pytest.LogCaptureFixture, name: str) -> None:
    """Everything is logged at its most talkative, also by httpx, and the connection breaks in between."""
    shown: list[str] = []
    with caplog.at_level(logging.DEBUG), Client(proxy.url, api_key=KEY) as client:
        session = client.session(ttl=4).open()
        requests = (session.lock(name), client.lock(name + "/alone", ttl=60), client.locks(name + "/several"))
        inside, alone, several = (requests[0].acquire(), requests[1].acquire(), requests[2].acquire())
        secrets = [KEY, session.id, inside.lease_id, alone.lease_id]
        secrets += [lease["lease_id"] for lease in several._inner._proofs.acquired["leases"]]
        proxy.cut_answers(2)
        alone.release()
        proxy.swallow()
        assert session.lost.wait(180)
        shown += [
            repr(thing) for thing in (client, client._async._settings, session, *requests, inside, alone, several)
        ]
        shown += [str(vars(client._async)), str(session._inner._grant)]
        proxy.heal()
        for release in (session.close, several.release):
            try:
                release()
            except leasehold.LeaseholdError as error:
                shown += [str(error), repr(error)]
    assert len(proxy.said("/keepalive")) > 0
    text = caplog.text + "\n".join(shown)
    assert "renewal failed" in text, "something was logged"
    for secret in secrets:
        assert secret not in text


def test_the_key_is_sent_with_every_request(shared_server: Server, proxy: Proxy, name: str) -> None:
    with Client(proxy.url, api_key=KEY) as client, client.lock(name):
        client.look(name)
    heads = b"".join(bytes(sent) for sent in proxy._sent)
    assert heads.count(b"HTTP/1.1\r\n") == heads.count(f"Authorization: Bearer {KEY}\r\n".encode()) == 3
