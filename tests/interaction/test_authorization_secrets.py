"""Tokens, codes, verifiers and states are in no log, no error and no `repr`, and no handler is handed one."""

from __future__ import annotations

import gc
import logging
import sys
from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import Any

import pytest
import trio
from attrs import define, field

from tests.auth.protected_server import serving_protected
from tests.interaction.authorized import LATEST, MODERN, Street, every_way, login, person, query_of, said
from trio_mcp import AuthorizationFailed, OAuth, open_http_client
from trio_mcp.testing import open_authorization_server


@define(eq=False)
class Secrets:
    """What nobody but client and servers may see, as it comes by."""

    seen: set[str] = field(factory=set[str])

    def take(self, endpoint: str, members: dict[str, Any]) -> Mapping[str, Any]:
        """Look at what the authorization server answers."""
        names = ("access_token", "refresh_token", "client_secret", "code", "state")
        self.seen |= {str(members[name]) for name in names if name in members}
        return members

    def take_requests(self, street: Street) -> None:
        """Look at what was sent."""
        for seen in street.overheard.requests:
            if seen.method == "POST":
                form = query_of(f"?{seen.body.decode()}")
                self.seen |= {form[name] for name in ("code_verifier", "client_assertion") if name in form}
        self.seen |= {seen.headers["dpop"] for seen in street.requests if "dpop" in seen.headers}

    def found_in(self, text: str) -> list[str]:
        return [secret for secret in self.seen if secret in text]


@pytest.fixture
def new_objects() -> Generator[Callable[[], str]]:
    """Return what tells how all objects of the package show themselves that the test has made, and that are left."""

    def show() -> str:
        found = [one for one in gc.get_objects() if type(one).__module__.startswith("trio_mcp.")]
        return "\n".join(repr(one) for one in found if not type(one).__module__.startswith("trio_mcp.testing"))

    gc.freeze()
    yield show
    gc.unfreeze()


@define(eq=False)
class Life:
    """Everything that can happen to a client with a person, and all the secrets of it."""

    transport: str
    revision: str
    dpop: bool
    secrets: Secrets = field(factory=Secrets, init=False)
    street: Street = field(init=False)

    def __attrs_post_init__(self) -> None:
        auth = login(token_seconds=600, change=self.secrets.take, auth_methods=["client_secret_basic"])
        self.street = Street(auth, self.transport)

    async def run(self, look: Callable[[str], Awaitable[None]]) -> AuthorizationFailed:
        """Live it; return the last failure. *look* is called at each request to the authorization server."""
        street, auth = self.street, self.street.auth

        @street.shop.server.tool
        async def look_around() -> str:
            await look("tool")
            return "seen"

        async with (
            street.open(),
            street.client(person(auth, dpop=self.dpop), revision=self.revision) as client,
        ):
            auth.settings.before = look
            assert await said(client, "whoami") == "ada"
            assert await said(client, "look_around") == "seen"
            await trio.sleep(700)
            assert await said(client, "whoami") == "ada"
            assert await said(client, "buy") == "ada buys"
            auth.revoke_all()
            auth.settings.policy = lambda _: None
            await trio.sleep(700)
            with pytest.raises(AuthorizationFailed) as caught:
                await said(client, "whoami")
            await look("end")
        self.secrets.take_requests(street)
        assert len(self.secrets.seen) > 6
        return caught.value


@pytest.mark.requirement("C.2-18", "C.3-4")
@pytest.mark.parametrize("dpop", [False, True])
@every_way
async def test_no_secret_is_logged_or_said_or_handed_to_a_handler(
    transport: str, revision: str, dpop: bool, autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    async def look(_: str) -> None:
        await trio.lowlevel.checkpoint()

    caplog.set_level(logging.DEBUG)
    life = Life(transport, revision, dpop)
    failure = await life.run(look)

    assert life.secrets.found_in(caplog.text) == []
    assert life.secrets.found_in(f"{failure!r} {failure.__cause__!r}") == []
    shown = life.street.shop.shown
    assert shown != []
    assert life.secrets.found_in(str(shown)) == []
    assert not {"authorization", "dpop", "cookie"} & {name for each in shown for name in each}


@pytest.mark.requirement("C.2-18")
@pytest.mark.parametrize("dpop", [False, True])
@pytest.mark.parametrize("revision", [MODERN, LATEST])
async def test_no_object_shows_a_secret(
    revision: str, dpop: bool, autojump_clock: object, new_objects: Callable[[], str]
) -> None:
    moments, shown = {"tool", "authorize", "token", "end"}, dict[str, str]()

    async def look(where: str) -> None:
        await trio.lowlevel.checkpoint()
        if where in moments:
            shown[where] = shown.get(where, "") + new_objects()

    life = Life("http", revision, dpop)
    await life.run(look)

    assert shown.keys() == moments
    assert "GrantSource" in shown["token"]
    assert {where: found for where, text in shown.items() if (found := life.secrets.found_in(text))} == {}


@pytest.mark.requirement("C.2-18")
@pytest.mark.parametrize("dpop", [False, True])
async def test_the_libraries_below_log_no_secret_either(dpop: bool, caplog: pytest.LogCaptureFixture) -> None:
    async def browse(url: str) -> None:
        visit = "import sys, urllib.request; urllib.request.urlopen(sys.argv[1]).read()"
        await trio.run_process([sys.executable, "-c", visit, url])

    secrets = Secrets()
    async with (
        open_authorization_server(auto_consent=True, users={"ada": "x"}, change=secrets.take) as auth,
        serving_protected(auth.issuer) as url,
    ):
        caplog.set_level(logging.DEBUG)
        async with open_http_client(url, auth=OAuth(show=browse, dpop=dpop)) as client:
            assert await said(client, "whoami") == "ada"
            assert await said(client, "erase") == "erased by ada"

    assert {"httpcore2.http11", "httpx2"} & {record.name for record in caplog.records}
    assert len(secrets.seen) > 6
    assert secrets.found_in(caplog.text) == []
