"""The connections between the processes of a service, over real sockets: proofs, strangers, broken connections, TLS."""

from __future__ import annotations

import json
import socket
import struct
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import define, evolve, field
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp.cluster._keys import ClusterKeys
from trio_mcp.cluster._links import Address, LinkListener, NodeGoneError, dial

OLD, NEW, OTHER = b"old" * 12, b"new" * 12, b"other" * 8
KEYS = ClusterKeys([NEW])
HERE = "127.0.0.1"
REFUSED = "a connection to this process did not prove to belong to its service"
SECONDS = 60.0
"""The time after which a test has failed; far more than anything takes."""

Handler = Callable[[trio.SocketStream], Awaitable[None]]


async def line_of(stream: trio.abc.ReceiveStream) -> Any:
    """Return the JSON value of a line."""
    data = b""
    while not data.endswith(b"\n"):
        chunk = await stream.receive_some(1)
        assert chunk
        data += chunk
    return json.loads(data)


async def is_ended(stream: trio.abc.ReceiveStream) -> bool:
    """Read what comes until the other side closes the connection."""
    with suppress(trio.BrokenResourceError):  # it is reset if something sent was not read
        while await stream.receive_some():
            pass
    return True


@define(eq=False)
class Process:
    """A process that listens, and sends back what others send to it."""

    name: str
    address: Address
    peers: list[str] = field(factory=list[str])
    """The names of those that have connected."""


@asynccontextmanager
async def listening(
    name: str = "one", keys: ClusterKeys = KEYS, *, host: str = HERE, bind_host: str = HERE
) -> AsyncGenerator[Process]:
    process = Process(name, Address(HERE, 0, ""))

    async def serve(stream: trio.abc.Stream, peer: str) -> None:
        process.peers.append(peer)
        async for data in stream:
            await stream.send_all(data)

    with trio.fail_after(SECONDS):
        async with trio.open_nursery() as nursery:
            listener = LinkListener(name, keys, serve)
            process.address = await nursery.start(partial(listener.run, host, bind_host, 0))
            yield process
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def foreign(handler: Handler) -> AsyncGenerator[Address]:
    """Listen as something that is no process of the service."""

    async def handle(stream: trio.SocketStream) -> None:
        async with stream:
            with suppress(trio.BrokenResourceError):
                await handler(stream)

    with trio.fail_after(SECONDS):
        async with trio.open_nursery() as nursery:
            listeners = await nursery.start(partial(trio.serve_tcp, handle, 0, host=HERE))
            yield Address(HERE, listeners[0].socket.getsockname()[1], "")
            nursery.cancel_scope.cancel()


async def connect(process: Process) -> trio.SocketStream:
    return await trio.open_tcp_stream(HERE, process.address.port)


async def works(process: Process, keys: ClusterKeys = KEYS) -> bool:
    """Return True if another process can connect, and gets back what it sends."""
    address = evolve(process.address, host=HERE)
    async with await dial(address, "two", process.name, keys) as stream:
        await stream.send_all(b"hello")
        got = b""
        while len(got) < 5:
            got += bytes(await stream.receive_some())
    return got == b"hello" and process.peers[-1] == "two"


# --- Proofs ---


async def test_a_process_connects_to_another_one_that_learns_its_name() -> None:
    async with listening() as process:
        assert process.address.certificate == ""
        assert await works(process)
        assert await works(process)
        assert process.peers == ["two", "two"]


@pytest.mark.parametrize(("ours", "theirs"), [([OLD, NEW], [NEW, OLD]), ([NEW, OLD], [OLD, NEW])])
async def test_processes_connect_while_their_key_is_replaced(ours: list[bytes], theirs: list[bytes]) -> None:
    async with listening(keys=ClusterKeys(theirs)) as process:
        assert await works(process, ClusterKeys(ours))


async def test_a_process_with_another_key_is_refused_and_others_are_not(caplog: pytest.LogCaptureFixture) -> None:
    async with listening() as process:
        with pytest.raises(OSError, match="was broken"):
            await dial(process.address, "two", "one", ClusterKeys([OTHER]))

        assert process.peers == []
        assert await works(process)
    assert caplog.messages == [REFUSED]


@pytest.mark.parametrize("late", [0, 1])
async def test_a_process_is_not_taken_for_gone_while_one_of_both_does_not_know_the_newest_key(late: int) -> None:
    both = [ClusterKeys([NEW, OLD]), ClusterKeys([NEW, OLD])]
    both[late].replace([OLD])
    async with listening(keys=both[0]) as process:
        with pytest.raises(OSError, match="was broken"):
            await dial(process.address, "two", "one", both[1])

        both[late].replace([NEW, OLD])
        assert await works(process, both[1])


async def test_a_process_that_has_got_the_address_of_another_one_is_not_taken_for_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with listening("new") as process:
        with pytest.raises(NodeGoneError):
            await dial(process.address, "two", "old", KEYS)

        assert process.peers == []
        assert await works(process)
    assert caplog.messages == []


async def test_a_process_that_does_not_have_the_key_cannot_answer_in_the_place_of_another_one() -> None:
    received: list[Any] = []

    async def pretend(stream: trio.SocketStream) -> None:
        await stream.send_all(b'{"node": "one", "nonce": "0"}\n')
        received.append(await line_of(stream))
        proof = ClusterKeys([OTHER]).sign("accept", "one", "two", "0", received[0]["nonce"])
        await stream.send_all(json.dumps({"proof": proof}).encode() + b"\n")
        assert await is_ended(stream)

    async with foreign(pretend) as address:
        with pytest.raises(OSError, match="was broken"):
            await dial(address, "two", "one", KEYS)
    assert received[0]["node"] == "two"


async def test_a_proof_cannot_be_sent_back_to_the_process_that_has_made_it() -> None:
    async def mirror(stream: trio.SocketStream) -> None:
        await stream.send_all(b'{"node": "one", "nonce": "0"}\n')
        await stream.send_all(json.dumps(await line_of(stream)).encode() + b"\n")
        assert await is_ended(stream)

    async with foreign(mirror) as address:
        with pytest.raises(OSError, match="was broken"):
            await dial(address, "two", "one", KEYS)


async def test_a_proof_is_of_no_use_for_another_connection(caplog: pytest.LogCaptureFixture) -> None:
    async with listening() as process:
        proofs: list[bytes] = []
        for nonces in (1, 2):
            async with await connect(process) as stream:
                greeting = await line_of(stream)
                assert greeting["node"] == "one"
                if nonces == 1:
                    proof = KEYS.sign("dial", "one", "two", greeting["nonce"], "n")
                    proofs.append(json.dumps({"node": "two", "nonce": "n", "proof": proof}).encode() + b"\n")
                await stream.send_all(proofs[0])
                if nonces == 1:
                    assert KEYS.verify((await line_of(stream))["proof"], "accept", "one", "two", greeting["nonce"], "n")
                else:
                    assert await stream.receive_some() == b""
        assert process.peers == ["two"]
    assert caplog.messages == [REFUSED]


@pytest.mark.parametrize("part", ["node", "nonce", "proof"])
async def test_a_proof_is_for_the_names_and_numbers_that_were_sent(part: str, caplog: pytest.LogCaptureFixture) -> None:
    async with listening() as process:
        async with await connect(process) as stream:
            proof = KEYS.sign("dial", "one", "two", (await line_of(stream))["nonce"], "n")
            message = {"node": "two", "nonce": "n", "proof": proof, part: "x"}
            await stream.send_all(json.dumps(message).encode() + b"\n")
            assert await stream.receive_some() == b""
        assert process.peers == []
    assert caplog.messages == [REFUSED]


# --- Strangers and broken connections ---

GARBAGE = {
    "an empty line": b"\n",
    "null": b"null\n",
    "an array": b"[]\n",
    "a string": b'"node"\n',
    "an empty object": b"{}\n",
    "other members": b'{"node": 5, "nonce": [], "proof": {}}\n',
    "characters that UTF-8 does not have": b'{"node": "\\ud800", "nonce": "\\ud800", "proof": "\\ud800"}\n',
    "bytes that are not UTF-8": b"\xff\xfe\x00\n",
    "deep nesting": b"[" * 4000 + b"\n",
    "a huge number": b'{"node": ' + b"9" * 4000 + b"}\n",
    "a long line": b"x" * 10_000 + b"\n",
    "a line without end": b"x" * 10_000,
    "a request of HTTP": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
}


@pytest.mark.parametrize("garbage", GARBAGE)
async def test_garbage_from_a_stranger_ends_its_connection_and_nothing_else(
    garbage: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening() as process:
        async with await connect(process) as stream:
            await line_of(stream)
            await stream.send_all(GARBAGE[garbage])
            assert await is_ended(stream)
        assert process.peers == []
        assert await works(process)
    assert caplog.messages == [REFUSED]


@pytest.mark.parametrize("garbage", GARBAGE)
async def test_another_program_at_the_address_of_a_process_shows_that_the_process_is_gone(garbage: str) -> None:
    async def send_garbage(stream: trio.SocketStream) -> None:
        await stream.send_all(GARBAGE[garbage])
        assert await is_ended(stream)

    async with foreign(send_garbage) as address:
        with pytest.raises(NodeGoneError):
            await dial(address, "two", "one", KEYS)


@pytest.mark.parametrize("garbage", GARBAGE)
async def test_garbage_in_the_place_of_a_proof_is_no_proof(garbage: str) -> None:
    async def send_garbage(stream: trio.SocketStream) -> None:
        await stream.send_all(b'{"node": "one", "nonce": "0"}\n')
        await line_of(stream)
        await stream.send_all(GARBAGE[garbage])
        assert await is_ended(stream)

    async with foreign(send_garbage) as address:
        with pytest.raises(OSError, match="was broken"):
            await dial(address, "two", "one", KEYS)


def reset(stream: trio.SocketStream) -> None:
    """Let the end of a connection be a reset."""
    stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.mark.parametrize("resets", [False, True])
@pytest.mark.parametrize("sent", [b"", b'{"node": "o', b'{"node": "one", "nonce": "0"}\n'])
async def test_a_process_that_breaks_the_connection_in_the_middle_may_still_be_there(sent: bytes, resets: bool) -> None:
    async def break_off(stream: trio.SocketStream) -> None:
        await stream.send_all(sent)
        if sent.endswith(b"\n"):
            await line_of(stream)
        if resets:
            reset(stream)

    async with foreign(break_off) as address:
        with pytest.raises(OSError, match=rf"127.0.0.1:{address.port} was broken"):
            await dial(address, "two", "one", KEYS)


@pytest.mark.parametrize("resets", [False, True])
@pytest.mark.parametrize("sent", [b"", b'{"node": "t'])
async def test_a_stranger_that_breaks_the_connection_in_the_middle_is_nothing_to_log(
    sent: bytes, resets: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening() as process:
        async with await connect(process) as stream:
            await line_of(stream)
            await stream.send_all(sent)
            if resets:
                reset(stream)
        assert await works(process)
    assert caplog.messages == []


async def test_a_process_that_leaves_before_it_is_accepted_is_nothing_to_log(caplog: pytest.LogCaptureFixture) -> None:
    async with listening() as process:
        async with await connect(process) as stream:
            nonce = (await line_of(stream))["nonce"]
            message = {"node": "two", "nonce": "n", "proof": KEYS.sign("dial", "one", "two", nonce, "n")}
            await stream.send_all(json.dumps(message).encode() + b"\n")
            reset(stream)
        assert await works(process)
    assert caplog.messages == []


async def test_a_silent_process_cannot_be_reached_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trio_mcp.cluster._links._PROOF_SECONDS", 0.05)

    async def be_silent(stream: trio.SocketStream) -> None:
        assert await is_ended(stream)

    async with foreign(be_silent) as address:
        with pytest.raises(OSError, match=f"127.0.0.1:{address.port} does not answer"):
            await dial(address, "two", "one", KEYS)


async def test_a_silent_stranger_is_disconnected(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("trio_mcp.cluster._links._PROOF_SECONDS", 0.05)
    async with listening() as process, await connect(process) as stream:
        assert await is_ended(stream)
        assert process.peers == []
    assert caplog.messages == [REFUSED]


async def test_a_stranger_that_never_ends_its_line_is_disconnected(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("trio_mcp.cluster._links._PROOF_SECONDS", 0.1)
    async with listening() as process, await connect(process) as stream:
        with pytest.raises(trio.BrokenResourceError):  # if not, the test does not end
            while True:
                await stream.send_all(b" ")
                await trio.sleep(0.01)
    assert caplog.messages == [REFUSED]


async def test_the_time_limit_is_only_for_the_proofs(monkeypatch: pytest.MonkeyPatch) -> None:
    async def be_silent(stream: trio.SocketStream) -> None:
        assert await is_ended(stream)

    async with listening() as process, await dial(process.address, "two", "one", KEYS) as stream:
        monkeypatch.setattr("trio_mcp.cluster._links._PROOF_SECONDS", 0.01)
        async with foreign(be_silent) as address:
            with pytest.raises(OSError, match="does not answer"):
                await dial(address, "two", "one", KEYS)
        await stream.send_all(b"x")
        assert await stream.receive_some() == b"x"


async def test_lines_that_arrive_byte_by_byte_are_read() -> None:
    async def send_slowly(stream: trio.abc.Stream, message: dict[str, str]) -> None:
        for byte in json.dumps(message).encode() + b"\n":
            await stream.send_all(bytes([byte]))
            await trio.lowlevel.checkpoint()

    async def answer(stream: trio.SocketStream) -> None:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await send_slowly(stream, {"node": "one", "nonce": "0"})
        given = await line_of(stream)
        assert KEYS.verify(given["proof"], "dial", "one", "two", "0", given["nonce"])
        await send_slowly(stream, {"proof": KEYS.sign("accept", "one", "two", "0", given["nonce"])})
        await stream.send_all(b"first message")

    async with foreign(answer) as address, await dial(address, "two", "one", KEYS) as stream:
        assert (await stream.receive_some(1)) == b"f"


async def test_a_connection_is_closed_if_whoever_wants_it_is_cancelled() -> None:
    connected, ended = trio.Event(), trio.Event()

    async def be_silent(stream: trio.SocketStream) -> None:
        connected.set()
        assert await is_ended(stream)
        ended.set()

    async with foreign(be_silent) as address, trio.open_nursery() as nursery:
        nursery.start_soon(dial, address, "two", "one", KEYS)
        await connected.wait()
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            await ended.wait()


async def test_what_breaks_later_is_not_the_concern_of_the_listener(caplog: pytest.LogCaptureFixture) -> None:
    broken = trio.Event()

    async def fail(stream: trio.abc.Stream, peer: str) -> None:
        broken.set()
        raise trio.BrokenResourceError

    with trio.fail_after(SECONDS):
        async with trio.open_nursery() as nursery:
            address = await nursery.start(partial(LinkListener("one", KEYS, fail).run, HERE, HERE, 0))
            async with await dial(address, "two", "one", KEYS) as stream:
                await broken.wait()
                assert await stream.receive_some() == b""
            nursery.cancel_scope.cancel()
    assert caplog.messages == []


# --- Addresses where nobody listens ---


@define
class Resolver(trio.abc.HostnameResolver):
    """Knows one name, which has several addresses, or none."""

    addresses: list[str]

    async def getaddrinfo(
        self,
        host: bytes | None,
        port: bytes | str | int | None,
        family: int = 0,
        type: int = 0,  # noqa: A002 # the name of the overridden method
        proto: int = 0,
        flags: int = 0,
    ) -> Any:
        await trio.lowlevel.checkpoint()
        if not self.addresses:
            raise socket.gaierror(socket.EAI_NONAME, "name unknown")
        assert isinstance(port, int)
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (each, port)) for each in self.addresses]

    async def getnameinfo(self, sockaddr: tuple[str, int] | tuple[str, int, int, int], flags: int) -> tuple[str, str]:
        raise NotImplementedError


@contextmanager
def silent_port() -> Generator[int]:
    """Yield a port that nobody listens on, and that nobody is given meanwhile."""
    with socket.socket() as taken:
        taken.bind((HERE, 0))
        port: int = taken.getsockname()[1]
        yield port


async def test_a_process_is_gone_if_nobody_listens_at_its_address() -> None:
    with silent_port() as port, pytest.raises(NodeGoneError):
        await dial(Address(HERE, port, ""), "two", "one", KEYS)


async def test_a_process_is_gone_if_nobody_listens_at_any_of_its_addresses() -> None:
    trio.socket.set_custom_hostname_resolver(Resolver([HERE, HERE]))
    with silent_port() as port, pytest.raises(NodeGoneError):
        await dial(Address("server.example", port, ""), "two", "one", KEYS)


async def test_a_process_may_be_there_if_its_name_is_unknown_now() -> None:
    trio.socket.set_custom_hostname_resolver(Resolver([]))
    with pytest.raises(OSError, match="name unknown"):
        await dial(Address("server.example", 1, ""), "two", "one", KEYS)


async def test_a_process_may_be_there_if_one_of_its_addresses_cannot_be_reached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fail(*_: object) -> None:
        await trio.lowlevel.checkpoint()
        causes = [ConnectionRefusedError(), OSError("no route to host")]
        raise OSError("all attempts have failed") from ExceptionGroup("", causes)

    monkeypatch.setattr("trio.open_tcp_stream", fail)
    with pytest.raises(OSError, match="all attempts have failed"):
        await dial(Address("server.example", 1, ""), "two", "one", KEYS)


async def test_a_process_listens_at_one_address_of_a_name_that_has_several() -> None:
    trio.socket.set_custom_hostname_resolver(Resolver([HERE, HERE]))
    async with listening(host="localhost", bind_host="localhost") as process:
        assert process.address == Address("localhost", process.address.port, "")
        assert await works(process)


async def hold(stream: trio.abc.Stream, peer: str) -> None:
    await trio.sleep_forever()


async def test_a_process_that_cannot_listen_tells_so() -> None:
    async with listening() as process:
        with pytest.RaisesGroup(OSError):
            async with trio.open_nursery() as nursery:
                listener = LinkListener("other", KEYS, hold)
                await nursery.start(partial(listener.run, HERE, HERE, process.address.port))


async def test_a_process_that_has_stopped_to_listen_is_gone() -> None:
    async with listening("stopped") as process:
        assert await works(process)
    with pytest.raises(NodeGoneError):
        await dial(process.address, "two", "stopped", KEYS)


# --- Between machines ---

FAR = "192.0.2.1"
"""The address of another machine, as far as the process knows."""


def near(address: Address) -> Address:
    """Return the address with which a process on another machine is reached from here."""
    return evolve(address, host=HERE)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
async def test_connections_within_a_machine_are_plain(host: str) -> None:
    async with listening(host=host) as process:
        assert process.address == Address(host, process.address.port, "")


@pytest.mark.parametrize("host", [FAR, "10.0.0.1", "2001:db8::1", "server.example", "localhost.example"])
async def test_connections_between_machines_are_encrypted(host: str) -> None:
    async with listening(host=host) as process:
        assert process.address.host == host
        assert process.address.certificate.startswith("-----BEGIN CERTIFICATE-----\n")
        assert await works(process)
        async with await dial(near(process.address), "two", "one", KEYS) as stream:
            assert isinstance(stream, trio.SSLStream)


async def test_the_private_key_of_a_process_does_not_stay_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    async with listening(host=FAR) as process:
        assert "PRIVATE" not in process.address.certificate
        assert [*await trio.Path(tmp_path).iterdir()] == []


async def test_a_process_with_another_certificate_is_not_the_one_that_has_told_its_address() -> None:
    async with listening(host=FAR) as process, listening(host=FAR) as impostor:
        address = evolve(process.address, host=HERE, port=impostor.address.port)
        with pytest.raises(NodeGoneError):
            await dial(address, "two", "one", KEYS)
        assert impostor.peers == []


async def test_a_certificate_is_for_one_name() -> None:
    async with listening("new", host=FAR) as process:
        with pytest.raises(NodeGoneError):
            await dial(near(process.address), "two", "old", KEYS)
        assert await works(process)


async def test_an_encrypted_connection_needs_the_key_of_the_service_too(caplog: pytest.LogCaptureFixture) -> None:
    async with listening(host=FAR) as process:
        with pytest.raises(OSError, match="was broken"):
            await dial(near(process.address), "two", "one", ClusterKeys([OTHER]))
        assert await works(process)
        assert process.peers == ["two"]
    assert caplog.messages == [REFUSED]


async def test_a_program_without_encryption_is_not_the_process_that_has_told_a_certificate() -> None:
    async with listening(host=FAR) as process, listening() as plain:
        with pytest.raises(NodeGoneError):
            await dial(evolve(plain.address, certificate=process.address.certificate), "two", "one", KEYS)
        assert plain.peers == []


@pytest.mark.parametrize("resets", [False, True])
async def test_a_process_that_breaks_an_encrypted_connection_may_still_be_there(resets: bool) -> None:
    async def break_off(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        if resets:
            reset(stream)

    async with listening(host=FAR) as process, foreign(break_off) as address:
        with pytest.raises(OSError, match="was broken"):
            await dial(evolve(address, certificate=process.address.certificate), "two", "one", KEYS)


async def test_a_stranger_without_encryption_is_disconnected() -> None:
    async with listening(host=FAR) as process:
        async with await connect(process) as stream:
            await stream.send_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert await is_ended(stream)
        assert process.peers == []
        assert await works(process)


async def test_a_stranger_that_waits_for_a_plain_greeting_is_disconnected(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("trio_mcp.cluster._links._PROOF_SECONDS", 0.05)
    async with listening(host=FAR) as process, await connect(process) as stream:
        assert await stream.receive_some() == b""
    assert caplog.messages == [REFUSED]


# --- Addresses in the backend ---

ADDRESS = Address("10.0.0.7", 4711, "-----BEGIN CERTIFICATE-----\n")


@given(host=st.text(max_size=20), port=st.integers(0, 65535), certificate=st.text(max_size=20))
def test_an_address_is_read_as_it_was_signed(host: str, port: int, certificate: str) -> None:
    address = Address(host, port, certificate)

    data = address.to_bytes("one", KEYS)

    assert Address.of_bytes(data, "one", KEYS) == address
    assert Address.of_bytes(data, "one", ClusterKeys([OTHER, NEW])) == address
    assert Address.of_bytes(data, "two", KEYS) is None
    assert Address.of_bytes(data, "one", ClusterKeys([OTHER])) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"host": "10.0.0.8"},
        {"host": None},
        {"host": ["10.0.0.7"]},
        {"port": 4712},
        {"port": 4711.0},
        {"port": None},
        {"certificate": ""},
        {"certificate": 5},
        {"host": "10.0.0.7\x004711", "port": ""},
        {"proof": ""},
        {"proof": None},
        {"proof": 5},
        {"proof": "é"},
    ],
)
def test_an_address_that_was_changed_does_not_count(changed: dict[str, Any]) -> None:
    json_value = json.loads(ADDRESS.to_bytes("one", KEYS)) | changed

    assert Address.of_bytes(json.dumps(json_value).encode(), "one", KEYS) is None


@pytest.mark.parametrize("member", ["host", "port", "certificate", "proof"])
def test_an_address_without_one_of_its_members_does_not_count(member: str) -> None:
    json_value = json.loads(ADDRESS.to_bytes("one", KEYS))
    del json_value[member]

    assert Address.of_bytes(json.dumps(json_value).encode(), "one", KEYS) is None


@pytest.mark.parametrize("data", [b"", b"null", b"[]", b'"host"', b"5", b"{}", b"\xff", b"[" * 100_000, b"{" * 9])
def test_garbage_is_no_address(data: bytes) -> None:
    assert Address.of_bytes(data, "one", KEYS) is None


def test_a_port_that_was_made_a_string_is_a_number_again() -> None:
    json_value = json.loads(ADDRESS.to_bytes("one", KEYS)) | {"port": "4711"}

    assert Address.of_bytes(json.dumps(json_value).encode(), "one", KEYS) == ADDRESS


def test_certificates_are_not_shown() -> None:
    assert "CERTIFICATE" not in repr(ADDRESS)
