"""The credentials of an API: those of each caller, and what is told of them when a call fails."""

from __future__ import annotations

import base64
from collections.abc import Generator, Mapping
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from tests.openapi.helpers import MIRROR, add, call, describe, parameter
from trio_mcp import Bearer, Context, ResourceServer, Server, ToolError, http_app, open_http_client
from trio_mcp.openapi import add_openapi
from trio_mcp.testing import AsgiNetwork, AuthorizationServer
from trio_mcp.transports import engine_fetch

ISSUER, URL = "https://login.example", "https://mcp.example/mcp"
KEYS = {"ada": "key-of-ada", "bo": "key-of-bo"}


async def of_caller(ctx: Context) -> Mapping[str, str]:
    """Return the credentials of the user who calls."""
    if ctx.principal not in KEYS:
        raise ToolError(f"{ctx.principal} has no account at the shop")
    return {"Authorization": f"Bearer {KEYS[ctx.principal]}"}


async def test_each_caller_has_its_own_credentials_and_its_token_stays_with_this_server() -> None:
    server, _ = add(describe(get={}), auth=of_caller)
    login = AuthorizationServer(ISSUER)
    protection = ResourceServer(URL, issuers=[ISSUER], fetch=engine_fetch(AsgiNetwork({ISSUER: login})))
    network = AsgiNetwork({"https://mcp.example": http_app(server, auth=protection)})

    async def seen_of(user: str) -> Any:
        token = login.issue_token(resource=URL, subject=user)
        async with open_http_client(URL, engine=network, auth=Bearer(token)) as client:
            result = await client.call_tool("get")
        assert token not in repr(result)
        if result.is_error:
            (content,) = result.content
            return getattr(content, "text", None)
        seen: Any = result.structured_content
        return seen["fields"]

    async with network.lifespan():
        assert await seen_of("ada") == {"authorization": "Bearer key-of-ada"}
        assert await seen_of("bo") == {"authorization": "Bearer key-of-bo"}
        assert await seen_of("cy") == "cy has no account at the shop"


async def test_the_credentials_of_a_caller_who_is_not_authenticated_may_be_refused() -> None:
    server, _ = add(describe(get={}), auth=of_caller)

    assert await call(server, "get") == "None has no account at the shop"


# --- What a model is told of them ---


class KeyInQuery(httpx2.Auth):
    """Credentials in the query."""

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response]:
        """Add the key to the URL."""
        request.url = request.url.copy_add_param("key", "s3cr/et")
        yield request


async def _tell_all(request: Request) -> Response:
    """Fail with all that the request holds."""
    fields = {name: value for name, value in request.headers.items() if name not in {"host", "accept-encoding"}}
    return JSONResponse({"detail": str(request.url), "fields": fields, "query": dict(request.query_params)}, 400)


TELLING = Starlette(routes=[Route("/get", _tell_all)])


@pytest.mark.parametrize(
    ("auth", "secrets"),
    [
        ({"Authorization": "Bearer s3cret", "X-Version": "1"}, ["s3cret"]),
        ({"X-Key": 'a "quoted" key'}, ["quoted"]),
        ({"Cookie": "session=s3cret; other=0ther"}, ["s3cret", "0ther"]),
        (httpx2.BasicAuth("ada", "s3cret"), ["s3cret", base64.b64encode(b"ada:s3cret").decode()]),
        ({"Authorization": "Basic no-base64!"}, ["no-base64!"]),
        (KeyInQuery(), ["s3cr/et", "s3cr%2Fet"]),
    ],
)
async def test_credentials_are_removed_from_what_an_api_says_of_a_failure(auth: Any, secrets: list[str]) -> None:
    server, _ = add(describe(get={"parameters": [parameter("q"), parameter("X-It", "header")]}), TELLING, auth=auth)

    said = await call(server, "get", q="asked", **{"X-It": "header"})

    assert said.startswith("the API answered 400 Bad Request: http://application/get?q=asked")
    assert "[removed]" in said
    assert '"x-it": "header"' in said
    assert [secret for secret in secrets if secret in said] == []


async def test_a_client_of_the_program_keeps_its_own_credentials_which_are_secrets_too() -> None:
    transport = httpx2.ASGITransport(app=TELLING)
    own = httpx2.AsyncClient(transport=transport, headers={"X-Key": "s3cret"}, auth=httpx2.BasicAuth("ada", "0ther"))
    server = Server("web")
    add_openapi(server, describe(get={}), include=["get"], base_url="http://api.test", http_client=own)

    async with own:
        said = await call(server, "get")

    assert '"x-key": "[removed]"' in said
    assert '"authorization": "[removed]"' in said


async def test_credentials_in_the_base_url_are_no_part_of_a_result() -> None:
    async def give(request: Request) -> Response:
        assert request.headers["authorization"] == "Basic YWRhOnMzY3JldA=="
        return Response(b"PK", media_type="application/zip")

    app = Starlette(routes=[Route("/get", give)])
    server, _ = add(describe(get={}), app, base_url="https://ada:s3cret@api.test")

    assert (await call(server, "get")).resource.uri == "https://api.test/get"


async def test_a_long_failure_keeps_its_status_and_its_beginning() -> None:
    async def fail(_: Request) -> Response:
        return PlainTextResponse("x" * 5000, 503)

    server, _ = add(describe(get={}), Starlette(routes=[Route("/get", fail)]), max_response_bytes=100)

    said = await call(server, "get")

    assert said.startswith("the API answered 503 Service Unavailable: xxx")
    assert len(said) <= 1100


async def test_a_url_that_cannot_be_is_a_tool_error() -> None:
    server, _ = add(describe(get={"parameters": [parameter("q")]}), MIRROR)

    assert await call(server, "get", q="x" * 70_000) == "the API cannot be reached: InvalidURL"
