"""The official SDK's client at our protected server, with tokens of our authorization server.

Both of our servers are in this process, on sockets; `official_client.py` plays plans, and its user allows everything.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Unpack

import pytest
import trio
from attrs import define, field

from tests.auth.protected_server import protected_server, serving_protected
from tests.peers.conftest import MODES, Perform
from tests.peers.test_official_client import Step, call, value
from trio_mcp.testing import (
    AuthorizationServer,
    AuthorizationServerOptions,
    KnownClient,
    open_authorization_server,
)

LIFE = 600  # seconds until a token expires
A_WHILE = 3600.0  # seconds, more than the lifetime of a token
SIGNED_IN_USER: Mapping[str, str] = {}


@define(eq=False)
class Clock:
    """The clock of our servers, which advances when the official client waits."""

    now: float = field(factory=time.time)

    def __call__(self) -> float:
        return self.now


@define(eq=False)
class Bench:
    """Our two servers and the official client."""

    authorization: AuthorizationServer
    url: str
    player: Perform

    async def play(self, mode: str, *steps: Step, auth: Mapping[str, str] = SIGNED_IN_USER) -> list[Any]:
        """Return the outcomes of a plan; `call` makes its steps."""
        perform = partial(self.player, mode=mode, server=self.url, steps=steps, auth=auth)
        report = await trio.to_thread.run_sync(perform)
        assert report["revision"] == MODES[mode]
        outcomes: list[Any] = report["steps"]
        return outcomes

    def asked_for(self) -> list[set[str]]:
        """Return the requested scopes of each visit of the user."""
        return [{*request.parameters["scope"].split()} for request in self.authorization.asked("authorize")]

    def granted(self) -> list[str]:
        """Return the grant types of the token requests."""
        return [request.parameters["grant_type"] for request in self.authorization.asked("token")]


@asynccontextmanager
async def serving(player: Perform, **options: Unpack[AuthorizationServerOptions]) -> AsyncGenerator[Bench]:
    clock, server = Clock(), protected_server()

    @server.tool()
    async def wait(seconds: float) -> None:
        clock.now += seconds

    options |= {"auto_consent": True, "clock": clock, "token_seconds": LIFE}
    async with (
        open_authorization_server(**options) as authorization,
        serving_protected(authorization.issuer, server=server, scopes=["read"], clock=clock) as url,
    ):
        yield Bench(authorization, url, player)


@pytest.mark.parametrize("mode", MODES)
async def test_a_user_signs_in_once_for_calls_refreshes_a_step_up_and_another_connection(
    official_player: Perform, mode: str
) -> None:
    expiry: list[Step] = [call("wait", seconds=A_WHILE), {"do": "age", "seconds": A_WHILE}]
    async with serving(official_player) as bench:
        who, *_, still, erased, _, _, erased_again = await bench.play(
            mode, call("whoami"), *expiry, call("whoami"), call("erase"), *expiry, call("erase")
        )

        assert [value(who), value(still)] == ["user", "user"]
        assert [value(erased), value(erased_again)] == ["erased by user", "erased by user"]
        assert bench.asked_for() == [{"read"}, {"read", "write"}]
        assert bench.granted() == ["authorization_code", "refresh_token", "authorization_code", "refresh_token"]
        assert len(bench.authorization.asked("register")) == 1
        assert bench.authorization.reuses == 0

        (erased,) = await bench.play(mode, call("erase"))

        assert value(erased) == "erased by user"
        assert len(bench.asked_for()) == 2


@pytest.mark.parametrize("mode", MODES)
async def test_a_token_that_expires_unnoticed_leads_the_client_back_to_the_authorization_server(
    official_player: Perform, mode: str
) -> None:
    async with serving(official_player) as bench:
        *_, who = await bench.play(mode, call("whoami"), call("wait", seconds=A_WHILE), call("whoami"))

        assert value(who) == "user"
        assert bench.asked_for() == [{"read"}, {"read"}]
        assert len(bench.authorization.asked("register")) == 1


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
async def test_a_client_with_its_own_credentials_needs_no_user(
    official_player: Perform, mode: str, method: str
) -> None:
    known = KnownClient("a:service", secret="100 % secret", grant_types=["client_credentials"])
    async with serving(official_player, clients=[known]) as bench:
        credentials = {
            "client_id": known.client_id,
            "client_secret": "100 % secret",
            "token_endpoint_auth_method": method,
            "issuer": bench.authorization.issuer,
        }

        who, erased, *_, still = await bench.play(
            mode, call("whoami"), call("erase"), call("wait", seconds=A_WHILE), call("whoami"), auth=credentials
        )

        name = "client a:service"
        assert [value(who), value(erased), value(still)] == [name, f"erased by {name}", name]
        assert bench.asked_for() == []
        assert bench.granted() == ["client_credentials"] * 3


async def test_an_identity_provider_vouches_for_its_user(official_player: Perform) -> None:
    known, identity = KnownClient("desk", secret="the desk's"), AuthorizationServer("https://identity.example")
    trusted = {identity.issuer: identity.jwks}
    async with serving(official_player, clients=[known], trusted_issuers=trusted) as bench:
        issuer = bench.authorization.issuer
        claims = {
            "iss": identity.issuer,
            "sub": "ada",
            "aud": issuer,
            "client_id": "desk",
            "resource": bench.url,
            "scope": "read",
            "jti": "1",
            "iat": int(time.time()),
            "exp": int(time.time()) + LIFE,
        }
        credentials = {
            "client_id": "desk",
            "client_secret": "the desk's",
            "issuer": issuer,
            "scope": "read",
            "assertion": identity.sign(claims, typ="oauth-id-jag+jwt"),
        }

        (who,) = await bench.play("auto", call("whoami"), auth=credentials)

        assert value(who) == "ada"
        assert bench.asked_for() == []
        assert bench.granted() == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
