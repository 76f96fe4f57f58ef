"""Tokens, codes, verifiers and states stay out of logs, errors, `repr` and handlers."""

from __future__ import annotations

import gc
import logging
import sys
from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import Any

import httpx2
import pytest
import trio
from attrs import define, field

from tests.auth.protected_server import serving_protected
from tests.interaction.protected_deployment import (
    LATEST,
    MODERN,
    Deployment,
    call_text,
    every_transport,
    login_server,
    query_of,
    user_credentials,
)
from trio_mcp import AuthorizationFailed, OAuth, open_http_client
from trio_mcp.testing import open_authorization_server


@define(eq=False)
class Secrets:
    """A collector of the secrets that only the client and the servers may see."""

    seen: set[str] = field(factory=set[str])

    def record_response(self, endpoint: str, members: dict[str, Any]) -> Mapping[str, Any]:
        """Record the secrets in a response of the authorization server."""
        names = ("access_token", "refresh_token", "client_secret", "code", "state")
        self.seen |= {str(members[name]) for name in names if name in members}
        return members

    def record_requests(self, deployment: Deployment) -> None:
        """Record the secrets in the requests of the client."""
        for seen in deployment.auth_witness.requests:
            if seen.method == "POST":
                form = query_of(f"?{seen.body.decode()}")
                self.seen |= {form[name] for name in ("code_verifier", "client_assertion") if name in form}
        self.seen |= {seen.headers["dpop"] for seen in deployment.requests if "dpop" in seen.headers}

    def found_in(self, text: str) -> list[str]:
        return [secret for secret in self.seen if secret in text]


@pytest.fixture
def new_objects() -> Generator[Callable[[], str]]:
    """Return a function that returns the `repr` of every live object of the package that the test has created."""

    def show() -> str:
        found = [value for value in gc.get_objects() if type(value).__module__.startswith("trio_mcp.")]
        return "\n".join(repr(value) for value in found if not type(value).__module__.startswith("trio_mcp.testing"))

    gc.freeze()
    yield show
    gc.unfreeze()


@define(eq=False)
class ClientLifetime:
    """A client that signs in, refreshes, steps up and is denied, with all the secrets of these flows."""

    transport: str
    revision: str
    dpop: bool
    secrets: Secrets = field(factory=Secrets, init=False)
    deployment: Deployment = field(init=False)

    def __attrs_post_init__(self) -> None:
        auth = login_server(
            token_seconds=600, change=self.secrets.record_response, auth_methods=["client_secret_basic"]
        )
        self.deployment = Deployment(auth, self.transport)

    async def run(self, look: Callable[[str], Awaitable[None]]) -> AuthorizationFailed:
        """Run every flow and return the last failure; *look* is called at each request to the authorization server."""
        deployment, auth = self.deployment, self.deployment.auth

        @deployment.shop.server.tool
        async def look_around() -> str:
            await look("tool")
            return "seen"

        async with (
            deployment.open(),
            deployment.client(user_credentials(auth, dpop=self.dpop), revision=self.revision) as client,
        ):
            auth.settings.before = look
            assert await call_text(client, "whoami") == "ada"
            assert await call_text(client, "look_around") == "seen"
            await trio.sleep(700)
            assert await call_text(client, "whoami") == "ada"
            assert await call_text(client, "buy") == "ada buys"
            auth.revoke_all()
            auth.settings.policy = lambda _: None
            await trio.sleep(700)
            with pytest.raises(AuthorizationFailed) as caught:
                await call_text(client, "whoami")
            await look("end")
        self.secrets.record_requests(deployment)
        assert len(self.secrets.seen) > 6
        return caught.value


@pytest.mark.requirement("C.2-18", "C.3-4")
@pytest.mark.parametrize("dpop", [False, True])
@every_transport
async def test_no_secret_is_in_a_log_an_error_or_a_request_that_a_handler_sees(
    transport: str, revision: str, dpop: bool, autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    async def look(_: str) -> None:
        await trio.lowlevel.checkpoint()

    caplog.set_level(logging.DEBUG)
    lifetime = ClientLifetime(transport, revision, dpop)
    failure = await lifetime.run(look)

    assert lifetime.secrets.found_in(caplog.text) == []
    assert lifetime.secrets.found_in(f"{failure!r} {failure.__cause__!r}") == []
    shown = lifetime.deployment.shop.shown
    assert shown != []
    assert lifetime.secrets.found_in(str(shown)) == []
    assert not {"authorization", "dpop", "cookie"} & {name for each in shown for name in each}


@pytest.mark.requirement("C.2-18")
@pytest.mark.parametrize("dpop", [False, True])
@pytest.mark.parametrize("revision", [MODERN, LATEST])
async def test_no_repr_contains_a_secret(
    revision: str, dpop: bool, autojump_clock: object, new_objects: Callable[[], str]
) -> None:
    moments, shown = {"tool", "authorize", "token", "end"}, dict[str, str]()

    async def look(where: str) -> None:
        await trio.lowlevel.checkpoint()
        if where in moments:
            shown[where] = shown.get(where, "") + new_objects()

    lifetime = ClientLifetime("http", revision, dpop)
    await lifetime.run(look)

    assert shown.keys() == moments
    assert "GrantSource" in shown["token"]
    assert {where: found for where, text in shown.items() if (found := lifetime.secrets.found_in(text))} == {}


@pytest.mark.requirement("C.2-18")
@pytest.mark.parametrize("dpop", [False, True])
async def test_the_http_libraries_log_no_secret(dpop: bool, caplog: pytest.LogCaptureFixture) -> None:
    async def browse(url: str) -> None:
        visit = "import sys, urllib.request; urllib.request.urlopen(sys.argv[1]).read()"
        await trio.run_process([sys.executable, "-c", visit, url])

    secrets = Secrets()
    async with (
        open_authorization_server(auto_consent=True, users={"ada": "x"}, change=secrets.record_response) as auth,
        serving_protected(auth.issuer) as url,
    ):
        caplog.set_level(logging.DEBUG)
        async with (
            httpx2.AsyncClient() as http_client,
            open_http_client(url, auth=OAuth(show=browse, dpop=dpop), http_client=http_client) as client,
        ):
            assert await call_text(client, "whoami") == "ada"
            assert await call_text(client, "erase") == "erased by ada"

    assert {"httpcore2.http11", "httpx2"} & {record.name for record in caplog.records}
    assert len(secrets.seen) > 6
    assert secrets.found_in(caplog.text) == []
