"""Many requests, connections and processes that need one token: it is got once, and nobody waits without need."""

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
from tests.interaction.authorized import (
    ISSUER,
    LATEST,
    MODERN,
    Street,
    every_way,
    login,
    person,
    said,
)
from trio_mcp import (
    Client,
    ConnectionClosed,
    FileTokenStorage,
    IntrospectionVerifier,
    Limits,
    MemoryTokenStorage,
    OAuth,
    Registration,
    ResourceUpdated,
    TimeLimits,
    open_http_client,
)
from trio_mcp.testing import KnownClient, open_authorization_server

SHORT = TimeLimits(idle=10, total=20, connect=30, probe=5)
PROGRAM = Path(__file__).with_name("signed_in_client.py")
SHOP = KnownClient("shop", secret="x")


def introspecting(issuer: str) -> IntrospectionVerifier:
    """Return what asks about each token, each time."""
    return IntrospectionVerifier(client=Registration("shop", secret="x", issuer=issuer), cache_seconds=0)


@define(eq=False)
class Desk:
    """What holds the requests of one endpoint back, until it is told otherwise."""

    endpoint: str
    asked: trio.Event = field(factory=trio.Event, init=False)
    open: trio.Event = field(factory=trio.Event, init=False)

    async def __call__(self, endpoint: str) -> None:
        if endpoint == self.endpoint:
            self.asked.set()
            await self.open.wait()


# Many requests.


@pytest.mark.parametrize("is_refused", [False, True], ids=["foreseen", "refused"])
@every_way
async def test_a_hundred_calls_that_meet_an_expired_token_cause_one_refresh(
    transport: str, revision: str, is_refused: bool, autojump_clock: object
) -> None:
    auth = login(token_seconds=600, clients=[SHOP])
    street = Street(auth, transport, {"verifier": introspecting(ISSUER)})
    desk, outcomes, many = Desk("token"), list[str](), Limits(max_posts=200)

    async def call(client: Client) -> None:
        outcomes.append(await said(client, "whoami"))

    async with street.open(), street.client(person(auth), revision=revision, limits=many) as client:
        assert await said(client, "whoami") == "ada"
        auth.settings.before = desk
        if is_refused:
            auth.expire_tokens()
        else:
            await trio.sleep(601)  # which nobody but the client knows
        refused = street.statuses(401)
        async with trio.open_nursery() as nursery:
            for _ in range(100):
                nursery.start_soon(call, client)
            await trio.testing.wait_all_tasks_blocked()
            desk.open.set()
        assert street.statuses(401) - refused == (100 if is_refused else 0)

    assert outcomes == ["ada"] * 100
    assert (auth.refreshes, auth.reuses, len(auth.asked("authorize"))) == (1, 0, 1)


async def test_a_hundred_calls_of_strangers_ask_the_person_once(autojump_clock: object) -> None:
    street, outcomes = Street(), list[str]()
    grant = person(street.auth)

    async def connect() -> None:
        async with street.client(grant) as client:
            outcomes.append(await said(client, "buy"))

    async with street.open(), trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(connect)

    assert outcomes == ["ada buys"] * 20
    assert len(street.auth.asked("register")) == 1
    assert len(street.auth.asked("authorize")) == 2  # to get in, and to get further


@pytest.mark.parametrize("revision", [MODERN, LATEST])
async def test_a_caller_that_is_cancelled_tears_no_refresh(revision: str, autojump_clock: object) -> None:
    street, desk = Street(login(token_seconds=600)), Desk("token")
    storage = MemoryTokenStorage()

    async with street.open(), street.client(person(street.auth, storage=storage), revision=revision) as client:
        assert await said(client, "whoami") == "ada"
        street.auth.settings.before = desk
        await trio.sleep(700)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(said, client, "whoami")
            await desk.asked.wait()
            nursery.cancel_scope.cancel()
        desk.open.set()
        assert await said(client, "whoami") == "ada"
        assert await said(client, "whoami") == "ada"

    assert (street.auth.refreshes, street.auth.reuses, len(street.auth.asked("authorize"))) == (1, 0, 1)


async def test_a_client_that_closes_leaves_what_was_refreshed_to_the_next_one(autojump_clock: object) -> None:
    street, desk, storage = Street(login(token_seconds=600)), Desk("token"), MemoryTokenStorage()

    async def call(client: Client) -> None:
        with pytest.raises(ConnectionClosed):
            await said(client, "whoami")

    async with street.open():
        async with street.client(person(street.auth, storage=storage)) as client, trio.open_nursery() as nursery:
            assert await said(client, "whoami") == "ada"
            street.auth.settings.before = desk
            await trio.sleep(700)
            nursery.start_soon(call, client)
            await desk.asked.wait()
            nursery.start_soon(client.aclose)
            await trio.testing.wait_all_tasks_blocked()
            desk.open.set()
        async with street.client(person(street.auth, storage=storage)) as client:
            assert await said(client, "whoami") == "ada"

    assert (street.auth.refreshes, street.auth.reuses, len(street.auth.asked("authorize"))) == (1, 0, 1)


# What takes long.


@every_way
async def test_a_stream_that_listens_for_an_hour_blocks_no_call_and_hears_all(
    transport: str, revision: str, autojump_clock: object
) -> None:
    street = Street(login(token_seconds=600), transport)
    heard = list[object]()

    async def listen(client: Client) -> None:
        while True:  # the server ends a stream with the token that has opened it
            async with client.listen(resources=["shop://stock"]) as changes:
                async for change in changes:
                    heard.append(change)

    async with (
        street.open(),
        street.client(person(street.auth), revision=revision) as client,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(listen, client)
        for _ in range(12):
            await trio.sleep(300)
            began, count = trio.current_time(), len(heard)
            assert await said(client, "stock") == "changed"
            assert await said(client, "whoami") == "ada"
            assert trio.current_time() == began
            await trio.testing.wait_all_tasks_blocked()
            assert heard[count:] == [ResourceUpdated("shop://stock")]
        nursery.cancel_scope.cancel()

    assert len(street.auth.asked("authorize")) == 1
    assert street.auth.refreshes >= 5


@every_way
async def test_a_person_who_takes_two_minutes_meets_no_time_limit(
    transport: str, revision: str, autojump_clock: object
) -> None:
    street = Street(transport=transport)

    async def visit(url: str) -> str:
        await trio.sleep(120)
        return await street.auth.visit(url)

    grant = person(street.auth, visit=visit)

    async with street.open(), street.client(grant, revision=revision, time_limits=SHORT) as client:
        assert trio.current_time() == 120
        assert await said(client, "whoami") == "ada"
        assert await said(client, "buy") == "ada buys"
        assert trio.current_time() == 240


@pytest.mark.parametrize("revision", [MODERN, LATEST])
async def test_while_a_person_is_asked_about_one_call_the_others_go_on(revision: str, autojump_clock: object) -> None:
    street = Street()

    async def visit(url: str) -> str:
        await trio.sleep(120)
        return await street.auth.visit(url)

    async with street.open(), street.client(person(street.auth, visit=visit), revision=revision) as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(said, client, "buy")
            await trio.sleep(60)
            began = trio.current_time()
            assert await said(client, "whoami") == "ada"
            assert trio.current_time() == began
        assert trio.current_time() == 240


async def test_a_person_who_never_comes_back_fails_the_call_in_the_end(autojump_clock: object) -> None:
    street = Street()
    came = list[str]()

    async def visit(url: str) -> str:
        came.append(url)
        if len(came) > 1:
            await trio.sleep_forever()
        return await street.auth.visit(url)

    async with street.open(), street.client(person(street.auth, visit=visit, visit_seconds=200)) as client:
        began = trio.current_time()
        with pytest.raises(Exception, match="200 s"):
            await said(client, "buy")
        assert trio.current_time() - began == 200
        assert await said(client, "whoami") == "ada"


# Several processes.


@define(eq=False)
class Child:
    """One of them."""

    process: trio.Process
    _said: bytearray = field(factory=bytearray, init=False)

    @classmethod
    async def started(cls, *arguments: str) -> Child:
        command = [sys.executable, "-W", "error", str(PROGRAM), *arguments]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        return cls(await trio.lowlevel.open_process(command, **pipes))

    async def notify_nowait(self) -> None:
        assert self.process.stdin is not None
        await self.process.stdin.send_all(b"\n")

    async def line(self) -> str:
        assert self.process.stdout is not None
        while b"\n" not in self._said:
            chunk = await self.process.stdout.receive_some()
            assert chunk, "it has ended"
            self._said += chunk
        line, _, rest = bytes(self._said).partition(b"\n")
        self._said = bytearray(rest)
        return line.decode()

    async def end(self) -> int:
        assert self.process.stdin is not None
        await self.process.stdin.aclose()
        return await self.process.wait()


@define(eq=False)
class Both:
    """Refreshes nothing before two clients have met the end of their token."""

    met: int = field(default=0, init=False)
    all_met: trio.Event = field(factory=trio.Event, init=False)

    async def __call__(self, endpoint: str) -> None:
        if endpoint == "introspect":
            self.met += 1
            if self.met == 2:
                self.all_met.set()
        elif endpoint == "token":
            await self.all_met.wait()


@pytest.mark.requirement("C.2-14", "C.2-18")
@pytest.mark.skipif(sys.platform == "win32", reason="the file's locks is about POSIX")
async def test_processes_that_share_a_file_never_show_a_refresh_token_that_was_used(tmp_path: Path) -> None:
    storage, rounds = FileTokenStorage(tmp_path / "tokens.json"), 5

    async def browse(url: str) -> None:
        async with httpx2.AsyncClient(follow_redirects=True, trust_env=False) as browser:
            await browser.get(url)

    async with (
        open_authorization_server(auto_consent=True, users={"ada": "x"}, clients=[SHOP]) as auth,
        serving_protected(auth.issuer, verifier=introspecting(auth.issuer)) as url,
    ):
        async with open_http_client(url, auth=OAuth(storage=storage, show=browse)) as client:
            assert await said(client, "whoami") == "ada"
        children = [await Child.started(str(storage.path), url) for _ in range(2)]
        assert [await child.line() for child in children] == ["connected"] * 2
        for _ in range(rounds):
            auth.expire_tokens()
            auth.settings.before = Both()
            for child in children:
                await child.notify_nowait()
            assert [await child.line() for child in children] == ["ada", "ada"]
        assert [await child.end() for child in children] == [0, 0]

    assert (auth.refreshes, auth.reuses) == (rounds, 0)
    assert len(auth.asked("authorize")) == 1
