"""TLS with a certificate authority and client certificates of our own, and Unix sockets."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Iterator, Tuple

import pytest
import trustme

from leasehold import Client, Failed, Invalid, LeaseholdError, Unreachable

from .loop import Between
from .server import Server


class Terminator(Between):
    """Speaks TLS, asks for a client certificate, and passes everything on."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        self._target = port
        super().__init__(context)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream_reader, upstream = await asyncio.open_connection("127.0.0.1", self._target)
        try:
            await asyncio.gather(_pass(reader, upstream), _pass(upstream_reader, writer))
        finally:
            writer.transport.abort()
            upstream.transport.abort()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while piece := await reader.read(65536):
            writer.write(piece)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


def write(folder: Path, name: str, issued: trustme.LeafCert) -> None:
    """Write NAME.pem and NAME.key."""
    issued.cert_chain_pems[0].write_to_path(str(folder / f"{name}.pem"))
    issued.private_key_pem.write_to_path(str(folder / f"{name}.key"))


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Tuple[str, Path]]:
    """The URL of a server that speaks TLS itself and knows clients by their certificates, and a folder as above."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    write(tmp_path, "server", authority.issue_cert("127.0.0.1", "localhost"))
    write(tmp_path, "web-1", authority.issue_cert("web-1"))
    rule = 'name = "web"\nwho = ["mtls:web-1"]\nmay = ["acquire"]\nnamespaces = ["*"]\n'
    mtls = 'ca-file = "ca.pem"\nprincipal = "dns"\n'
    (tmp_path / "auth.toml").write_text(f"version = 1\n[mtls]\n{mtls}[[rule]]\n{rule}")
    files = ["--tls-cert-file", tmp_path / "server.pem", "--tls-key-file", tmp_path / "server.key"]
    server = Server(tmp_path, *map(str, files), "--auth-file", str(tmp_path / "auth.toml"), scheme="https")
    yield server.url, tmp_path
    server.stop()


def test_a_server_knows_a_client_by_its_certificate(real: Tuple[str, Path], name: str) -> None:
    url, folder = real
    client = Client(
        url,
        ca_file=folder / "ca.pem",
        client_cert_file=folder / "web-1.pem",
        client_key_file=folder / "web-1.key",
    )
    with client, client.lock(name):
        assert client.look(name)["principal"] == "mtls:web-1"
    with Client(url, ca_file=folder / "ca.pem") as client, pytest.raises(Failed) as refused:
        client.look(name)
    assert refused.value.status == 401
    with Client(url) as client, pytest.raises(Unreachable, match=r"(?i)certificate"):
        client.look(name)


@pytest.fixture
def tls(shared_server: Server, tmp_path: Path) -> Iterator[Tuple[str, Path]]:
    """The URL, and a folder with ca.pem, cert.pem and key.pem."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    mine = authority.issue_cert("client.example")
    mine.cert_chain_pems[0].write_to_path(str(tmp_path / "cert.pem"))
    mine.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1", "localhost").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    terminator = Terminator(shared_server.port, context)
    yield f"https://127.0.0.1:{terminator.port}", tmp_path
    terminator.stop()


def test_a_lock_over_tls_with_a_client_certificate(tls: Tuple[str, Path], name: str) -> None:
    url, folder = tls
    client = Client(
        url,
        ca_file=folder / "ca.pem",
        client_cert_file=folder / "cert.pem",
        client_key_file=folder / "key.pem",
        api_key="lh_key",
    )
    with client, client.lock(name) as lease:
        assert lease.held
        assert client.look(name)["held"]


def test_the_files_may_be_named_by_the_environment(
    tls: Tuple[str, Path], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    url, folder = tls
    names = {"CA_FILE": "ca.pem", "CLIENT_CERT_FILE": "cert.pem", "CLIENT_KEY_FILE": "key.pem"}
    for variable, file in names.items():
        monkeypatch.setenv("LEASEHOLD_" + variable, str(folder / file))
    monkeypatch.setenv("LEASEHOLD_URL", url)
    with Client() as client, client.lock(name):
        assert client.look(name)["held"]


def test_a_server_nobody_vouches_for_is_not_believed(tls: Tuple[str, Path]) -> None:
    # Another authority's, and nobody's but those of the system.
    trustme.CA().cert_pem.write_to_path(str(tls[1] / "other.pem"))
    for ca_file in (None, tls[1] / "other.pem"):
        with Client(tls[0], ca_file=ca_file) as client:
            for call in (client.lock("a", wait=30).acquire, lambda: client.look("a")):
                with pytest.raises(Unreachable, match=r"certificate.*ca_file \(LEASEHOLD_CA_FILE\)") as refused:
                    call()
                assert not refused.value.retryable
                assert "running?" not in str(refused.value)


def test_one_server_nobody_vouches_for_is_passed_over(tls: Tuple[str, Path], shared_server: Server, name: str) -> None:
    with Client([tls[0], shared_server.url]) as client, client.lock(name):
        assert client.look(name)["held"]


def test_http_where_tls_is_spoken_says_so(real: Tuple[str, Path]) -> None:
    with Client(real[0].replace("https:", "http:")) as client:
        for call in (client.lock("a", wait=30).acquire, lambda: client.look("a")):
            with pytest.raises(Unreachable, match="use https") as refused:
                call()
            assert not refused.value.retryable


def test_without_a_client_certificate_nothing_is_answered(tls: Tuple[str, Path]) -> None:
    with Client(tls[0], ca_file=tls[1] / "ca.pem") as client, pytest.raises(LeaseholdError):
        client.look("a")


def test_a_key_needs_its_certificate(tls: Tuple[str, Path]) -> None:
    with pytest.raises(Invalid):
        Client(tls[0], client_key_file=tls[1] / "key.pem")


def test_a_unix_socket(tmp_path: Path, name: str) -> None:
    url = f"unix:{tmp_path / 'a.sock'}"
    server = Server(tmp_path, "--listen", url)
    try:
        with Client(url, api_key="lh_a_b") as client, client.lock(name):
            assert client.look(name)["held"]
        with Client(url + "x") as client, pytest.raises(Unreachable, match="cannot connect to unix:"):
            client.look(name)
    finally:
        server.stop()


@pytest.mark.parametrize("url", ["unix:", "unix://"])
def test_a_socket_needs_a_path(url: str) -> None:
    with pytest.raises(Invalid, match="has no path"):
        Client(url)
