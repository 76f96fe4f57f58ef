"""The backend on Redis, with real servers: the contract, and what happens when a server ends, hangs, or refuses."""

from __future__ import annotations

import datetime as dt
import gc
import ipaddress
import logging
import math
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Self, cast

import pytest
import trio
import trio.testing
from attrs import define, field
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.shared.processes import check_killed_writer, check_writers
from tests.shared.programs.backends import TIMES
from tests.shared.redis_process import CLIENT, SERVER, RedisProcess, free_port
from trio_mcp import RedisShared, SharedUnavailable
from trio_mcp.abc import Shared, SharedState, StreamPart
from trio_mcp.testing import SharedContract

if (SERVER is None or CLIENT is None) and "CI" not in os.environ:
    pytest.skip("redis-server is not installed here", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings("ignore:Unclosed <MemoryObject:ResourceWarning")  # coredis does not close them


@pytest.fixture(scope="module", autouse=True)
def no_remains() -> Generator[None]:
    """Collect what coredis has not closed while the warnings about it are ignored."""
    yield
    gc.collect()


LOCAL = "127.0.0.1"
DEFAULTS = {name: getattr(import_module(name.rpartition(".")[0]), name.rpartition(".")[2]) for name in TIMES}
"""The time limits that these tests replace."""
FOLLOW, CONNECTION = "trio_mcp.shared._redis_follow", "trio_mcp.shared._redis_connection"

MakeServer = Callable[..., RedisProcess]


@pytest.fixture
def make_server(tmp_path: Path) -> Generator[MakeServer]:
    """Return a function that starts a server, which is killed in the end."""
    servers: list[RedisProcess] = []

    def make(*arguments: str) -> RedisProcess:
        folder = tmp_path / f"redis{len(servers)}"
        folder.mkdir()
        servers.append(RedisProcess(folder, arguments))
        servers[-1].start()
        return servers[-1]

    yield make
    for server in servers:
        server.kill()


@pytest.fixture(scope="module")
def kept_server(tmp_path_factory: pytest.TempPathFactory) -> Generator[RedisProcess]:
    """A server that several tests use, with prefixes of their own."""
    server = RedisProcess(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Generator[list[RedisProcess]]:
    """The three masters of a cluster."""
    cluster = ("--cluster-enabled", "yes", "--cluster-node-timeout", "60000")
    nodes = [RedisProcess(tmp_path_factory.mktemp("node"), cluster) for _ in range(3)]
    for node in nodes:
        node.start()
    nodes[0].ask("--cluster", "create", *(node.name for node in nodes), "--cluster-yes")
    for node in nodes:
        node.wait_for("Cluster state changed: ok")
    yield nodes
    for node in nodes:
        node.kill()


class TestRedis(SharedContract):
    @pytest.fixture(autouse=True)
    def on_server(self, kept_server: RedisProcess) -> None:
        self.server = kept_server

    def new_backend(self) -> Shared:
        return RedisShared(f"redis://{self.server.name}", prefix=secrets.token_hex(8))


class TestCluster(SharedContract):
    @pytest.fixture(autouse=True)
    def on_nodes(self, nodes: list[RedisProcess]) -> None:
        self.nodes = nodes

    def new_backend(self) -> Shared:
        hosts = ",".join(node.name for node in self.nodes)
        return RedisShared(f"redis://{hosts}", prefix=secrets.token_hex(8), cluster=True)


@define(eq=False)
class Interruptions(logging.Handler):
    """Counts what a follower logs about its interruptions."""

    count: int = 0
    _more: trio.Event = field(factory=trio.Event)

    def __attrs_pre_init__(self) -> None:
        super().__init__(logging.DEBUG)

    def emit(self, record: logging.LogRecord) -> None:
        self.count += 1
        self._more.set()
        self._more = trio.Event()

    async def next(self) -> None:
        """Wait for the next one."""
        await self._more.wait()


@pytest.fixture
def interruptions() -> Generator[Interruptions]:
    handler, log = Interruptions(), logging.getLogger(FOLLOW)
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    yield handler
    log.removeHandler(handler)
    log.setLevel(logging.NOTSET)


@pytest.fixture
def short_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let followers ask often, so that they get answers without entries."""
    monkeypatch.setattr(f"{FOLLOW}._LONGEST_BLOCK", 0.05)


# --- Processes ---


async def test_processes_that_write_at_once_lose_nothing_and_another_one_follows(make_server: MakeServer) -> None:
    with trio.fail_after(120):
        await check_writers(f"redis://{make_server().name}")


async def test_a_process_that_is_killed_while_it_writes_leaves_nothing_half_done(make_server: MakeServer) -> None:
    with trio.fail_after(120):
        await check_killed_writer(f"redis://{make_server().name}")


# --- Servers that end, or hang ---


async def test_a_server_that_has_lost_its_data_is_used_again_and_followers_learn_it(
    make_server: MakeServer, interruptions: Interruptions
) -> None:
    server = make_server()
    with trio.fail_after(120):
        async with (
            RedisShared(f"redis://{server.name}").open() as state,
            state.follow("stream") as parts,
            state.follow("new") as new_parts,
        ):
            await state.append("stream", [b"1", b"2"], at_most=5)
            assert await anext(parts) == StreamPart(1, (b"1", b"2"))
            server.kill()
            await interruptions.next()
            with pytest.raises(SharedUnavailable, match=rf"Redis at 127.0.0.1:{server.port} cannot be used: "):
                await state.get("key")

            server.start()
            assert await anext(parts) == StreamPart(1, (), is_gap=True)
            assert await state.append("stream", [b"a"], at_most=5) == 1
            assert await anext(parts) == StreamPart(1, (b"a",))
            await state.append("new", [b"b"], at_most=5)
            assert await anext(new_parts) == StreamPart(1, (b"b",))


async def test_a_server_that_has_kept_its_data_is_used_again_without_a_gap(
    make_server: MakeServer, interruptions: Interruptions
) -> None:
    server = make_server("--appendonly", "yes", "--appendfsync", "always")
    with trio.fail_after(120):
        async with RedisShared(f"redis://{server.name}").open() as state, state.follow("stream") as parts:
            await state.swap("key", None, b"1")
            await state.append("stream", [b"1", b"2"], at_most=5)
            assert await anext(parts) == StreamPart(1, (b"1", b"2"))
            server.kill()
            await interruptions.next()

            server.start()
            await until_available(state)  # it may not have noticed the end of its connection
            assert await state.get("key") == b"1"
            assert await state.append("stream", [b"3"], at_most=5) == 3
            assert await anext(parts) == StreamPart(3, (b"3",))


async def test_a_follower_learns_of_entries_that_were_dropped_during_an_interruption(
    make_server: MakeServer, interruptions: Interruptions
) -> None:
    server = make_server("--appendonly", "yes", "--appendfsync", "always")
    with trio.fail_after(120):
        async with RedisShared(f"redis://{server.name}").open() as state, state.follow("stream") as parts:
            await state.append("stream", [b"1", b"2"], at_most=2)
            await anext(parts)
            server.kill()
            await interruptions.next()
            hidden = hide(server)
            async with RedisShared(f"redis://{hidden.name}").open() as other:
                await other.append("stream", [b"3", b"4", b"5"], at_most=2)
            show(hidden, server)

            assert await anext(parts) == StreamPart(4, (b"4", b"5"), is_gap=True)


@pytest.mark.parametrize("appended", [0, 1, 3])
async def test_a_follower_learns_that_the_server_has_lost_the_end_of_the_stream(
    appended: int, make_server: MakeServer, interruptions: Interruptions
) -> None:
    server = make_server()
    with trio.fail_after(120):
        async with RedisShared(f"redis://{server.name}").open() as state, state.follow("stream") as parts:
            await state.append("stream", [b"1", b"2"], at_most=20)
            server.ask("SAVE")
            await state.append("stream", [b"3", b"4"], at_most=20)
            seen = 0
            while seen < 4:
                seen += len((await anext(parts)).entries)
            server.kill()
            await interruptions.next()
            hidden = hide(server)
            async with RedisShared(f"redis://{hidden.name}").open() as other:
                assert await other.last("stream") == 2
                for number in range(appended):
                    await other.append("stream", [b"new %d" % number], at_most=20)
            show(hidden, server)

            first = {0: 3, 1: 4, 3: 5}[appended]
            assert await anext(parts) == StreamPart(first, (), is_gap=True)
            if appended == 3:
                assert await anext(parts) == StreamPart(5, (b"new 2",))
            last = await state.append("stream", [b"last"], at_most=20)
            assert await anext(parts) == StreamPart(last, (b"last",))


async def test_a_follower_learns_that_the_stream_was_lost_and_made_anew_during_an_interruption(
    make_server: MakeServer, interruptions: Interruptions
) -> None:
    server = make_server()
    with trio.fail_after(120):
        async with RedisShared(f"redis://{server.name}").open() as state, state.follow("stream") as parts:
            await state.append("stream", [b"1", b"2"], at_most=20)
            await anext(parts)
            server.kill()
            await interruptions.next()
            hidden = hide(server)
            async with RedisShared(f"redis://{hidden.name}").open() as other:
                await other.append("stream", [b"a", b"b", b"c"], at_most=20)
            show(hidden, server)

            assert await anext(parts) == StreamPart(1, (b"a", b"b", b"c"), is_gap=True)


async def test_after_its_block_a_state_is_closed(kept_server: RedisProcess) -> None:
    async with RedisShared(f"redis://{kept_server.name}").open() as state:
        pass

    with pytest.raises(SharedUnavailable, match="the block of its state was left"):
        await state.get("key")


def hide(server: RedisProcess) -> RedisProcess:
    """Start a server that was killed on another port."""
    hidden = RedisProcess(server.folder, server.arguments)
    hidden.start()
    return hidden


def show(hidden: RedisProcess, server: RedisProcess) -> None:
    """Start a server with the data of the one that is hidden."""
    hidden.ask("SAVE")
    hidden.kill()
    server.start()


@pytest.mark.usefixtures("short_answers")
async def test_a_follower_learns_that_the_stream_was_made_anew_by_a_clock_that_was_set_back(
    make_server: MakeServer,
) -> None:
    server = make_server()
    with trio.fail_after(120):
        async with RedisShared(f"redis://{server.name}").open() as state, state.follow("stream") as parts:
            await state.append("stream", [b"1"], at_most=5)
            await anext(parts)
            server.ask("DEL", "trio-mcp:s:stream")
            server.ask("XADD", "trio-mcp:s:stream", "5-1", "name", "old")

            assert await anext(parts) == StreamPart(1, (), is_gap=True)
            assert await anext(parts) == StreamPart(1, (b"old",))
            assert await state.append("stream", [b"2"], at_most=5) == 2
            assert await anext(parts) == StreamPart(2, (b"2",))


@pytest.mark.usefixtures("short_answers")
async def test_a_stream_that_has_expired_begins_anew_and_its_followers_learn_it(make_server: MakeServer) -> None:
    server = make_server()
    with trio.fail_after(60):
        async with RedisShared(f"redis://{server.name}").open() as state, state.follow("stream") as parts:
            await state.append("stream", [b"1", b"2"], at_most=5)
            assert (await anext(parts)).first == 1
            server.ask("PEXPIRE", "trio-mcp:s:stream", "1")
            while await state.last("stream"):  # noqa: ASYNC110 # each asks the clock of the backend
                await trio.sleep(0.001)
            with trio.move_on_after(0.3):  # some answers without entries
                await anext(parts)
                raise AssertionError
            assert await state.append("stream", [b"a"], at_most=5) == 1
            assert await anext(parts) == StreamPart(1, (b"a",), is_gap=True)
            assert await state.read("stream", 2) == StreamPart(2, (), is_gap=True)


async def test_a_server_that_hangs_is_unavailable_and_used_again_when_it_goes_on(
    make_server: MakeServer, interruptions: Interruptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = make_server("--requirepass", "geheim")
    with trio.fail_after(120):
        async with RedisShared(f"redis://:geheim@{server.name}").open() as state:
            with monkeypatch.context() as impatient:
                impatient.setattr(f"{FOLLOW}._LONGEST_BLOCK", 0.1)
                impatient.setattr(f"{FOLLOW}._GRACE", 0.2)
                async with state.follow("stream") as parts:
                    await state.append("stream", [b"1"], at_most=5)
                    await anext(parts)
                    server.signal(signal.SIGSTOP)
                    impatient.setattr(f"{FOLLOW}.LONGEST_CALL", 0.1)
                    impatient.setattr(f"{CONNECTION}.LONGEST_CALL", 0.1)
                    for _ in range(2):  # a new connection hangs, too
                        with pytest.raises(SharedUnavailable, match=rf"{server.name} .* not answer") as caught:
                            await state.get("key")
                        assert "geheim" not in str(caught.value)
                    while interruptions.count < 3:
                        await interruptions.next()

                    impatient.undo()
                    server.signal(signal.SIGCONT)
                    await until_available(state)
                    assert await state.append("stream", [b"2"], at_most=5) == 2
                    part = await anext(parts)
                    assert (part.first, part.entries) == (2, (b"2",))


async def test_a_method_takes_no_longer_than_a_second() -> None:
    for name, seconds in DEFAULTS.items():
        assert 0 < seconds < 1, name


async def until_available(state: SharedState) -> None:
    while True:
        try:
            await state.get("key")
        except SharedUnavailable:
            continue
        return


async def test_a_call_that_takes_too_long_leaves_the_connection_if_others_were_answered(
    kept_server: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    with trio.fail_after(60):
        async with RedisShared(f"redis://{kept_server.name}").open() as state:
            client = cast("Any", state)._client
            current = client._current

            async def wait_for_ever(_: object) -> None:
                await trio.sleep_forever()

            async def wait() -> None:
                with pytest.raises(SharedUnavailable, match="not answer"):
                    await client.call(wait_for_ever)

            async with trio.open_nursery() as nursery:
                with monkeypatch.context() as impatient:
                    impatient.setattr(f"{CONNECTION}.LONGEST_CALL", 0.5)
                    nursery.start_soon(wait)
                    await trio.testing.wait_all_tasks_blocked()
                assert await state.get("key") is None
            assert client._current is current


async def test_leaving_the_block_of_a_follower_is_silent_even_if_its_connection_fails_at_that_moment(
    kept_server: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    @asynccontextmanager
    async def failing(*_: object) -> AsyncGenerator[None]:
        try:
            await trio.sleep_forever()
        except trio.Cancelled as cancelled:
            raise BaseExceptionGroup("both", [cancelled, OSError("broken")]) from None
        yield

    async with RedisShared(f"redis://{kept_server.name}").open() as state:
        monkeypatch.setattr(f"{FOLLOW}.open_commands", failing)
        async with state.follow("stream"):
            await trio.testing.wait_all_tasks_blocked()


async def test_calls_that_wait_for_the_same_attempt_to_connect_fail_with_it(make_server: MakeServer) -> None:
    server = make_server()
    failures: list[str] = []

    async def fail(state: SharedState) -> None:
        with pytest.raises(SharedUnavailable) as caught:
            await state.get("key")
        failures.append(str(caught.value))

    with trio.fail_after(120):
        async with RedisShared(f"redis://{server.name}").open() as state:
            server.kill()
            for _ in range(2):  # the first ones still have a connection
                async with trio.open_nursery() as nursery:
                    for _ in range(20):
                        nursery.start_soon(fail, state)
            server.start()
            async with trio.open_nursery() as nursery:
                for _ in range(20):
                    nursery.start_soon(state.get, "key")
    assert len(failures) == 40
    assert {f"Redis at {server.name} cannot be used" in failure for failure in failures} == {True}


async def test_a_server_that_does_not_run_is_unavailable() -> None:
    port = free_port()

    with pytest.raises(SharedUnavailable, match=rf"Redis at 127.0.0.1:{port} cannot be used: .*refused"):
        async with RedisShared(f"redis://user:geheim@127.0.0.1:{port}").open():
            raise AssertionError


# --- Servers that refuse ---


async def test_a_wrong_password_is_told_without_it(make_server: MakeServer) -> None:
    server = make_server("--requirepass", "right")

    for userinfo in ("", ":geheim@", "user:geheim@"):
        with pytest.raises(SharedUnavailable, match=rf"127.0.0.1:{server.port} cannot be used: ") as caught:
            async with RedisShared(f"redis://{userinfo}{server.name}").open():
                raise AssertionError
        assert "geheim" not in str(caught.value)
    async with RedisShared(f"redis://:right@{server.name}").open() as state:
        assert await state.get("key") is None


async def test_a_user_may_be_allowed_only_the_keys_of_the_prefix(make_server: MakeServer) -> None:
    server = make_server()
    server.ask("ACL", "SETUSER", "an/na", "on", ">p@ss:word", "~mine:*", "+@all", "-@dangerous")
    url = f"redis://an%2Fna:p%40ss%3Aword@{server.name}"

    async with RedisShared(url, prefix="mine").open() as state:
        assert await state.swap("key", None, b"1")
        await state.append("stream", [b"1"], at_most=1)
        async with state.follow("stream") as parts:
            await state.append("stream", [b"2"], at_most=1)
            assert await anext(parts) == StreamPart(2, (b"2",))
    with pytest.raises(SharedUnavailable, match="permission"):
        async with RedisShared(url, prefix="other").open() as state:
            await state.get("key")


async def test_a_refused_command_leaves_the_connection_usable(make_server: MakeServer) -> None:
    server = make_server()
    server.ask("LPUSH", "trio-mcp:v:key", "x")
    async with RedisShared(f"redis://localhost:{server.port}").open() as state:
        assert state.host == LOCAL
        connections = server.ask("CLIENT", "LIST", "TYPE", "normal").count("id=")
        with pytest.raises(SharedUnavailable, match="wrong kind of value"):
            await state.get("key")
        with pytest.raises(SharedUnavailable, match="wrong kind of value"):
            await state.swap("key", None, b"1")
        assert await state.swap("another", None, b"1")
        assert server.ask("CLIENT", "LIST", "TYPE", "normal").count("id=") == connections


async def test_a_server_that_has_become_a_replica_is_left(make_server: MakeServer) -> None:
    server, master = make_server(), make_server()
    async with RedisShared(f"redis://{server.name}").open() as state:
        server.ask("REPLICAOF", "127.0.0.1", str(master.port))
        with pytest.raises(SharedUnavailable, match="read only"):
            await state.swap("key", None, b"1")
        server.ask("REPLICAOF", "NO", "ONE")
        assert await state.swap("key", None, b"1")


async def test_prefixes_and_databases_are_separate(make_server: MakeServer) -> None:
    server = make_server()
    async with (
        RedisShared(f"redis://{server.name}", prefix="a").open() as a,
        RedisShared(f"redis://{server.name}/", prefix="b").open() as b,
        RedisShared(f"redis://{server.name}/1", prefix="a").open() as c,
    ):
        for state in (a, b, c):
            assert await state.swap("key", None, b"1")
            assert await state.append("stream", [b"1"], at_most=1) == 1
            assert await state.leases("group") == {}
            await state.lease("group", "name", b"1", seconds=60)
    assert sorted(server.ask("KEYS", "*").split()) == [f"{at}:{what}" for at in "ab" for what in KEYS]


KEYS = ("l:group", "s:stream", "v:key")


async def test_what_has_expired_is_dropped_from_the_server(make_server: MakeServer) -> None:
    server = make_server()
    with trio.fail_after(60):
        async with RedisShared(f"redis://{server.name}").open() as state:
            await state.swap("key", None, b"1", seconds=0.01)
            await state.append("stream", [b"1"], at_most=5, seconds=0.01)
            await state.lease("long", "for ever", b"1", seconds=math.inf)
            for number in range(5):
                await state.lease("short", f"{number}", b"1", seconds=0.01)
                await state.lease("long", f"{number}", b"1", seconds=0.01)
            while len(await state.leases("long")) > 1:  # noqa: ASYNC110 # each asks the clock of the backend
                await trio.sleep(0.001)
            while int(server.ask("HLEN", "trio-mcp:l:long")) > 1:
                await state.lease("long", "for ever", b"2", seconds=math.inf)
            await state.lease("long", "short again", b"1", seconds=60)
            assert server.ask("TTL", "trio-mcp:l:long") == "-1"
            while server.ask("KEYS", "*") != "trio-mcp:l:long":  # noqa: ASYNC110 # as above
                await trio.sleep(0.001)


# --- Ways to connect ---


async def test_a_socket_in_the_file_system_is_used(make_server: MakeServer, tmp_path: Path) -> None:
    server = make_server("--unixsocket", "r.sock", "--requirepass", "geheim")
    path = server.folder / "r.sock"
    async with RedisShared(f"unix://:geheim@{path}?db=3").open() as state:
        assert state.host == "127.0.0.1"
        assert await state.swap("key", None, b"1")
    with pytest.raises(SharedUnavailable, match=r"missing\.sock"):
        async with RedisShared(f"unix://{tmp_path}/missing.sock").open():
            raise AssertionError


@define
class Certificates:
    """Certificates of an authority, of a server for 127.0.0.1, and of a client, in files."""

    folder: Path

    def make(self) -> None:
        now = dt.datetime.now(dt.UTC)
        authority = ec.generate_private_key(ec.SECP256R1())
        issuer = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "authority")])
        for name in ("authority", "server", "client", "stranger"):
            key = authority if name == "authority" else ec.generate_private_key(ec.SECP256R1())
            subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
            signing = key if name == "stranger" else authority
            identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
            of_issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key())
            usage = x509.KeyUsage(
                digital_signature=True,
                key_cert_sign=name == "authority",
                crl_sign=False,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                encipher_only=False,
                decipher_only=False,
            )
            address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
            certificate = (
                x509.CertificateBuilder()
                .subject_name(subject)
                .issuer_name(subject if name == "stranger" else issuer)
                .public_key(key.public_key())
                .serial_number(x509.random_serial_number())
                .not_valid_before(now - dt.timedelta(days=1))
                .not_valid_after(now + dt.timedelta(days=1))
                .add_extension(x509.BasicConstraints(ca=name == "authority", path_length=None), critical=True)
                .add_extension(address, critical=False)
                .add_extension(identifier, critical=False)  # from Python 3.13 on, these three are required
                .add_extension(of_issuer, critical=False)
                .add_extension(usage, critical=True)
                .sign(signing, hashes.SHA256())
            )
            private = key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            Path(self[name]).write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
            Path(self.key(name)).write_bytes(private)

    def __getitem__(self, name: str) -> str:
        return str(self.folder / f"{name}.pem")

    def key(self, name: str) -> str:
        return str(self.folder / f"{name}.key")


async def test_tls_is_used_with_the_certificates_that_are_given(make_server: MakeServer, tmp_path: Path) -> None:
    files = Certificates(tmp_path)
    files.make()
    tls_port = free_port()
    make_server(
        *("--tls-port", str(tls_port), "--tls-cert-file", files["server"], "--tls-key-file", files.key("server")),
        *("--tls-ca-cert-file", files["authority"], "--tls-auth-clients", "yes"),
    )
    url = f"rediss://127.0.0.1:{tls_port}"

    client = RedisShared(url, ca_file=files["authority"], cert_file=files["client"], key_file=files.key("client"))
    async with client.open() as state, state.follow("stream") as parts:
        await state.append("stream", [b"1"], at_most=1)
        assert await anext(parts) == StreamPart(1, (b"1",))
    for shared, cause in (
        (RedisShared(url, cert_file=files["client"], key_file=files.key("client")), "certificate verify failed"),
        (RedisShared(url, ca_file=files["authority"]), ""),  # without a certificate of its own, in words of OpenSSL
        (RedisShared(url, ca_file=str(tmp_path / "missing.pem")), "missing.pem"),
        (RedisShared(url, ca_file=files["authority"], cert_file=files["client"]), "client.pem"),
    ):
        with pytest.raises(SharedUnavailable, match=rf"127.0.0.1:{tls_port} cannot be used: .*{cause}"):
            async with shared.open():
                raise AssertionError


async def test_the_master_is_found_by_sentinels_and_the_next_one_after_it(
    make_server: MakeServer, tmp_path: Path
) -> None:
    master = make_server("--requirepass", "geheim", "--masterauth", "geheim")
    replica = make_server(
        *("--requirepass", "geheim", "--masterauth", "geheim", "--replicaof", "127.0.0.1", str(master.port)),
        *("--repl-diskless-sync-delay", "0"),
    )
    replica.wait_for("MASTER <-> REPLICA sync: Finished with success")
    port = free_port()
    (tmp_path / "sentinel.conf").write_text(
        f"port {port}\nbind 127.0.0.1\nrequirepass watch\n"
        f"sentinel monitor mine 127.0.0.1 {master.port} 1\nsentinel auth-pass mine geheim\n"
        "sentinel down-after-milliseconds mine 1000\nsentinel failover-timeout mine 2000\n"
    )
    sentinel = RedisProcess(
        tmp_path, [str(tmp_path / "sentinel.conf"), "--sentinel"], port=port, is_sentinel=True, ready="+slave slave"
    )
    sentinel.start()
    try:
        other = f"127.0.0.1:{free_port()}"  # nobody is there
        shared = RedisShared(f"redis://:geheim@{other},{sentinel.name}/2", sentinel="mine", sentinel_password="watch")
        with trio.fail_after(120):
            async with shared.open() as state, state.follow("stream") as parts:
                await state.append("stream", [b"1"], at_most=5)
                assert await anext(parts) == StreamPart(1, (b"1",))
                while replica.ask("-a", "geheim", "-n", "2", "XLEN", "trio-mcp:s:stream") != "1":  # noqa: ASYNC110 # each asks
                    await trio.sleep(0.01)
                master.kill()
                sentinel.wait_for("+switch-master")
                await until_available(state)
                assert await state.append("stream", [b"2"], at_most=5) == 2
                assert await anext(parts) == StreamPart(2, (b"2",))
        with pytest.raises(SharedUnavailable, match=r"master 'unknown'\) cannot be used: No primary found"):
            async with RedisShared(
                f"redis://:geheim@{sentinel.name}", sentinel="unknown", sentinel_password="watch"
            ).open():
                raise AssertionError
    finally:
        sentinel.kill()


async def test_a_cluster_whose_first_host_is_down_is_used_by_the_others(nodes: list[RedisProcess]) -> None:
    for other in (f"127.0.0.1:{free_port()}", "[fe80::1]:7"):  # the second one has no way to it
        async with RedisShared(f"redis://{other},{nodes[1].name}", cluster=True).open() as state:
            assert await state.swap(f"key with {other}", None, b"1")
            assert state.host == LOCAL


async def test_a_server_that_is_no_cluster_is_told(kept_server: RedisProcess) -> None:
    with pytest.raises(SharedUnavailable, match="cluster support disabled"):
        async with RedisShared(f"redis://{kept_server.name}", cluster=True).open():
            raise AssertionError


@define(eq=False)
class _Sockets(trio.abc.SocketFactory):
    """Makes sockets, of which those for datagrams say that they have an address in another network."""

    address: str

    def socket(
        self,
        family: int = socket.AF_INET,
        type: int = socket.SOCK_STREAM,  # noqa: A002 # as of Trio
        proto: int = 0,
    ) -> trio.socket.SocketType:
        if type == socket.SOCK_DGRAM:
            return _Datagram(self.address)
        return trio.socket.from_stdlib_socket(socket.socket(family, type, proto))


class _Datagram(trio.socket.SocketType):
    def __init__(self, address: str) -> None:
        super().__init__()
        self.address = address

    async def connect(self, address: object) -> None:
        if not self.address:
            raise OSError("no way")

    def getsockname(self) -> tuple[str, int]:
        return self.address, 9

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.mark.parametrize(("address", "host"), [("10.0.0.7", "10.0.0.7"), ("fd00::7%eth0", "fd00::7"), ("::1", LOCAL)])
async def test_the_host_is_the_address_in_the_network_of_redis(
    address: str, host: str, kept_server: RedisProcess
) -> None:
    trio.socket.set_custom_socket_factory(_Sockets(address))
    async with RedisShared(f"redis://{kept_server.name}").open() as state:
        assert state.host == host


async def test_without_a_way_for_datagrams_the_host_is_not_known(kept_server: RedisProcess) -> None:
    trio.socket.set_custom_socket_factory(_Sockets(""))
    with pytest.raises(SharedUnavailable, match="cannot be used: no way"):
        async with RedisShared(f"redis://{kept_server.name}").open():
            raise AssertionError


# --- Arguments ---


def test_the_password_is_not_shown() -> None:
    shared = RedisShared("rediss://ada:geheim@redis.example/3", sentinel="mine", sentinel_password="watch")

    assert "geheim" not in repr(shared)
    assert "watch" not in repr(shared)
    assert "ada" not in repr(shared)
    assert "redis.example:6379" in repr(shared)
    assert "[::1]:7" in repr(RedisShared("redis://[::1]:7"))


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://:geheim@localhost", "begins with redis://"),
        ("geheim", "begins with redis://"),
        ("redis://:geheim@localhost:port", "an invalid port"),
        ("redis://:geheim@localhost:99999", "an invalid port"),
        ("redis://:geheim@localhost/first", "a database that is not a number"),
        ("redis://:geheim@localhost,other", "several hosts need sentinel or cluster"),
    ],
)
def test_an_invalid_url_is_refused_without_showing_it(url: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        RedisShared(url)
    assert "geheim" not in str(caught.value)


def test_arguments_that_exclude_one_another_are_refused() -> None:
    with pytest.raises(ValueError, match="certificates are for TLS"):
        RedisShared("redis://localhost", ca_file="ca.pem")
    with pytest.raises(ValueError, match="either sentinel or cluster"):
        RedisShared("redis://localhost", sentinel="mine", cluster=True)
    with pytest.raises(ValueError, match="only database 0"):
        RedisShared("redis://localhost/1", cluster=True)
    with pytest.raises(ValueError, match="not a socket"):
        RedisShared("unix:///run/redis.sock", cluster=True)


async def test_without_coredis_opening_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "coredis", None)

    with pytest.raises(ImportError, match=r"pip install 'trio-mcp\[redis\]'"):
        async with RedisShared("redis://localhost").open():
            raise AssertionError


def test_importing_the_package_and_making_the_backend_does_not_import_coredis() -> None:
    program = "import sys, trio_mcp; trio_mcp.RedisShared('redis://localhost'); sys.exit('coredis' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
