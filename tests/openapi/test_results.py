"""The schemas of successful responses: which are published, and which responses are checked."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.openapi.helpers import add, call, describe, parameter, tools

NUMBER: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
WORD: dict[str, Any] = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
NODE = {"type": "object", "properties": {"next": {"$ref": "#/components/schemas/Node"}}}
REFERENCE = {"$ref": "#/components/schemas/Node"}


def responses(**schemas: Any) -> dict[str, Any]:
    """Return responses with a schema of JSON for each status, which is a keyword after ``of_``."""
    return {
        "responses": {
            status.removeprefix("of_"): {"content": {} if schema is None else {"application/json": {"schema": schema}}}
            for status, schema in schemas.items()
        }
    }


async def _answer(request: Request) -> Response:
    """Answer with the status and the JSON that the query wants."""
    status, text = int(request.query_params["status"]), request.query_params["json"]
    return Response(text, status, media_type="application/json" if text else None)


ANSWERING = Starlette(routes=[Route("/get", _answer)])
WANTED = {"parameters": [parameter("status"), parameter("json")]}


async def published(schemas: dict[str, Any], **of: Any) -> Any:
    server, added = add(describe(schemas=schemas, get=responses(**of)), check_responses="refuse")
    assert added.left_out == {}
    return (await tools(server))["get"].output_schema


@pytest.mark.parametrize(
    ("schema", "output"),
    [
        (NUMBER, NUMBER),
        ({"type": "array", "items": {"type": "integer"}}, {"type": "array", "items": {"type": "integer"}}),
        (REFERENCE, {"$ref": "#/$defs/Node", "type": "object"}),
        ({"allOf": [NUMBER, {"description": "counted"}]}, {"allOf": [NUMBER, {"description": "counted"}]}),
        (True, None),
        ({}, None),
        (None, None),
    ],
)
async def test_the_schema_of_a_success_is_the_output_schema(schema: Any, output: Any) -> None:
    found = await published({"Node": NODE}, of_200=schema, of_404=WORD)

    if output is None:
        assert found is None
    else:
        assert {keyword: each for keyword, each in found.items() if keyword != "$defs"} == {
            **output,
            **({"type": "object"} if "allOf" in output else {}),
        }


async def test_the_schemas_of_several_successes_are_alternatives() -> None:
    assert await published({}, of_200=NUMBER, of_201=NUMBER) == NUMBER
    assert await published({}, of_200=NUMBER, of_201=WORD) == {"type": "object", "anyOf": [NUMBER, WORD]}
    assert await published({}, of_200=NUMBER, of_2xx={"type": "array"}) == {"anyOf": [NUMBER, {"type": "array"}]}
    both = await published({"Node": NODE}, of_200=REFERENCE, of_201={"type": "array", "items": REFERENCE})
    assert both["anyOf"] == [{"$ref": "#/$defs/Node"}, {"type": "array", "items": {"$ref": "#/$defs/Node"}}]
    assert [*both["$defs"]] == ["Node"]


async def test_an_operation_that_may_answer_without_json_has_no_output_schema() -> None:
    assert await published({}, of_200=NUMBER, of_204=None) is None


@pytest.mark.parametrize(
    ("status", "text", "said"),
    [
        (200, '{"n": 1}', {"n": 1}),
        (200, '{"n": "many"}', "the response does not fit its schema: $.n"),
        (201, '{"word": "a"}', {"word": "a"}),
        (201, '{"n": 1}', "the response does not fit its schema: $.word"),
        (202, '{"n": 1}', {"n": 1}),
        (202, '{"word": "a"}', "the response does not fit its schema: $.n"),
        (204, "", "204 No Content"),
    ],
)
async def test_a_response_is_checked_by_the_schema_of_its_status(status: int, text: str, said: Any) -> None:
    of = responses(of_200=NUMBER, of_201=WORD, of_204=None, of_2xx=NUMBER)
    server, _ = add(describe(get={**WANTED, **of}), ANSWERING, check_responses="refuse")

    answer = await call(server, "get", status=status, json=text)

    assert answer.startswith(said) if isinstance(said, str) else answer == said


async def test_a_response_without_json_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    server, _ = add(describe(get={**WANTED, **responses(of_200=NUMBER)}), ANSWERING)

    assert await call(server, "get", status=204, json="") == "204 No Content"
    assert await call(server, "get", status=206, json='"any"') == "any"
    assert caplog.records == []


async def test_schemas_of_responses_that_lead_nowhere_cost_the_check_and_not_the_tool(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server, added = add(describe(get=responses(of_200={"$ref": "other.json"})), check_responses="refuse")

    assert (added.names, added.left_out) == (["get"], {})
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "the responses of GET /get are not checked: " in record.getMessage()
    assert "'other.json' leads out of the description" in record.getMessage()
    assert (await call(server, "get"))["path"] == "/get"


async def test_links_of_a_response_are_no_tools() -> None:
    made = responses(of_201=NUMBER)
    made["responses"]["201"]["links"] = {
        "get": {"operationId": "get", "parameters": {"n": "$response.body#/n"}},
        "away": {"operationRef": "https://example.com/openapi.json#/paths/~1get"},
    }
    server, added = add(
        describe(make={"method": "post", **made}, get={}), Starlette(routes=[Route("/make", _made, methods=["POST"])])
    )

    assert (added.names, added.left_out) == (["make", "get"], {})
    assert await call(server, "make") == {"n": 1}


async def _made(_: Request) -> Response:
    return JSONResponse({"n": 1}, 201)
