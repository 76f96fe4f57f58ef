"""A protected shop, the authorization server that it trusts, and its clients, all in this process."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, urlsplit

import pytest
import trio
from attrs import define, field, frozen

from tests.interaction.over_http import IN_PROCESS, Seen, Witness, carries, only_legacy
from trio_mcp import (
    CacheHint,
    Client,
    Context,
    IntrospectionVerifier,
    MemoryEventStore,
    OAuth,
    Registration,
    ResourceServer,
    Server,
    SessionSettings,
    http_app,
    open_http_client,
    types,
)
from trio_mcp.abc import ClientAuth
from trio_mcp.testing import AsgiNetwork, AuthorizationServer
from trio_mcp.transports import AsgiApp, engine_fetch

ISSUER = "https://login.example"
ORIGIN = "https://mcp.example"
URL = f"{ORIGIN}/mcp"
REDIRECT_URI = "http://127.0.0.1/callback"
LATEST, MODERN = types.REVISIONS[-2], types.REVISIONS[-1]
COMBINATIONS = [
    (transport, revision) for transport in IN_PROCESS for revision in types.REVISIONS if carries(transport, revision)
]
"""Each transport over HTTP with each revision that has it."""

Change: TypeAlias = Callable[[str, dict[str, Any]], Mapping[str, Any]]

every_transport = pytest.mark.parametrize(("transport", "revision"), COMBINATIONS)


@frozen
class Order:
    count: int


@define(eq=False)
class Shop:
    """A server that sells goods to its users."""

    server: Server = field(factory=lambda: Server("shop", cache={"resources/read": CacheHint(ttl=600)}), init=False)
    shown: list[dict[str, str]] = field(factory=list[dict[str, str]], init=False)
    """The header fields that handlers received."""
    ordered: list[str] = field(factory=list[str], init=False)

    def __attrs_post_init__(self) -> None:
        self.server.tool(self.whoami)
        self.server.tool(scopes=["buy"])(self.buy)
        self.server.tool(self.stock)
        self.server.tool(self.order)
        self.server.resource("shop://stock")(self.read_stock)

    async def whoami(self, ctx: Context) -> str:
        self.shown.append(dict(ctx.headers))
        return str(ctx.principal)

    async def buy(self, ctx: Context) -> str:
        return f"{ctx.principal} buys"

    async def stock(self, ctx: Context) -> str:
        """Notify the listening clients that the stock has changed."""
        ctx.resource_updated("shop://stock")
        return "changed"

    async def order(self, ctx: Context) -> str:
        answer: Any = await ctx.elicit("How many?", Order)
        self.ordered.append(f"{ctx.principal} orders {answer.value.count}")
        return self.ordered[-1]

    async def read_stock(self, ctx: Context) -> str:
        return f"what {ctx.principal} may see"


def login_server(issuer: str = ISSUER, **options: Any) -> AuthorizationServer:
    """Return an authorization server whose only user, ada, allows every request."""
    usual: dict[str, Any] = {"auto_consent": True, "users": {"ada": "x"}, "clock": trio.current_time}
    return AuthorizationServer(issuer, **{**usual, **options})


@define(eq=False)
class Deployment:
    """The shop, the authorization server, and the HTTP transport between all parties.

    Args:
        auth: the authorization server; by default every client can register there, and every user is ada.
        transport: one of `IN_PROCESS`.
        options: of the `ResourceServer`.
        others: further applications, by origin.
    """

    auth: AuthorizationServer = field(factory=login_server)
    transport: str = "http"
    options: dict[str, Any] = field(factory=dict[str, Any])
    others: dict[str, AsgiApp] = field(factory=dict[str, AsgiApp])
    shop: Shop = field(factory=Shop, init=False)
    witness: Witness = field(init=False)
    """The requests that the shop received."""
    auth_witness: Witness = field(init=False)
    """The requests that the authorization server received."""
    network: AsgiNetwork = field(init=False)

    def __attrs_post_init__(self) -> None:
        fetch = engine_fetch(AsgiNetwork({self.auth.issuer: self.auth, **self.others}))
        usual: dict[str, Any] = {"issuers": [self.auth.issuer], "fetch": fetch, "clock": trio.current_time}
        protection = ResourceServer(URL, **{**usual, **self.options})
        store = MemoryEventStore() if self.transport == "http-resumable" else None
        app = http_app(self.shop.server, auth=protection, sessions=SessionSettings(event_store=store))
        self.witness = Witness(only_legacy(app) if self.transport == "http-sse" else app)
        self.auth_witness = Witness(self.auth)
        self.network = AsgiNetwork({ORIGIN: self.witness, self.auth.issuer: self.auth_witness, **self.others})

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[None]:
        """Serve all of it; a timeout bounds the block."""
        with trio.fail_after(100_000):
            async with self.network.lifespan():
                yield

    def client(self, auth: ClientAuth | None, **options: Any) -> AbstractAsyncContextManager[Client]:
        """Return a client of the shop."""
        return open_http_client(URL, engine=self.network, auth=auth, **options)

    @property
    def requests(self) -> list[Seen]:
        """The requests that the shop received, except those for public metadata."""
        return [seen for seen in self.witness.requests if not seen.target.startswith("/.well-known/")]

    def statuses(self, status: int) -> int:
        """Return how many responses of the shop had a status."""
        return sum(message.get("status") == status for message in self.witness.sent)


def user_credentials(auth: AuthorizationServer, **options: Any) -> OAuth:
    """Return credentials of a user whose browser follows every redirect."""
    usual: dict[str, Any] = {"visit": auth.visit, "redirect_uri": REDIRECT_URI, "clock": trio.current_time}
    return OAuth(**{**usual, **options})


def without_user(**options: Any) -> OAuth:
    """Return credentials that fail the test if a user has to sign in."""

    async def visit(url: str) -> str:
        raise AssertionError(f"the user is asked to sign in, at {url}")

    return OAuth(visit=visit, redirect_uri=REDIRECT_URI, clock=trio.current_time, **options)


async def call_text(client: Client, tool: str) -> str:
    """Call a tool and return its text."""
    [content] = (await client.call_tool(tool)).content
    assert isinstance(content, types.TextContent)
    return content.text


def introspecting(issuer: str = ISSUER) -> IntrospectionVerifier:
    """Return a verifier that introspects the token of every request as the client `shop`."""
    return IntrospectionVerifier(client=Registration("shop", secret="x", issuer=issuer), cache_seconds=0)


def query_of(url: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(url).query, keep_blank_values=True))


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def changing(endpoint: str, **changed: Any) -> Change:
    """Return a change of the responses of one endpoint; None leaves a member out."""

    def change(requested: str, members: dict[str, Any]) -> Mapping[str, Any]:
        if requested != endpoint:
            return members
        return {name: value for name, value in {**members, **changed}.items() if value is not None}

    return change
