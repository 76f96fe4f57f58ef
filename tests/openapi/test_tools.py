"""Operations of web APIs as tools: selection, names, arguments, results, errors and credentials."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

import httpx2
import pytest
import trio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.openapi.helpers import MIRROR, OK, add, call, describe, parameter, tools
from trio_mcp import Context, Server, http_app, open_client, open_http_client, serve_http, types
from trio_mcp.openapi import add_asgi, add_openapi
from trio_mcp.testing import AsgiEngine


def answering(response: Response) -> Starlette:
    """Return an application that gives one answer to everything."""

    async def answer(_: Request) -> Response:
        return response

    return Starlette(routes=[Route("/{path:path}", answer)])


# --- Selection, names and arguments ---


async def test_an_operation_is_a_tool_with_its_words_its_arguments_and_what_its_method_says() -> None:
    document = describe(
        makeOrder={
            "method": "post",
            "summary": "Make an order",
            "parameters": [parameter("dry", schema={"type": "boolean"}, description="Only try")],
            "requestBody": {
                "description": "The order",
                "content": {"application/json": {"schema": {"type": "object"}}},
            },
        },
    )
    server, added = add(document)

    assert (await tools(server))["makeOrder"] == types.Tool(
        name="makeOrder",
        title="Make an order",
        description="Make an order",
        input_schema={
            "type": "object",
            "properties": {
                "dry": {"type": "boolean", "description": "Only try"},
                "body": {"type": "object", "description": "The order"},
            },
            "additionalProperties": False,
        },
        annotations=types.ToolAnnotations(read_only_hint=False, idempotent_hint=False, open_world_hint=True),
    )
    assert (added.names, added.left_out) == (["makeOrder"], {})
    assert 20 < added.estimated_tokens < 100


@pytest.mark.parametrize(
    ("method", "reads", "destroys", "repeats"),
    [
        ("get", True, None, True),
        ("put", False, True, True),
        ("delete", False, True, True),
        ("patch", False, True, False),
        ("post", False, None, False),
    ],
)
async def test_methods_say_what_a_tool_does(method: str, *, reads: bool, destroys: bool | None, repeats: bool) -> None:
    server, _ = add(describe(it={"method": method}))

    hints: Any = (await tools(server))["it"].annotations
    assert (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint) == (reads, destroys, repeats)


@pytest.mark.parametrize(
    ("include", "exclude", "names"),
    [
        (["tag:orders"], [], ["listOrders", "makeOrder"]),
        (["tag:*"], ["POST *"], ["listOrders", "getUser"]),
        (["GET /orders", "get /users/{id}"], [], ["listOrders", "getUser"]),
        (["list*"], [], ["listOrders"]),
        (["*"], ["tag:orders"], ["getUser", "getHealth"]),
    ],
)
def test_operations_are_selected_by_tag_path_or_id(include: list[str], exclude: list[str], names: list[str]) -> None:
    document = describe(
        listOrders={"path": "/orders", "tags": ["orders"]},
        makeOrder={"path": "/orders", "method": "post", "tags": ["orders"]},
        getUser={"path": "/users/{id}", "tags": ["users"], "parameters": [parameter("id", "path")]},
        getHealth={},
    )

    assert add(document, include=include, exclude=exclude)[1].names == names


@pytest.mark.parametrize("options", [{"include": ["tag:order"]}, {"include": ["*"], "exclude": ["GET /nothing"]}])
def test_a_pattern_that_selects_nothing_is_named(options: dict[str, Any]) -> None:
    pattern = (options["include"] + options.get("exclude", []))[-1]

    with pytest.raises(ValueError, match=f"{pattern!r} selects no operation; a pattern is"):
        add(describe(get={"tags": ["orders"]}), **options)


@pytest.mark.parametrize(
    ("options", "kind", "fault"),
    [
        ({"include": "tag:orders"}, TypeError, r"include='tag:orders': must be a list of patterns"),
        ({"include": ["*"], "exclude": "get"}, TypeError, "exclude='get': must be a list"),
        ({"include": []}, ValueError, r"include= must select operations, such as \['tag:orders'\]"),
        ({"prefix": "a b"}, ValueError, "prefix='a b': must be at most 32 letters"),
        ({"prefix": "a" * 33}, ValueError, "at most 32"),
        ({"check_responses": "ignore"}, ValueError, "check_responses='ignore': must be 'refuse' or 'warn'"),
    ],
)
def test_an_option_of_another_kind_is_refused(options: dict[str, Any], kind: type[Exception], fault: str) -> None:
    with pytest.raises(kind, match=fault):
        add(describe(get={}), **options)


def test_names_fit_hosts_and_are_unique() -> None:
    long = "x" * 100
    others: dict[str, Any] = {"a.b/c": {}, "a b c": {}, long: {}, f"{long}y": {}}
    document = describe(get={}, **others)
    document["paths"]["/orders/{id}"] = {"get": {"responses": OK, "parameters": [parameter("id", "path")]}}
    document["paths"]["/"] = {"get": {"operationId": "...", "responses": OK}}

    names = add(document, include=["*", "GET *"], prefix="api_")[1].names

    assert names[:3] == ["api_get", "api_a_b_c", "api_a_b_c_2"]
    assert names[3:5] == [f"api_{long}"[:64], f"api_{long}"[:62] + "_2"]
    assert names[5:] == ["api_get_orders_id", "api_get_2"]


async def test_arguments_of_one_name_have_the_name_of_their_place() -> None:
    parameters = [parameter("id", "path"), parameter("id"), parameter("body"), parameter("ctx"), parameter("a b")]
    content: dict[str, Any] = {"application/json": {"schema": {}}}
    server, _ = add(
        describe(put={"path": "/{id}", "method": "put", "parameters": parameters, "requestBody": {"content": content}})
    )

    schema = (await tools(server))["put"].input_schema
    assert [*schema["properties"]] == ["id_in_path", "id_in_query", "body_in_query", "ctx", "a_b", "body"]
    assert schema["required"] == ["id_in_path"]
    seen = await call(server, "put", id_in_path=1, id_in_query=2, body_in_query=3, ctx=4, a_b=5, body=6)
    assert (seen["path"], seen["query"], seen["body"]) == ("/1", "id=2&body=3&ctx=4&a%20b=5", "6")


async def test_arguments_whose_names_differ_in_other_characters_have_numbers() -> None:
    names = ["limit", "_limit", "filter[a]", "filter.a", "n" * 70, "n" * 71, "$"]
    server, _ = add(describe(get={"parameters": [parameter(name) for name in names]}))

    found = (await tools(server))["get"].input_schema["properties"]
    assert [*found] == ["limit", "limit_2", "filter_a", "filter_a_2", "n" * 64, "n" * 62 + "_2", "value"]
    assert (await call(server, "get", limit=1, limit_2=2, filter_a_2=3))["query"] == "limit=1&_limit=2&filter.a=3"


async def test_parameters_of_a_path_apply_to_its_operations_which_may_replace_them() -> None:
    document = describe(get={"path": "/{id}", "parameters": [{"$ref": "#/components/parameters/Page"}]})
    document["components"]["parameters"] = {"Page": parameter("page", schema={"type": "integer"})}
    document["paths"]["/{id}"]["parameters"] = [parameter("id", "path"), parameter("page", schema={"type": "string"})]
    server, _ = add(document)

    assert (await tools(server))["get"].input_schema["properties"] == {"id": {}, "page": {"type": "integer"}}


async def test_credentials_are_no_arguments() -> None:
    ignored = [parameter(name, "header") for name in ("Authorization", "accept", "Content-Type")]
    server, _ = add(describe(get={"parameters": ignored, "security": [{"key": []}]}))

    assert (await tools(server))["get"].input_schema["properties"] == {}


@pytest.mark.parametrize(
    ("members", "fault"),
    [
        ({"parameters": [parameter("q", "body")]}, "parameters[0]: in must be one of"),
        ({"parameters": [parameter("")]}, "parameters[0]: the name must be a string"),
        ({"parameters": [parameter("q", style="matrix")]}, "the style 'matrix' is not one of parameters in query"),
        ({"parameters": [parameter("q", schema=3)]}, "parameters[0].schema: expected a schema"),
        ({"parameters": [{"$ref": "#/components/parameters/None"}]}, "leads to nothing"),
        ({"parameters": [{"$ref": "other.json#/a"}]}, "'other.json#/a' leads out of the description"),
        ({"parameters": [parameter("q", schema={"$ref": "#/components/schemas/Far"})]}, "leads out of"),
        ({"parameters": [{"$ref": 3}]}, "$ref must be a string"),
        ({"path": "/bad/{id}", "parameters": [parameter("id")]}, "there is no parameter for 'id' in the path"),
        ({"requestBody": "text"}, "requestBody: expected an object"),
        ({"requestBody": {"$ref": "#/components/loop"}}, "requestBody: the references never end"),
        ({"parameters": [parameter("q", schema={"type": "nonsense"})]}, "inputSchema cannot be used"),
    ],
)
async def test_an_operation_that_cannot_be_a_tool_is_left_out_and_the_others_are_tools(
    members: dict[str, Any], fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    document = describe(schemas={"Far": {"$ref": "https://example.com/schema.json"}}, bad=members, good={})
    document["components"]["loop"] = {"$ref": "#/components/loop"}
    server, added = add(document)

    ((label, reason),) = added.left_out.items()
    assert fault in reason
    assert [*await tools(server)] == added.names == ["good"]
    assert f"{label} cannot be a tool" in caplog.text


def test_a_name_that_is_taken_is_no_second_tool() -> None:
    server = Server("s")
    add_asgi(server, MIRROR, source=describe(get={}), include=["*"])

    added = add_asgi(server, MIRROR, source=describe(get={}), include=["*"])

    assert "registered already" in added.left_out["GET /get"]
    assert add_asgi(server, MIRROR, source=describe(get={}), include=["*"], prefix="two_").names == ["two_get"]


def test_an_operation_that_is_nested_too_deeply_is_left_out() -> None:
    schema: dict[str, Any] = {}
    for _ in range(20_000):
        schema = {"items": schema}

    added = add(describe(deep={"parameters": [parameter("q", schema=schema)]}, good={}))[1]

    assert added.names == ["good"]
    assert [*added.left_out] == ["GET /deep"]


# --- Results ---


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (JSONResponse({"a": [1]}), {"a": [1]}),
        (JSONResponse([1, "ä"]), [1, "ä"]),
        (JSONResponse(None), None),
        (JSONResponse({"a": 1}, media_type="application/hal+json; charset=utf-8"), {"a": 1}),
        (Response("plain", media_type="text/plain"), "plain"),
        (Response("<a/>", media_type="application/atom+xml"), "<a/>"),
        (Response("naïve".encode("latin-1"), headers={"Content-Type": "text/plain; charset=latin1"}), "naïve"),
        (Response("naïve", headers={"Content-Type": "text/plain; charset=unknown"}), "naïve"),
        (Response(status_code=204), "204 No Content"),
        (Response(b"\x89PNG", media_type="image/png"), types.ImageContent(data="iVBORw==", mime_type="image/png")),
        (Response(b"ID3", media_type="audio/mpeg"), types.AudioContent(data="SUQz", mime_type="audio/mpeg")),
        (
            Response(b"PK", media_type="application/zip"),
            types.EmbeddedResource(
                resource=types.BlobResourceContents(
                    uri="http://application/get", blob="UEs=", mime_type="application/zip"
                )
            ),
        ),
        (Response("no json", media_type="application/json"), "the API answered application/json that is not JSON"),
    ],
)
async def test_a_response_is_structured_text_or_bytes(response: Response, expected: Any) -> None:
    server, _ = add(describe(get={}), answering(response))

    assert await call(server, "get") == expected


@pytest.mark.parametrize(
    ("response", "said"),
    [
        (
            JSONResponse(
                {"title": "Gone", "detail": "It was sold", "status": 410, "left": 0},
                410,
                media_type="application/problem+json",
            ),
            'the API answered 410 Gone: Gone; It was sold; {"left": 0}',
        ),
        (JSONResponse({"error": {"message": "no", "code": 7}}, 400), "the API answered 400 Bad Request: no; code 7"),
        (JSONResponse({"error": "bad_key"}, 403), "the API answered 403 Forbidden: error bad_key"),
        (JSONResponse([1], 500), "the API answered 500 Internal Server Error: [1]"),
        (Response("{", 500, media_type="application/json"), "the API answered 500 Internal Server Error: {"),
        (Response("<h1>Sorry</h1>", 502, media_type="text/html"), "the API answered 502 Bad Gateway"),
        (Response("Not Found", 404), "the API answered 404 Not Found"),
        (Response("x" * 2000, 500), "the API answered 500 Internal Server Error: " + "x" * 1000 + " [...]"),
        (Response(status_code=599), "the API answered 599"),
        (Response(status_code=302, headers={"Location": "http://elsewhere.test/"}), "the API answered 302 Found"),
        (Response("Bearer s3cret, or s3cret", 401), "the API answered 401 Unauthorized: [removed], or [removed]"),
    ],
)
async def test_a_failure_is_a_tool_error_with_its_details_and_without_secrets(response: Response, said: str) -> None:
    server, _ = add(describe(get={}), answering(response), auth={"Authorization": "Bearer s3cret"})

    async with open_client(server) as client:
        result = await client.call_tool("get")

    assert (result.is_error, await call(server, "get")) == (True, said)


async def test_a_response_that_is_too_long_is_a_tool_error() -> None:
    server, _ = add(describe(get={}), answering(Response("x" * 1001)), max_response_bytes=1000)

    assert await call(server, "get") == "the response is longer than 1000 bytes"


NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
COUNTED = {"responses": {"200": {"content": {"application/json": {"schema": NUMBER}}}}}


async def test_a_response_that_does_not_fit_its_schema_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    server, _ = add(describe(get=COUNTED), answering(JSONResponse({"n": "many"})))

    for _ in range(25):
        assert await call(server, "get") == {"n": "many"}

    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 20
    assert warnings[0].startswith("the response of GET /get does not fit its schema: $.n")


@pytest.mark.parametrize("checks", ["warn", "refuse"])
async def test_a_schema_of_responses_that_cannot_be_used_costs_the_check_and_not_the_tool(
    checks: Any, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = {"type": "object", "properties": {"n": {"pattern": "("}}}
    responses = {"200": {"content": {"application/json": {"schema": wrong}}}}
    server, added = add(
        describe(get={"responses": responses}), answering(JSONResponse({"n": 1})), check_responses=checks
    )

    assert added.names == ["get"]
    for _ in range(2):
        assert await call(server, "get") == {"n": 1}
    (warning,) = [record.getMessage() for record in caplog.records]
    assert warning.startswith("the responses of GET /get are not checked: ")
    assert (await tools(server))["get"].output_schema is None


async def test_a_response_that_fits_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    server, _ = add(describe(get=COUNTED), answering(JSONResponse({"n": 1})))

    assert await call(server, "get") == {"n": 1}
    assert caplog.records == []


async def test_a_response_that_does_not_fit_its_published_schema_is_a_tool_error() -> None:
    server, _ = add(describe(get=COUNTED), answering(JSONResponse({"n": "many"})), check_responses="refuse")

    assert (await tools(server))["get"].output_schema == NUMBER
    assert "$.n" in await call(server, "get")


# --- Addresses and credentials ---


async def test_the_credentials_are_those_of_the_program_and_not_of_the_client() -> None:
    async def of_caller(ctx: Context) -> Mapping[str, str]:
        return {"X-Key": f"for {ctx.client_info.name}" if ctx.client_info else "none"}

    fixed, _ = add(describe(get={}), auth={"X-Key": "fixed"})
    computed, _ = add(describe(get={}), auth=of_caller)
    signed, _ = add(describe(get={}), auth=httpx2.BasicAuth("ada", "secret"))
    none, _ = add(describe(get={}))
    headers = {"Authorization": "Bearer of-the-client", "X-Key": "of-the-client"}

    async def fields(server: Server) -> Any:
        engine = AsgiEngine(http_app(server))
        async with (
            engine.lifespan(),
            open_http_client("http://localhost/mcp", engine=engine, headers=headers) as client,
        ):
            content: Any = (await client.call_tool("get")).structured_content
            return content["fields"]

    assert await fields(fixed) == {"x-key": "fixed"}
    assert await fields(computed) == {"x-key": "for trio-mcp"}
    assert await fields(signed) == {"authorization": "Basic YWRhOnNlY3JldA=="}
    assert await fields(none) == {}


async def test_cookies_of_a_response_are_not_sent_later() -> None:
    async def give_cookie(request: Request) -> Response:
        response = JSONResponse({"cookie": request.headers.get("cookie", "none")})
        response.set_cookie("session", "of the first caller")
        return response

    server, _ = add(describe(get={}), Starlette(routes=[Route("/get", give_cookie)]))

    assert [await call(server, "get") for _ in range(2)] == [{"cookie": "none"}] * 2


async def test_a_header_of_the_credentials_replaces_an_argument() -> None:
    server, _ = add(describe(get={"parameters": [parameter("x-key", "header")]}), auth={"X-Key": "fixed"})

    assert (await call(server, "get", **{"x-key": "of the model"}))["fields"] == {"x-key": "fixed"}


async def test_a_server_that_serves_single_requests_calls_an_api_too() -> None:
    server, _ = add(describe(get={}))

    async with open_http_client("http://localhost/mcp", engine=AsgiEngine(http_app(server))) as client:
        assert (await client.call_tool("get")).structured_content["path"] == "/get"


async def test_an_api_is_called_over_a_socket_at_the_server_of_its_description() -> None:
    greeter = Server("greeter")

    @greeter.tool
    async def unused() -> None: ...

    async with trio.open_nursery() as nursery:
        bound = await nursery.start(partial(serve_http, greeter, port=0))
        base = bound.url.removesuffix("/mcp")
        document = describe(
            get={"path": "/mcp"},
            other={"path": "/mcp", "method": "put", "servers": [{"url": base}]},
            near={"path": "/", "servers": [{"url": "/mcp"}]},
        )
        document["servers"] = [{"url": "http://{host}/", "variables": {"host": {"default": base[7:]}}}]
        server = Server("web")
        add_openapi(server, document, include=["*"])
        assert "the API answered 4" in await call(server, "get")
        assert "the API answered 4" in await call(server, "other")
        assert "the API answered 40" in await call(server, "near")
        await bound.stop()
        assert await call(server, "get") == "the API cannot be reached: ConnectError"


@pytest.mark.parametrize(
    "servers", [[], [{"url": "/v1"}], [{"url": 3}], ["text"], "text", [{"url": "ftp://example.com"}]]
)
def test_a_description_without_an_absolute_url_needs_a_base_url(servers: Any) -> None:
    document = {**describe(get={}), "servers": servers}

    with pytest.raises(ValueError, match="is not an absolute URL; pass base_url="):
        add_openapi(Server("s"), document, include=["*"])
    with pytest.raises(ValueError, match=r"base_url='example\.com': must be an http or https URL"):
        add_openapi(Server("s"), document, include=["*"], base_url="example.com")
    assert add_openapi(Server("s"), document, include=["*"], base_url="https://example.com/v1/").names == ["get"]


def test_an_application_may_describe_itself() -> None:
    class Described(Starlette):
        def openapi(self) -> dict[str, Any]:
            return describe(get={})

    assert add_asgi(Server("s"), Described(), include=["*"]).names == ["get"]
    with pytest.raises(TypeError, match="pass source="):
        add_asgi(Server("s"), MIRROR, include=["*"])
