"""Many requests, connections and processes that share one token: one request fetches it, and other calls continue."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trio
import trio.testing
from attrs import define, field

from tests.auth.protected_server import serving_protected
from tests.interaction.protected_deployment import (
    LATEST,
    MODERN,
    Deployment,
    call_text,
    every_transport,
    introspecting,
    login_server,
    user_credentials,
)
from trio_mcp import (
    Client,
    ConnectionClosed,
    FileTokenStorage,
    Limits,
    MemoryTokenStorage,
    OAuth,
    ResourceUpdated,
    TimeLimits,
    open_http_client,
)
from trio_mcp.testing import KnownClient, open_authorization_server

SHORT = TimeLimits(idle=10, total=20, connect=30, probe=5)
PROGRAM = Path(__file__).with_name("signed_in_client.py")
KNOWN_SHOP = KnownClient("shop", secret="x")


@define(eq=False)
class EndpointBarrier:
    """A hook that delays the requests to one endpoint until a test sets `release`."""

    endpoint: str
    reached: trio.Event = field(factory=trio.Event, init=False)
    release: trio.Event = field(factory=trio.Event, init=False)

    async def __call__(self, endpoint: str) -> None:
        if endpoint == self.endpoint:
            self.reached.set()
            await self.release.wait()


# Many requests.


@pytest.mark.parametrize("is_refused", [False, True], ids=["foreseen", "refused"])
@every_transport
async def test_a_hundred_calls_with_an_expired_token_cause_one_refresh(
    transport: str, revision: str, is_refused: bool, autojump_clock: object
) -> None:
    auth = login_server(token_seconds=600, clients=[KNOWN_SHOP])
    deployment = Deployment(auth, transport, {"verifier": introspecting()})
    barrier, outcomes, many = EndpointBarrier("token"), list[str](), Limits(max_posts=200)

    async def call(client: Client) -> None:
        outcomes.append(await call_text(client, "whoami"))

    async with deployment.open(), deployment.client(user_credentials(auth), revision=revision, limits=many) as client:
        assert await call_text(client, "whoami") == "ada"
        auth.settings.before = barrier
        if is_refused:
            auth.expire_tokens()
        else:
            await trio.sleep(601)  # only the client knows about the expiry
        refused = deployment.statuses(401)
        async with trio.open_nursery() as nursery:
            for _ in range(100):
                nursery.start_soon(call, client)
            await trio.testing.wait_all_tasks_blocked()
            barrier.release.set()
        assert deployment.statuses(401) - refused == (100 if is_refused else 0)

    assert outcomes == ["ada"] * 100
    assert (auth.refreshes, auth.reuses, len(auth.asked("authorize"))) == (1, 0, 1)


async def test_twenty_clients_that_share_credentials_ask_the_user_once(autojump_clock: object) -> None:
    deployment, outcomes = Deployment(), list[str]()
    grant = user_credentials(deployment.auth)

    async def connect() -> None:
        async with deployment.client(grant) as client:
            outcomes.append(await call_text(client, "buy"))

    async with deployment.open(), trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(connect)

    assert outcomes == ["ada buys"] * 20
    assert len(deployment.auth.asked("register")) == 1
    assert len(deployment.auth.asked("authorize")) == 2  # the sign-in and the step-up


@pytest.mark.parametrize("revision", [MODERN, LATEST])
async def test_a_cancelled_caller_does_not_interrupt_the_refresh(revision: str, autojump_clock: object) -> None:
    deployment, barrier = Deployment(login_server(token_seconds=600)), EndpointBarrier("token")
    storage = MemoryTokenStorage()

    async with (
        deployment.open(),
        deployment.client(user_credentials(deployment.auth, storage=storage), revision=revision) as client,
    ):
        assert await call_text(client, "whoami") == "ada"
        deployment.auth.settings.before = barrier
        await trio.sleep(700)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call_text, client, "whoami")
            await barrier.reached.wait()
            nursery.cancel_scope.cancel()
        barrier.release.set()
        assert await call_text(client, "whoami") == "ada"
        assert await call_text(client, "whoami") == "ada"

    assert (deployment.auth.refreshes, deployment.auth.reuses, len(deployment.auth.asked("authorize"))) == (1, 0, 1)


async def test_a_closing_client_stores_the_refreshed_token_for_the_next_one(autojump_clock: object) -> None:
    deployment, barrier, storage = (
        Deployment(login_server(token_seconds=600)),
        EndpointBarrier("token"),
        MemoryTokenStorage(),
    )

    async def call(client: Client) -> None:
        with pytest.raises(ConnectionClosed):
            await call_text(client, "whoami")

    async with deployment.open():
        async with (
            deployment.client(user_credentials(deployment.auth, storage=storage)) as client,
            trio.open_nursery() as nursery,
        ):
            assert await call_text(client, "whoami") == "ada"
            deployment.auth.settings.before = barrier
            await trio.sleep(700)
            nursery.start_soon(call, client)
            await barrier.reached.wait()
            nursery.start_soon(client.aclose)
            await trio.testing.wait_all_tasks_blocked()
            barrier.release.set()
        async with deployment.client(user_credentials(deployment.auth, storage=storage)) as client:
            assert await call_text(client, "whoami") == "ada"

    assert (deployment.auth.refreshes, deployment.auth.reuses, len(deployment.auth.asked("authorize"))) == (1, 0, 1)


# Long waits.


@every_transport
async def test_a_stream_open_for_an_hour_blocks_no_call_and_receives_every_change(
    transport: str, revision: str, autojump_clock: object
) -> None:
    deployment = Deployment(login_server(token_seconds=600), transport)
    received = list[object]()

    async def listen(client: Client) -> None:
        while True:  # the server ends a stream when the token of its request expires
            async with client.listen(resources=["shop://stock"]) as changes:
                async for change in changes:
                    received.append(change)

    async with (
        deployment.open(),
        deployment.client(user_credentials(deployment.auth), revision=revision) as client,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(listen, client)
        for _ in range(12):
            await trio.sleep(300)
            began, count = trio.current_time(), len(received)
            assert await call_text(client, "stock") == "changed"
            assert await call_text(client, "whoami") == "ada"
            assert trio.current_time() == began
            await trio.testing.wait_all_tasks_blocked()
            assert received[count:] == [ResourceUpdated("shop://stock")]
        nursery.cancel_scope.cancel()

    assert len(deployment.auth.asked("authorize")) == 1
    assert deployment.auth.refreshes >= 5


@every_transport
async def test_a_sign_in_that_takes_two_minutes_exceeds_no_timeout(
    transport: str, revision: str, autojump_clock: object
) -> None:
    deployment = Deployment(transport=transport)

    async def visit(url: str) -> str:
        await trio.sleep(120)
        return await deployment.auth.visit(url)

    grant = user_credentials(deployment.auth, visit=visit)

    async with deployment.open(), deployment.client(grant, revision=revision, time_limits=SHORT) as client:
        assert trio.current_time() == 120
        assert await call_text(client, "whoami") == "ada"
        assert await call_text(client, "buy") == "ada buys"
        assert trio.current_time() == 240


@pytest.mark.parametrize("revision", [MODERN, LATEST])
async def test_other_calls_continue_while_the_user_signs_in_for_one(revision: str, autojump_clock: object) -> None:
    deployment = Deployment()

    async def visit(url: str) -> str:
        await trio.sleep(120)
        return await deployment.auth.visit(url)

    async with (
        deployment.open(),
        deployment.client(user_credentials(deployment.auth, visit=visit), revision=revision) as client,
    ):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call_text, client, "buy")
            await trio.sleep(60)
            began = trio.current_time()
            assert await call_text(client, "whoami") == "ada"
            assert trio.current_time() == began
        assert trio.current_time() == 240


async def test_a_sign_in_that_the_user_never_finishes_fails_the_call_after_its_timeout(autojump_clock: object) -> None:
    deployment = Deployment()
    urls = list[str]()

    async def visit(url: str) -> str:
        urls.append(url)
        if len(urls) > 1:
            await trio.sleep_forever()
        return await deployment.auth.visit(url)

    async with (
        deployment.open(),
        deployment.client(user_credentials(deployment.auth, visit=visit, visit_seconds=200)) as client,
    ):
        began = trio.current_time()
        with pytest.raises(Exception, match="200 s"):
            await call_text(client, "buy")
        assert trio.current_time() - began == 200
        assert await call_text(client, "whoami") == "ada"


# Several processes.


@define(eq=False)
class Child:
    """A child process that runs `signed_in_client.py`."""

    process: trio.Process
    _output: bytearray = field(factory=bytearray, init=False)

    @classmethod
    async def started(cls, *arguments: str) -> Child:
        command = [sys.executable, "-W", "error", str(PROGRAM), *arguments]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        return cls(await trio.lowlevel.open_process(command, **pipes))

    async def send_line(self) -> None:
        assert self.process.stdin is not None
        await self.process.stdin.send_all(b"\n")

    async def line(self) -> str:
        assert self.process.stdout is not None
        while b"\n" not in self._output:
            chunk = await self.process.stdout.receive_some()
            assert chunk, "the process has ended"
            self._output += chunk
        line, _, rest = bytes(self._output).partition(b"\n")
        self._output = bytearray(rest)
        return line.decode()

    async def end(self) -> int:
        assert self.process.stdin is not None
        await self.process.stdin.aclose()
        return await self.process.wait()


@define(eq=False)
class TwoClientBarrier:
    """A hook that delays every refresh until two clients have noticed the expiry of their token."""

    expired: int = field(default=0, init=False)
    both_expired: trio.Event = field(factory=trio.Event, init=False)

    async def __call__(self, endpoint: str) -> None:
        if endpoint == "introspect":
            self.expired += 1
            if self.expired == 2:
                self.both_expired.set()
        elif endpoint == "token":
            await self.both_expired.wait()


@pytest.mark.requirement("C.2-14", "C.2-18")
@pytest.mark.skipif(sys.platform == "win32", reason="the locks of the file need POSIX")
async def test_processes_that_share_a_file_never_reuse_a_refresh_token(tmp_path: Path) -> None:
    storage, rounds = FileTokenStorage(tmp_path / "tokens.json"), 5

    async def browse(url: str) -> None:
        async with httpx2.AsyncClient(follow_redirects=True, trust_env=False) as browser:
            await browser.get(url)

    async with (
        open_authorization_server(auto_consent=True, users={"ada": "x"}, clients=[KNOWN_SHOP]) as auth,
        serving_protected(auth.issuer, verifier=introspecting(auth.issuer)) as url,
    ):
        async with open_http_client(url, auth=OAuth(storage=storage, show=browse)) as client:
            assert await call_text(client, "whoami") == "ada"
        children = [await Child.started(str(storage.path), url) for _ in range(2)]
        assert [await child.line() for child in children] == ["connected"] * 2
        for _ in range(rounds):
            auth.expire_tokens()
            auth.settings.before = TwoClientBarrier()
            for child in children:
                await child.send_line()
            assert [await child.line() for child in children] == ["ada", "ada"]
        assert [await child.end() for child in children] == [0, 0]

    assert (auth.refreshes, auth.reuses) == (rounds, 0)
    assert len(auth.asked("authorize")) == 1
