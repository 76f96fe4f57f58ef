"""TLS: the negotiated protocol, slow clients, stopped processes, renewals, and errors in certificate files."""

from __future__ import annotations

import datetime as dt
import logging
import os
import shutil
import signal
import ssl
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h2.events
import pytest
import trio
import trio.testing
from attrs import frozen
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.transports.http.hypercorn.test_connection import FloodingApp
from tests.transports.http.socket_clients import OK, App, Http2Client, answer, get, post, read_all, read_until, serving
from trio_mcp.transports import HttpListening, Receive, Scope, Send, tls_context
from trio_mcp.transports.http.hypercorn import _connection as _hypercorn_connection
from trio_mcp.transports.http.hypercorn import _tls
from trio_mcp.transports.http.hypercorn._tls import RenewedContext

PASSWORD = "correct horse"


@frozen
class Certificate:
    """A certificate for `localhost`, in files."""

    certfile: Path
    keyfile: Path
    encrypted: Path
    both: Path

    @property
    def trusted(self) -> ssl.SSLContext:
        """The context of a client that trusts only this certificate."""
        return ssl.create_default_context(cafile=str(self.certfile))


def make_certificate(folder: Path) -> Certificate:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    ).public_bytes(serialization.Encoding.PEM)

    def private(encryption: serialization.KeySerializationEncryption) -> bytes:
        return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)

    plain = private(serialization.NoEncryption())
    contents = {
        "certificate.pem": certificate,
        "key.pem": plain,
        "encrypted.pem": private(serialization.BestAvailableEncryption(PASSWORD.encode())),
        "both.pem": plain + certificate,
    }
    for file, content in contents.items():
        (folder / file).write_bytes(content)
    return Certificate(*(folder / file for file in contents))


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("certificate"))


async def test_a_request_is_answered_and_the_connection_is_closed_properly(certificate: Certificate) -> None:
    async def show(scope: Scope, receive: Receive, send: Send) -> None:
        await answer(send, scope["scheme"].encode())

    files = {"certfile": certificate.certfile, "keyfile": certificate.keyfile}
    async with serving(App({"/show": show}), **files) as served:
        assert served.bound.urls == (f"https://127.0.0.1:{served.bound.port}",)
        stream = await served.connect_tls(certificate.trusted)
        await stream.send_all(get("/show", "connection: close"))
        reply = await read_all(stream)

    assert reply.startswith(OK)
    assert reply.endswith(b"\r\n\r\nhttps")


async def test_http2_is_negotiated_with_clients_that_offer_it(certificate: Certificate) -> None:
    async with serving(App(), certfile=certificate.both) as served:
        stream = await served.connect_tls(certificate.trusted, "h2", "http/1.1")
        assert stream.selected_alpn_protocol() == "h2"
        client = Http2Client(stream)
        await client.start()

        number = await client.send_request("/")
        assert (await client.next_event(h2.events.DataReceived, number)).data == b"fine"


async def test_http2_that_is_turned_off_is_not_negotiated(certificate: Certificate) -> None:
    async with serving(App(), certfile=certificate.both, http2=False) as served:
        stream = await served.connect_tls(certificate.trusted, "h2", "http/1.1")
        assert stream.selected_alpn_protocol() == "http/1.1"
        await stream.send_all(get("/"))

        assert (await read_until(stream, b"fine")).startswith(OK)


async def test_a_client_without_tls_is_refused(certificate: Certificate, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(App(), certfile=certificate.both) as served, await served.connect() as stream:
        await stream.send_all(get("/"))

        assert b"fine" not in await read_all(stream)

    assert caplog.records == []


async def test_a_silent_client_is_disconnected(certificate: Certificate) -> None:
    async with (
        serving(App(), certfile=certificate.both, head_seconds=0.1) as served,
        await served.connect() as stream,
    ):
        assert await read_all(stream) == b""


async def test_a_client_that_reads_nothing_is_disconnected(certificate: Certificate) -> None:
    flooding = FloodingApp()
    async with serving(App({"/flood": flooding}), certfile=certificate.both, write_seconds=0.1) as served:
        stream = await served.connect_tls(certificate.trusted)
        await stream.send_all(get("/flood"))

        await flooding.left.wait()


@contextmanager
def blocked_once(client: trio.SocketStream, data: bytes) -> Generator[None]:
    """Block the process for 1.6 s in its next wait; the client sends *data* meanwhile."""

    def stand_still(*_: object) -> None:
        os.write(client.socket.fileno(), data)
        time.sleep(1.6)

    before = signal.signal(signal.SIGALRM, stand_still)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.03)
        yield
    finally:
        signal.signal(signal.SIGALRM, before)


async def test_all_data_that_arrived_while_the_process_was_stopped_are_read(certificate: Certificate) -> None:
    head, records = get("/"), trio.testing.MemorySendStream()
    async with serving(App(), certfile=certificate.both, keep_alive_seconds=1.5) as served:
        socket = await served.connect()
        wire = trio.StapledStream[trio.abc.SendStream, trio.abc.ReceiveStream](socket, socket)
        stream = trio.SSLStream(wire, certificate.trusted, server_hostname="localhost")
        await stream.send_all(head)
        await read_until(stream, b"fine")
        wire.send_stream = records
        for send_part in (head[:10], head[10:-2], head[-2:]):
            await stream.send_all(send_part)  # each part is a TLS record, and the server reads one at a time

        with blocked_once(socket, bytes(records.get_data_nowait())):
            assert (await read_until(stream, b"fine")).startswith(OK)


async def test_after_a_stop_the_process_waits_only_shortly_for_the_rest_of_a_record(
    certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_hypercorn_connection, "_LATE_SECONDS", 0.1)
    async with serving(App(), certfile=certificate.both, keep_alive_seconds=1.5) as served:
        stream = await served.connect_tls(certificate.trusted)
        await stream.send_all(get("/"))
        await read_until(stream, b"fine")

        with blocked_once(stream.transport_stream, b"\x17\x03\x03"):  # the beginning of a TLS record
            assert await read_all(stream) == b""


async def test_a_response_before_the_end_of_the_body_arrives(certificate: Certificate) -> None:
    async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
        await answer(send, b"too large", 413)

    async with serving(App({"/upload": refuse}), certfile=certificate.both) as served:
        stream = await served.connect_tls(certificate.trusted)
        await stream.send_all(post("/upload", 10_000_000, bytes(100_000)))
        assert (await read_until(stream, b"too large")).startswith(b"HTTP/1.1 413 ")
        await stream.send_all(bytes(100_000))
        await stream.transport_stream.aclose()


async def test_a_stopping_server_closes_connections_whose_handshake_is_incomplete(certificate: Certificate) -> None:
    async with (
        serving(App(), certfile=certificate.both, drain_seconds=1000) as served,
        await served.connect() as stream,
    ):
        await served.connect_tls(certificate.trusted)
        served.stop.set()
        with trio.fail_after(60):
            await served.ended.wait()

        assert await read_all(stream) == b""


async def test_an_encrypted_key_is_opened_with_its_password(certificate: Certificate) -> None:
    files = {"certfile": certificate.certfile, "keyfile": certificate.encrypted, "keyfile_password": PASSWORD}
    async with serving(App(), **files) as served:
        await served.connect_tls(certificate.trusted)


@pytest.fixture
def renewed(tmp_path: Path) -> tuple[Certificate, Certificate]:
    """Return a certificate that a server uses, and the one that follows it, in another folder."""
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    return make_certificate(tmp_path / "old"), make_certificate(tmp_path / "new")


def put(source: Path, target: Path) -> None:
    """Put a copy of a file in the place of another one, as programs that renew certificates do."""
    shutil.copy(source, target.with_suffix(".part"))
    target.with_suffix(".part").replace(target)


async def is_answered(served: Any, trusted: ssl.SSLContext) -> bool:
    """Make a connection that trusts one certificate, and return whether a request over it is answered."""
    try:
        stream = await served.connect_tls(trusted)
    except trio.BrokenResourceError:
        return False
    await stream.send_all(get("/"))
    return (await read_until(stream, b"fine")).startswith(OK)


async def test_new_connections_get_a_renewed_certificate_and_old_ones_go_on(
    renewed: tuple[Certificate, Certificate], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_tls, "LOOK_SECONDS", 0.0)
    caplog.set_level(logging.INFO, logger="trio_mcp.transports")
    used, new = renewed
    old_trusted, new_trusted = used.trusted, new.trusted
    async with serving(App(), certfile=used.certfile, keyfile=used.keyfile) as served:
        stream = await served.connect_tls(old_trusted)
        assert not await is_answered(served, new_trusted)
        put(new.certfile, used.certfile)
        put(new.keyfile, used.keyfile)

        assert await is_answered(served, new_trusted)
        assert not await is_answered(served, old_trusted)
        await stream.send_all(get("/"))
        assert (await read_until(stream, b"fine")).startswith(OK)

    assert [record.getMessage() for record in caplog.records if "certificate" in record.getMessage()] == [
        f"new connections get the certificate that is in {used.certfile} now"
    ]


async def test_a_renewed_pair_that_does_not_fit_is_logged_once_and_the_old_one_stays_until_it_fits(
    renewed: tuple[Certificate, Certificate], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_tls, "LOOK_SECONDS", 0.0)
    used, new = renewed
    old_trusted, new_trusted = used.trusted, new.trusted
    async with serving(App(), certfile=used.certfile, keyfile=used.keyfile) as served:
        put(new.certfile, used.certfile)
        assert [await is_answered(served, old_trusted) for _ in range(3)] == [True, True, True]
        put(new.keyfile, used.keyfile)
        assert await is_answered(served, new_trusted)
        used.keyfile.unlink()
        assert await is_answered(served, new_trusted)

    changed = "the files of the certificate have changed, and the old certificate stays: "
    messages = [record.getMessage() for record in caplog.records]
    assert messages[0] == (
        f"{changed}cannot use {used.certfile} and {used.keyfile} for TLS: the key does not belong to the certificate"
    )
    assert messages[1].startswith(f"{changed}[Errno 2] No such file or directory: ")
    assert len(messages) == 2


async def test_the_files_are_looked_at_once_a_minute_at_most(
    renewed: tuple[Certificate, Certificate], mock_clock: trio.testing.MockClock
) -> None:
    used, new = renewed
    renewing = RenewedContext(HttpListening(certfile=used.both))
    first = renewing.current()
    put(new.both, used.both)

    for seconds, is_same in ((59.9, True), (0.1, False)):
        mock_clock.jump(seconds)
        assert (renewing.current() is first) == is_same


async def test_a_context_whose_files_stay_as_they_are_is_kept(
    certificate: Certificate, mock_clock: trio.testing.MockClock
) -> None:
    renewing = RenewedContext(HttpListening(certfile=certificate.certfile, keyfile=certificate.keyfile))
    first = renewing.current()
    mock_clock.jump(3600)

    assert renewing.current() is first


def test_without_a_certificate_tls_is_off() -> None:
    assert tls_context(HttpListening()) is None


def test_a_missing_file_is_named(certificate: Certificate, tmp_path: Path) -> None:
    missing = tmp_path / "missing.pem"

    for certfile, keyfile in ((missing, None), (certificate.certfile, missing)):
        with pytest.raises(FileNotFoundError) as caught:
            tls_context(HttpListening(certfile=certfile, keyfile=keyfile))
        assert caught.value.filename == str(missing)


def test_the_error_of_an_unusable_file_gives_the_reason(certificate: Certificate, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = make_certificate(tmp_path / "other")
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    pair = f"{certificate.certfile} and {{}}"

    for settings, source, reason in (
        ({"certfile": empty}, str(empty), "it needs a certificate and a private key, both as PEM"),
        ({"certfile": certificate.certfile}, str(certificate.certfile), "it needs a certificate and a private key"),
        ({"keyfile": other.keyfile}, pair.format(other.keyfile), "the key does not belong to the certificate"),
        ({"keyfile": certificate.encrypted}, pair.format(certificate.encrypted), "the key is encrypted; give keyfile"),
        (
            {"keyfile": certificate.encrypted, "keyfile_password": "wrong"},
            pair.format(certificate.encrypted),
            "keyfile_password is wrong",
        ),
    ):
        options: dict[str, Any] = {"certfile": certificate.certfile, **settings}
        with pytest.raises(ValueError, match=r"^cannot use ") as caught:
            tls_context(HttpListening(**options))
        assert str(caught.value).startswith(f"cannot use {source} for TLS: {reason}")
        assert PASSWORD not in str(caught.value)
