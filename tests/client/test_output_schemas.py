"""Output schemas that a client has seen in lists of tools, and the results that it checks with them."""

from __future__ import annotations

from typing import Any

import pytest

from trio_mcp import RemoteProtocolError, types
from trio_mcp.client import _lists
from trio_mcp.client._lists import KnownTools

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TEXT = {"type": "object", "properties": {"n": {"type": "string"}}, "required": ["n"]}


async def fetch_nothing(*_: object, **__: object) -> types.ListToolsResult:
    raise AssertionError("a page was requested")


def known_tools(*tools: types.Tool) -> KnownTools:
    known = KnownTools(fetch_nothing)
    known.learn_outputs(tools)
    return known


def check(known: KnownTools, content: types.CallToolResult, name: str = "t") -> None:
    output = known.outputs.get(name)
    if output is not None:
        output.check(content)


def tool(schema: dict[str, Any] | None, name: str = "t") -> types.Tool:
    return types.Tool(name=name, input_schema={"type": "object"}, output_schema=schema)


def result(content: Any = types.UNSET, *, is_error: bool | None = None) -> types.CallToolResult:
    return types.CallToolResult(content=[], structured_content=content, is_error=is_error)


def test_results_of_unknown_tools_are_not_checked() -> None:
    check(known_tools(), result())


@pytest.mark.requirement("B.20-C3")
def test_content_is_validated_against_the_latest_schema() -> None:
    known = known_tools(tool(NUMBER))
    known.learn_outputs([tool(dict(NUMBER))])
    check(known, result({"n": 1}))

    known.learn_outputs([tool(TEXT)])
    check(known, result({"n": "1"}))
    with pytest.raises(RemoteProtocolError, match=r"the result of tool 't' .* \$\.n"):
        check(known, result({"n": 1}))

    known.learn_outputs([tool(None)])
    check(known, result())


def test_null_is_structured_content() -> None:
    known = known_tools(tool({"type": "null"}))

    check(known, result(None))
    with pytest.raises(RemoteProtocolError, match="returned no structured content, which its output schema requires"):
        check(known, result())


def test_an_error_result_is_not_checked() -> None:
    known = known_tools(tool(NUMBER))

    check(known, result(is_error=True))


@pytest.mark.requirement("B.20-J3", "B.20-J6")
@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "nothing"}, "not a usable JSON Schema"),
        ({"$ref": "https://example.com/schema.json"}, "which is not fetched"),
        ({"$schema": "https://example.com/dialect"}, "unknown JSON Schema dialect"),
    ],
)
def test_an_unusable_output_schema_is_a_protocol_error_of_the_server(schema: dict[str, Any], why: str) -> None:
    known = known_tools(tool(schema))

    with pytest.raises(RemoteProtocolError, match=f"the output schema of tool 't' cannot be used: .*{why}"):
        check(known, result({}))


def test_the_number_of_output_schemas_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_lists, "MAX_SCHEMAS", 2)
    known = known_tools(*(tool(NUMBER, name) for name in ("a", "b", "c")))

    check(known, result(), "c")
    with pytest.raises(RemoteProtocolError):
        check(known, result(), "b")
