"""The connections between the processes of a service: where a process listens, how it proves that it belongs to it.

A process listens at a port of its own, and tells its address in the shared backend. Another process that has something
for it connects there. Both prove that they have the key of the service before anything else is sent; then the
connection is a link, which carries messages as newline-delimited JSON.

Rules of this file:

1. Nothing that comes from a connection is believed before the proof. The proof of each side covers the names of both
   and the random numbers of both, so that none can be used again. Whatever comes, only the connection ends.
2. Within one machine the connection is plain. Between machines it is TLS: each process makes a certificate when it
   starts, and signs it in the backend with the key of the service, so that nobody can stand in between.
3. A process that answers at the address of another one, because the port was given away, tells another name. A
   connection that ends before the proof, or with a wrong one, shows nothing: a process may not know the newest key
   yet.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import logging
import os
import secrets
import ssl
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import trio
from attrs import define, field, frozen

from ..wire import JsonObject, Undecodable, decode, encode, is_object
from ._keys import ClusterKeys

__all__ = ["Address", "LinkListener", "NodeGoneError", "dial"]

_log = logging.getLogger("trio_mcp.cluster")

_PROOF_SECONDS = 5.0
"""The maximum time for a connection and its proofs."""
_LONGEST_LINE = 4096
_CERTIFICATE_DAYS = 3650


class NodeGoneError(Exception):
    """The process is not there any more: nobody answers at its address, or another process does."""


@frozen
class Address:
    """The address at which a process listens, as the other processes read it in the backend."""

    host: str
    port: int
    certificate: str = field(repr=False)
    """The certificate of the process (PEM); empty if the connection is plain."""

    def to_bytes(self, node: str, keys: ClusterKeys) -> bytes:
        """Return the signed form, for the backend."""
        proof = keys.sign("address", node, self.host, str(self.port), self.certificate)
        return encode({"host": self.host, "port": self.port, "certificate": self.certificate, "proof": proof})

    @classmethod
    def of_bytes(cls, data: bytes, node: str, keys: ClusterKeys) -> Address | None:
        """Return what `to_bytes` has signed for a process; None if it was signed with no key of the service."""
        try:
            json: Any = decode(data)
            host, port, certificate = json["host"], json["port"], json["certificate"]
            is_signed = keys.verify(json["proof"], "address", node, host, str(port), certificate)
        except (Undecodable, AttributeError, TypeError, KeyError):
            return None
        return cls(host, int(port), certificate) if is_signed else None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@define(eq=False)
class LinkListener:
    """Listens for the other processes of a service.

    Args:
        node: the name of this process.
        keys: of the service.
        serve: called with each connection that has proved to belong to the service, and the name of its process. The
            connection is closed when it returns.
    """

    _node: str
    _keys: ClusterKeys
    _serve: Callable[[trio.abc.Stream, str], Awaitable[None]]
    _tls: ssl.SSLContext | None = field(default=None, init=False)

    async def run(self, host: str, bind_host: str, port: int, *, task_status: trio.TaskStatus[Address]) -> None:
        """Listen until cancelled; report the address.

        Args:
            host: the address by which others reach this process.
            bind_host: the address to listen on.
            port: the port; 0 for any free one.
            task_status: of `trio.Nursery.start`.

        Raises:
            OSError: the address cannot be used.
        """
        certificate = ""
        if not _is_loopback(host):
            self._tls, certificate = await trio.to_thread.run_sync(_make_certificate, self._node)
        (listener, *others) = await trio.open_tcp_listeners(port, host=bind_host)
        for other in others:
            await other.aclose()
        bound: int = listener.socket.getsockname()[1]
        task_status.started(Address(host, bound, certificate))
        await trio.serve_listeners(self._take, [listener])

    async def _take(self, raw: trio.SocketStream) -> None:
        stream: trio.abc.Stream = raw
        async with raw:
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError, ssl.SSLError):
                peer: str | None = None
                with trio.move_on_after(_PROOF_SECONDS) as proving:
                    if self._tls is not None:
                        stream = trio.SSLStream(raw, self._tls, server_side=True)
                    peer = await self._prove(stream)
                if proving.cancelled_caught or peer is None:
                    _log.warning("a connection to this process did not prove to belong to its service")
                    return
                await self._serve(stream, peer)

    async def _prove(self, stream: trio.abc.Stream) -> str | None:
        """Exchange the proofs; return the name of the other process, or None if its proof is wrong."""
        own = secrets.token_hex(16)
        await stream.send_all(encode({"node": self._node, "nonce": own}) + b"\n")
        given = _object(await _line(stream))
        peer, nonce = str(given.get("node")), str(given.get("nonce"))
        if not self._keys.verify(given.get("proof"), "dial", self._node, peer, own, nonce):
            return None
        proof = self._keys.sign("accept", self._node, peer, own, nonce)
        await stream.send_all(encode({"proof": proof}) + b"\n")
        return peer


async def dial(address: Address, node: str, to: str, keys: ClusterKeys) -> trio.abc.Stream:
    """Connect to another process, and exchange the proofs.

    Args:
        address: of the other process.
        node: the name of this one.
        to: the name of the other one.
        keys: of the service.

    Raises:
        NodeGoneError: the process is not there any more.
        OSError: it cannot be reached now.
    """
    with trio.move_on_after(_PROOF_SECONDS):
        try:
            raw = await trio.open_tcp_stream(address.host, address.port)
        except OSError as error:
            if _is_refused(error):
                raise NodeGoneError from error
            raise
        stream: trio.abc.Stream = raw
        try:
            if address.certificate:
                stream = trio.SSLStream(raw, _trusting(address.certificate), server_hostname=to)
            await _prove_dialing(stream, node, to, keys)
        except trio.BrokenResourceError as error:
            await trio.aclose_forcefully(raw)
            if isinstance(error.__cause__, ssl.SSLError) and not isinstance(error.__cause__, ssl.SSLEOFError):
                raise NodeGoneError from error  # another process answers, with another certificate or without TLS
            raise OSError(f"the connection to {address.host}:{address.port} was broken") from error
        except BaseException:
            await trio.aclose_forcefully(raw)
            raise
        return stream
    raise OSError(f"{address.host}:{address.port} does not answer")


async def _prove_dialing(stream: trio.abc.Stream, node: str, to: str, keys: ClusterKeys) -> None:
    given = _object(await _line(stream))
    theirs, own = str(given.get("nonce")), secrets.token_hex(16)
    if given.get("node") != to:
        raise NodeGoneError  # rule 3
    proof = keys.sign("dial", to, node, theirs, own)
    await stream.send_all(encode({"node": node, "nonce": own, "proof": proof}) + b"\n")
    given = _object(await _line(stream))
    if not keys.verify(given.get("proof"), "accept", to, node, theirs, own):
        raise trio.BrokenResourceError


def _is_refused(error: OSError) -> bool:
    """Return True if nobody listens at any of the addresses of a host."""
    causes: Sequence[Exception] = getattr(error.__cause__, "exceptions", ())  # there are none if the name is unknown
    return bool(causes) and all(isinstance(each, ConnectionRefusedError) for each in causes)


async def _line(stream: trio.abc.Stream) -> bytes:
    """Return a line without its end; the peer sends nothing after it before it gets something.

    Raises:
        trio.BrokenResourceError: the connection has ended before.
    """
    data = b""
    while not data.endswith(b"\n"):
        chunk = await stream.receive_some(_LONGEST_LINE)
        if not chunk:
            raise trio.BrokenResourceError
        data += chunk
        if len(data) > _LONGEST_LINE:
            return b""
    return data[:-1]


def _object(line: bytes) -> JsonObject:
    """Return the JSON object in a line; an empty one if there is none."""
    try:
        json: Any = decode(line)
    except Undecodable:
        return {}
    return json if is_object(json) else {}


def _make_certificate(name: str) -> tuple[ssl.SSLContext, str]:
    """Return the TLS settings of a process with a new certificate, and that certificate (rule 2)."""
    from cryptography import x509  # noqa: PLC0415 # only services on several machines need it
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))  # the clocks of machines differ
        .not_valid_after(now + dt.timedelta(days=_CERTIFICATE_DAYS))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    descriptor, path = tempfile.mkstemp()  # `ssl` reads keys from files only
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(private + pem)
        context.load_cert_chain(path)
    finally:
        Path(path).unlink()
    return context, pem.decode()


def _trusting(certificate: str) -> ssl.SSLContext:
    """Return the TLS settings that accept this certificate and no other."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(cadata=certificate)
    return context
