"""The credentials of a gateway at its servers: its own or those of a principal, and never the token of a caller."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
from attrs import define, field

from tests.gateway.upstreams import gateway_of, served, text_of
from trio_mcp import (
    Access,
    Bearer,
    ClientCredentials,
    Context,
    EnterpriseManaged,
    ErrorResponse,
    Registration,
    ResourceServer,
    Server,
    http_app,
    open_http_client,
)
from trio_mcp.testing import AsgiEngine, AuthorizationServer, KnownClient, open_authorization_server
from trio_mcp.transports import HttpListening, bind_sockets, serve_asgi

LISTENING = HttpListening(host="127.0.0.1", port=0)
TIMEOUT_SECONDS = 60
KNOWN = KnownClient("gateway", secret="s3cret")
AT_IDP = KnownClient("gateway-at-idp", secret="idp-s3cret")
FRONT = "https://front.example/mcp"


@define(eq=False)
class Protected:
    """A server on a local socket that requires a token, and that keeps the requests that it received."""

    url: str
    server: Server
    received: list[bytes] = field(factory=list[bytes])
    """The header fields of the requests, and their bodies."""
    status: int | None = None
    """The status of all further responses; None for what the server says."""

    def app(self, auth: AuthorizationServer) -> Callable[..., Awaitable[None]]:
        app = http_app(self.server, auth=ResourceServer(self.url, issuers=[auth.issuer]))

        async def kept(scope: Any, receive: Any, send: Any) -> None:
            async def receive_and_keep() -> Any:
                message = await receive()
                self.received.append(message.get("body", b""))
                return message

            self.received.extend(b": ".join(each) for each in scope.get("headers", ()))
            if self.status is None:
                await app(scope, receive_and_keep, send)
                return
            await send({"type": "http.response.start", "status": self.status, "headers": []})
            await send({"type": "http.response.body", "body": b"the key is s3cret"})

        return kept


def shop() -> Server:
    server = Server("shop")

    @server.tool
    async def whoami(ctx: Context) -> str:
        return str(ctx.principal)

    return server


@asynccontextmanager
async def protected(auth: AuthorizationServer) -> AsyncGenerator[Protected]:
    """Serve a protected server that accepts the tokens of an authorization server."""
    sockets = await bind_sockets(LISTENING)
    upstream = Protected(f"http://127.0.0.1:{sockets.bound.port}/mcp", shop())
    serve = partial(
        serve_asgi, upstream.app(auth), LISTENING, stopping=trio.sleep_forever, drain=trio.sleep_forever,
        drain_seconds=0, sockets=sockets,
    )  # fmt: skip
    async with trio.open_nursery() as nursery:
        await nursery.start(serve)
        yield upstream
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def world(known: KnownClient = KNOWN, **options: Any) -> AsyncGenerator[tuple[AuthorizationServer, Protected]]:
    """Run an authorization server, and a server that it protects."""
    with trio.fail_after(TIMEOUT_SECONDS):
        async with (
            open_authorization_server(fetch=None, clients=[known], **options) as auth,
            protected(auth) as upstream,
        ):
            yield auth, upstream


def access_token(auth: AuthorizationServer, resource: str, subject: str) -> str:
    return auth.issue_token(resource=resource, subject=subject)


async def test_a_gateway_has_a_token_of_its_own_and_never_passes_on_that_of_a_caller() -> None:
    async with world() as (auth, upstream):
        gateway = gateway_of(upstream.url, auth=ClientCredentials("gateway", secret="s3cret"))
        theirs = access_token(auth, FRONT, "ada")
        app = http_app(gateway, auth=ResourceServer(FRONT, issuers=[auth.issuer]))
        engine = AsgiEngine(app)
        async with engine.lifespan(), open_http_client(FRONT, auth=Bearer(theirs), engine=engine) as client:
            assert text_of(await client.call_tool("whoami")) == "client gateway"
            assert text_of(await client.call_tool("whoami", meta={"com.example/token": "x"})) == "client gateway"
        received = b"\n".join(upstream.received)
        assert b"authorization: Bearer" in received
        assert theirs.encode() not in received


async def test_without_credentials_a_protected_server_fails_and_the_caller_learns_nothing_of_it() -> None:
    async with world() as (auth, upstream):
        url = f"{upstream.url}?key=s3cret"
        gateway = gateway_of(url)
        async with served(gateway) as front, front.client("ada") as client:
            with pytest.raises(ErrorResponse, match="no tool 'whoami' on the servers of this gateway"):
                await client.call_tool("whoami")
        del auth


async def test_a_function_chooses_the_credentials_of_each_principal() -> None:
    async with world() as (auth, upstream):

        def auth_of(access: Access | None) -> Bearer:
            assert access is not None
            return Bearer(access_token(auth, upstream.url, f"{access.principal} of the gateway"))

        gateway = gateway_of(upstream.url, auth=auth_of, share="principal")
        async with served(gateway) as front, front.client("ada") as ada, front.client("bob") as bob:
            for _ in range(2):
                said = [text_of(await client.call_tool("whoami")) for client in (ada, bob)]
                assert said == ["ada of the gateway", "bob of the gateway"]
            assert gateway.status["crm"].connections == 2


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (401, "answered with the HTTP status 401"),
        (403, "answered with the HTTP status 403"),
        (500, "answered with the HTTP status 500"),
    ],
)
async def test_a_server_that_refuses_the_gateway_is_named_and_nothing_secret_is_said(status: int, said: str) -> None:
    async with world() as (auth, upstream):
        gateway = gateway_of(upstream.url, auth=Bearer(access_token(auth, upstream.url, "ada")))
        async with served(gateway) as front, front.client() as client:
            assert text_of(await client.call_tool("whoami")) == "ada"
            upstream.status = status
            result = await client.call_tool("whoami")
            assert (result.is_error, text_of(result)) == (True, f"the server 'crm' behind this gateway {said}")
            upstream.status = None
            assert text_of(await client.call_tool("whoami")) == "ada"


async def test_a_token_that_cannot_be_renewed_costs_the_calls_that_need_it() -> None:
    async with world() as (auth, upstream):
        tokens = [access_token(auth, upstream.url, "ada")]

        async def token() -> str:
            return tokens.pop()

        gateway = gateway_of(upstream.url, auth=Bearer(token))
        async with served(gateway) as front, front.client() as client:
            assert text_of(await client.call_tool("whoami")) == "ada"
            upstream.status = 401
            expected = "the server 'crm' behind this gateway does not accept the credentials of the gateway"
            assert text_of(await client.call_tool("whoami")) == expected


async def test_each_principal_is_signed_in_by_the_identity_provider_of_the_enterprise() -> None:
    with trio.fail_after(TIMEOUT_SECONDS):
        async with (
            open_authorization_server(fetch=None, clients=[AT_IDP]) as idp,
            world(trusted_issuers={idp.issuer: idp.jwks}, known=KnownClient("gateway-at-idp", secret="s3cret")) as (
                auth,
                upstream,
            ),
        ):
            asked: list[str] = []

            def auth_of(access: Access | None) -> EnterpriseManaged:
                assert access is not None
                asked.append(access.principal)
                return EnterpriseManaged(
                    Registration("gateway-at-idp", secret="s3cret", issuer=auth.issuer),
                    idp_client_id="gateway-at-idp",
                    idp_secret="idp-s3cret",
                    idp_issuer=idp.issuer,
                    idp_token_endpoint=f"{idp.issuer}/token",
                    id_token=idp.issue_id_token(subject=access.principal, client_id="gateway-at-idp"),
                )

            gateway = gateway_of(upstream.url, auth=auth_of, share="principal")
            async with served(gateway) as front, front.client("ada") as ada, front.client("bob") as bob:
                for _ in range(2):
                    said = [text_of(await client.call_tool("whoami")) for client in (ada, bob)]
                    assert said == ["ada", "bob"]
            assert asked == ["ada", "bob"]
