"""What a client remembers of output schemas."""

from __future__ import annotations

from typing import Any

import pytest

from trio_mcp import RemoteProtocolError, types
from trio_mcp.client import _lists as _output_schemas
from trio_mcp.client._lists import OutputSchemas

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TEXT = {"type": "object", "properties": {"n": {"type": "string"}}, "required": ["n"]}


def tool(schema: dict[str, Any] | None, name: str = "t") -> types.Tool:
    return types.Tool(name=name, input_schema={"type": "object"}, output_schema=schema)


def result(content: Any = types.UNSET, *, is_error: bool | None = None) -> types.CallToolResult:
    return types.CallToolResult(content=[], structured_content=content, is_error=is_error)


def test_what_is_not_known_is_not_checked() -> None:
    OutputSchemas().check("t", result())


@pytest.mark.requirement("B.20-C3")
def test_content_is_compared_with_the_latest_schema() -> None:
    schemas = OutputSchemas()
    schemas.learn([tool(NUMBER)])
    schemas.learn([tool(dict(NUMBER))])
    schemas.check("t", result({"n": 1}))

    schemas.learn([tool(TEXT)])
    schemas.check("t", result({"n": "1"}))
    with pytest.raises(RemoteProtocolError, match=r"what tool 't' returned .* \$\.n"):
        schemas.check("t", result({"n": 1}))

    schemas.learn([tool(None)])
    schemas.check("t", result())


def test_null_is_content() -> None:
    schemas = OutputSchemas()
    schemas.learn([tool({"type": "null"})])

    schemas.check("t", result(None))
    with pytest.raises(RemoteProtocolError, match="promised structured content and returned none"):
        schemas.check("t", result())


def test_a_result_that_says_it_failed_promised_nothing() -> None:
    schemas = OutputSchemas()
    schemas.learn([tool(NUMBER)])

    schemas.check("t", result(is_error=True))


@pytest.mark.requirement("B.20-J3", "B.20-J6")
@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "nothing"}, "not a usable JSON Schema"),
        ({"$ref": "https://example.com/schema.json"}, "which is not fetched"),
        ({"$schema": "https://example.com/dialect"}, "unknown JSON Schema dialect"),
    ],
)
def test_a_schema_that_cannot_be_used_is_the_server_s_mistake(schema: dict[str, Any], why: str) -> None:
    schemas = OutputSchemas()
    schemas.learn([tool(schema)])

    with pytest.raises(RemoteProtocolError, match=f"the output schema of tool 't' cannot be used: .*{why}"):
        schemas.check("t", result({}))


def test_a_server_cannot_make_us_remember_any_number_of_schemas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_output_schemas, "MAX_SCHEMAS", 2)
    schemas = OutputSchemas()
    schemas.learn([tool(NUMBER, name) for name in ("a", "b", "c")])

    schemas.check("c", result())
    with pytest.raises(RemoteProtocolError):
        schemas.check("b", result())
